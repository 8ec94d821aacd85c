//===- CudnnProgram.cpp - Operation graphs, op by op ------------*- C++ -*-===//

#include "CudnnProgram.h"
#include "Numbers.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace standin {
namespace {

/// f(index in row-major order, offset by `strides`) for all elements.
template <typename F> void each(const Dims &dims, const Dims &strides, F f) {
  int64_t n = 0;
  for (int64_t a = 0; a < dims[0]; ++a)
    for (int64_t b = 0; b < dims[1]; ++b)
      for (int64_t c = 0; c < dims[2]; ++c)
        for (int64_t d = 0; d < dims[3]; ++d)
          f(n++,
            a * strides[0] + b * strides[1] + c * strides[2] + d * strides[3]);
}

Dims rowMajor(const Dims &d) {
  return {d[1] * d[2] * d[3], d[2] * d[3], d[3], 1};
}

/// Row-major strides of x as seen with the shape of y: 0 along what is
/// broadcast.
Dims broadcast(const Dims &x, const Dims &y) {
  Dims strides = rowMajor(x);
  for (int i = 0; i < 4; ++i) {
    require(x[i] == y[i] || x[i] == 1, "shapes that don't broadcast");
    if (x[i] != y[i])
      strides[i] = 0;
  }
  return strides;
}

/// use(f), where f(x, b, t) is what the mode does with an element.
template <typename Use> void withPointwise(int mode, Use use) {
  switch (mode) {
  case CUDNN_POINTWISE_ADD:
    return use([](float x, float b, float) { return x + b; });
  case CUDNN_POINTWISE_SUB:
    return use([](float x, float b, float) { return x - b; });
  case CUDNN_POINTWISE_MUL:
    return use([](float x, float b, float) { return x * b; });
  case CUDNN_POINTWISE_DIV:
    return use([](float x, float b, float) { return x / b; });
  case CUDNN_POINTWISE_EXP:
    return use([](float x, float, float) { return std::exp(x); });
  case CUDNN_POINTWISE_LOG:
    return use([](float x, float, float) { return std::log(x); });
  case CUDNN_POINTWISE_IDENTITY:
    return use([](float x, float, float) { return x; });
  case CUDNN_POINTWISE_CMP_GE:
    return use([](float x, float b, float) { return x >= b ? 1.f : 0.f; });
  case CUDNN_POINTWISE_BINARY_SELECT:
    return use([](float x, float b, float t) { return t != 0 ? x : b; });
  default:
    unsupported("pointwise mode " + std::to_string(mode));
  }
}

/// Of few heads, the one that output head `head` of `heads` takes.
int64_t shared(int64_t head, int64_t heads, int64_t few) {
  return head / (heads / few);
}

} // namespace

int Program::tensor(const Tensor &tensor) {
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i].uid == tensor.uid)
      return int(i);
  if (!tensor.isVirtual && tensor.type != CUDNN_DATA_FLOAT &&
      tensor.type != CUDNN_DATA_BFLOAT16)
    unsupported("a tensor in memory that is neither f32 nor bf16");
  all.push_back(tensor);
  return int(all.size()) - 1;
}

void Program::add(const Step &step) {
  for (int i : step.in)
    require(!all[i].isVirtual || all[i].written,
            "tensor " + std::to_string(all[i].uid) + " is read before written");
  require(!std::exchange(all[step.out].written, true),
          "tensor " + std::to_string(all[step.out].uid) + " is written twice");
  check(step);
  steps.push_back(step);
}

/// All that `compute` relies on.
void Program::check(const Step &step) const {
  require(!step.in.empty(), "an operation without inputs");
  const Dims &x = all[step.in[0]].dims, &y = all[step.out].dims;
  switch (step.kind) {
  case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR: {
    require(step.in.size() == 2, "a product has two inputs");
    const Dims &b = all[step.in[1]].dims;
    require(x == Dims{y[0], x[1], y[2], x[3]} &&
                b == Dims{y[0], b[1], x[3], y[3]} && y[1] % x[1] == 0 &&
                y[1] % b[1] == 0,
            "shapes of a product");
    break;
  }
  case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
    for (int i : step.in)
      broadcast(all[i].dims, y);
    if (step.mode == CUDNN_POINTWISE_GEN_INDEX)
      require(step.axis >= 0 && step.axis < 4, "axis of an index");
    else
      withPointwise(step.mode, [](auto) {});
    break;
  case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
    if (step.mode != CUDNN_REDUCE_TENSOR_MAX &&
        step.mode != CUDNN_REDUCE_TENSOR_ADD)
      unsupported("reduction " + std::to_string(step.mode));
    for (int i = 0; i < 4; ++i)
      require(x[i] % y[i] == 0, "shapes of a reduction");
    break;
  default: {
    Dims dims = x, strides = all[step.in[0]].strides;
    std::swap(dims[2], dims[3]);
    std::swap(strides[2], strides[3]);
    if (dims != y || strides != all[step.out].strides)
      unsupported("a reshape that is no transpose");
  }
  }
}

void Program::compute(const Step &step, std::vector<Values> &values) const {
  const Tensor &y = all[step.out];
  Values &out = values[step.out];
  out.assign(y.elements(), 0.0f);
  auto in = [&](size_t i) -> const Tensor & { return all[step.in.at(i)]; };
  const Tensor &x = in(0);
  const Values &xs = values[step.in[0]];
  switch (step.kind) {
  case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR: {
    int64_t m = y.dims[2], n = y.dims[3], k = x.dims[3], heads = y.dims[1];
    const Dims &b = in(1).dims;
    for (int64_t i = 0; i < y.dims[0] * heads; ++i) {
      int64_t batch = i / heads, head = i % heads;
      const float *left =
          &xs[(batch * x.dims[1] + shared(head, heads, x.dims[1])) * m * k];
      const float *right =
          &values[step.in[1]]
                 [(batch * b[1] + shared(head, heads, b[1])) * k * n];
      for (int64_t row = 0; row < m; ++row)
        for (int64_t l = 0; l < k; ++l) {
          const float *from = right + l * n;
          float *to = &out[(i * m + row) * n], factor = left[row * k + l];
          for (int64_t column = 0; column < n; ++column)
            to[column] += factor * from[column];
        }
    }
    break;
  }
  case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR: {
    if (step.mode == CUDNN_POINTWISE_GEN_INDEX) {
      Dims along{};
      along[step.axis] = 1;
      each(y.dims, along, [&](int64_t i, int64_t at) { out[i] = float(at); });
      break;
    }
    // An operand that the mode does not have is one zero.
    const float zero = 0;
    std::array<const float *, 3> from = {&zero, &zero, &zero};
    std::array<Dims, 3> by{};
    for (size_t i = 0; i < step.in.size(); ++i) {
      from[i] = values[step.in[i]].data();
      by[i] = broadcast(in(i).dims, y.dims);
    }
    withPointwise(step.mode, [&](auto f) {
      Dims rows = {y.dims[0], y.dims[1], y.dims[2], 1};
      each(rows, rowMajor(rows), [&](int64_t row, int64_t) {
        std::array<const float *, 3> at = from;
        int64_t c = row % rows[2], b = row / rows[2] % rows[1],
                a = row / rows[2] / rows[1];
        for (int i = 0; i < 3; ++i)
          at[i] += a * by[i][0] + b * by[i][1] + c * by[i][2];
        for (int64_t d = 0; d < y.dims[3]; ++d)
          out[row * y.dims[3] + d] =
              f(at[0][d * by[0][3]], at[1][d * by[1][3]], at[2][d * by[2][3]]);
      });
    });
    break;
  }
  case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR: {
    bool maximum = step.mode == CUDNN_REDUCE_TENSOR_MAX;
    if (maximum)
      out.assign(out.size(), -INFINITY);
    // A dimension may shrink to one element or to groups of neighbours.
    Dims to = rowMajor(y.dims);
    std::array<std::vector<int64_t>, 4> at;
    for (int axis = 0; axis < 4; ++axis)
      for (int64_t i = 0, group = x.dims[axis] / y.dims[axis]; i < x.dims[axis];
           ++i)
        at[axis].push_back(i / group * to[axis]);
    const float *next = xs.data();
    for (int64_t a : at[0])
      for (int64_t b : at[1])
        for (int64_t c : at[2])
          for (int64_t d : at[3]) {
            float &result = out[a + b + c + d];
            result = maximum ? std::max(result, *next) : result + *next;
            ++next;
          }
    break;
  }
  default: { // A reshape that is a transpose.
    Dims from = rowMajor(x.dims);
    std::swap(from[2], from[3]);
    each(y.dims, from, [&](int64_t i, int64_t at) { out[i] = xs[at]; });
  }
  }
  if (y.type == CUDNN_DATA_BFLOAT16)
    for (float &v : out)
      v = float(Bf16(v));
}

void Program::run(void *const *pointers, const float *scalars) const {
  std::vector<Values> values(all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    const Tensor &t = all[i];
    if (t.byValue)
      values[i] = {scalars[i]};
    if (t.byValue || t.isVirtual || t.written)
      continue;
    values[i].resize(t.elements());
    each(t.dims, t.strides, [&](int64_t j, int64_t at) {
      values[i][j] = t.type == CUDNN_DATA_FLOAT
                         ? static_cast<const float *>(pointers[i])[at]
                         : float(static_cast<const Bf16 *>(pointers[i])[at]);
    });
  }
  for (const Step &step : steps)
    compute(step, values);
  for (size_t i = 0; i < all.size(); ++i) {
    const Tensor &t = all[i];
    if (t.isVirtual || !t.written)
      continue;
    each(t.dims, t.strides, [&](int64_t j, int64_t at) {
      if (t.type == CUDNN_DATA_FLOAT)
        static_cast<float *>(pointers[i])[at] = values[i][j];
      else
        static_cast<Bf16 *>(pointers[i])[at] = Bf16(values[i][j]);
    });
  }
}

} // namespace standin
