//===- Elementwise.cpp - Embedding, rotation, activation, add, zero -------===//

#include "Library.h"
#include "Support.h"

#include <map>
#include <memory>
#include <mutex>
#include <tuple>

using namespace moert;
using namespace moert::kernels;

namespace {

//===----------------------------------------------------------------------===//
// embedding: table, ids -> y; wgrad: ids, dy, acc
//===----------------------------------------------------------------------===//

/// An id outside of the table gives a row of NaNs: seen in the loss, and no
/// access out of bounds.
template <typename T> void runEmbedding(const Args &args, int64_t tile) {
  int64_t vocabulary = args.dim(0, 0), width = args.dim(0, 1);
  const T *table = args.pointer<T>(0);
  const int32_t *ids = args.pointer<int32_t>(1);
  T *y = args.pointer<T>(2);
  Range rows = tileRows<2>(args, tile);
  for (int64_t t = rows.begin; t < rows.end; ++t) {
    if (ids[t] >= 0 && ids[t] < vocabulary)
      std::copy_n(table + ids[t] * width, width, y + t * width);
    else
      for (int64_t j = 0; j < width; ++j)
        store(y[t * width + j], NAN);
  }
}

// Tokens may share a row: tiles are runs of columns, tokens come in order.
constexpr int64_t kColumns = 256;

int64_t embeddingWgradTiles(const Launch &launch) {
  return ceilDiv(Args(launch).dim(2, 1), kColumns);
}

template <typename T> void runEmbeddingWgrad(const Args &args, int64_t tile) {
  int64_t vocabulary = args.dim(2, 0), width = args.dim(2, 1);
  const int32_t *ids = args.pointer<int32_t>(0);
  const T *dy = args.pointer<T>(1);
  float *acc = args.pointer<float>(2);
  Range columns = slice(width, kColumns, tile);
  for (int64_t t = 0; t < args.dim(0, 0); ++t) {
    if (ids[t] < 0 || ids[t] >= vocabulary)
      continue;
    float *to = acc + ids[t] * width;
    for (int64_t j = columns.begin; j < columns.end; ++j)
      to[j] += load(dy[t * width + j]);
  }
}

//===----------------------------------------------------------------------===//
// rope: x -> y
//===----------------------------------------------------------------------===//

/// Cosines and sines of position p and frequency i at [p * d/2 + i], computed
/// in double: at position 4096 a float angle is off by 2e-4.
struct Rotation {
  std::vector<float> cosines, sines;
};

/// Made once per process for each head width, base and sequence.
const Rotation &rotation(int64_t headDim, double base, int64_t sequence) {
  static std::mutex mutex;
  static std::map<std::tuple<int64_t, double, int64_t>,
                  std::unique_ptr<Rotation>>
      rotations;
  std::lock_guard<std::mutex> lock(mutex);
  std::unique_ptr<Rotation> &entry = rotations[{headDim, base, sequence}];
  if (!entry) {
    entry = std::make_unique<Rotation>();
    for (int64_t p = 0; p < sequence; ++p)
      for (int64_t i = 0; i < headDim / 2; ++i) {
        double angle = p * std::pow(base, -2.0 * i / headDim);
        entry->cosines.push_back(float(std::cos(angle)));
        entry->sines.push_back(float(std::sin(angle)));
      }
  }
  return *entry;
}

template <typename T> void runRope(const Args &args, int64_t tile) {
  int64_t width = args.width(0), headDim = args.integer("head_dim");
  int64_t sequence = args.integer("sequence"), half = headDim / 2;
  float sign = args.integer("inverse") ? -1.0f : 1.0f;
  const Rotation &table = rotation(headDim, args.real("base"), sequence);
  Range rows = tileRows<0>(args, tile);
  for (int64_t t = rows.begin; t < rows.end; ++t) {
    const float *cosines = &table.cosines[t % sequence * half];
    const float *sines = &table.sines[t % sequence * half];
    for (int64_t head = 0; head < width; head += headDim) {
      const T *x = args.pointer<T>(0) + t * width + head;
      T *y = args.pointer<T>(1) + t * width + head;
      for (int64_t i = 0; i < half; ++i) {
        float a = load(x[i]), b = load(x[half + i]);
        float c = cosines[i], s = sign * sines[i];
        store(y[i], a * c - b * s);
        store(y[half + i], b * c + a * s);
      }
    }
  }
}

//===----------------------------------------------------------------------===//
// add: a, b -> y; zero: -> y
//===----------------------------------------------------------------------===//

template <typename T> void runAdd(const Args &args, int64_t tile) {
  const T *a = args.pointer<T>(0), *b = args.pointer<T>(1);
  T *y = args.pointer<T>(2);
  Range r = tileElements<2>(args, tile);
  for (int64_t i = r.begin; i < r.end; ++i)
    store(y[i], load(a[i]) + load(b[i]));
}

void runZero(const Args &args, int64_t tile) {
  Range r = tileElements<0>(args, tile);
  std::fill_n(args.pointer<float>(0) + r.begin, r.size(), 0.0f);
}

//===----------------------------------------------------------------------===//
// swiglu: x, p, rows -> a; grad: x, p, da, rows -> dx, dp
//===----------------------------------------------------------------------===//

/// The tile's rows that hold data.
template <int RowsOperand>
Range raggedTileRows(const Args &args, int64_t tile) {
  Range r = tileRows<0>(args, tile);
  int64_t total = RaggedRows(args.pointer<int32_t>(RowsOperand),
                             args.dim(RowsOperand, 0), args.dim(0, 0))
                      .total();
  return {r.begin, std::min(r.end, total)};
}

template <typename T> void runSwiglu(const Args &args, int64_t tile) {
  int64_t f = args.dim(3, 1);
  Range rows = raggedTileRows<2>(args, tile);
  for (int64_t t = rows.begin; t < rows.end; ++t) {
    const T *gate = args.pointer<T>(0) + t * 2 * f, *up = gate + f;
    float p = load(args.pointer<T>(1)[t]);
    T *a = args.pointer<T>(3) + t * f;
    for (int64_t j = 0; j < f; ++j) {
      float g = load(gate[j]);
      store(a[j], g * sigmoid(g) * load(up[j]) * p);
    }
  }
}

template <typename T> void runSwigluGrad(const Args &args, int64_t tile) {
  int64_t f = args.dim(2, 1);
  float *act = scratch<0>(f);
  Range rows = raggedTileRows<3>(args, tile);
  for (int64_t t = rows.begin; t < rows.end; ++t) {
    const T *gate = args.pointer<T>(0) + t * 2 * f, *up = gate + f;
    const T *da = args.pointer<T>(2) + t * f;
    float p = load(args.pointer<T>(1)[t]);
    T *dGate = args.pointer<T>(4) + t * 2 * f, *dUp = dGate + f;
    for (int64_t j = 0; j < f; ++j) {
      float g = load(gate[j]), u = load(up[j]), d = load(da[j]) * p;
      float s = sigmoid(g);
      act[j] = g * s * u;
      store(dUp[j], d * g * s);
      store(dGate[j], d * u * s * (1.0f + g * (1.0f - s)));
    }
    float dp = sumOf(f, [&](int64_t j) { return load(da[j]) * act[j]; });
    store(args.pointer<T>(5)[t], dp);
  }
}

} // namespace

const HostKernel kernels::embedding = {
    rowTiles<2>, typed<0, runEmbedding<float>, runEmbedding<BF16>>};
const HostKernel kernels::embeddingWgrad = {
    embeddingWgradTiles,
    typed<1, runEmbeddingWgrad<float>, runEmbeddingWgrad<BF16>>};
const HostKernel kernels::rope = {rowTiles<0>,
                                  typed<0, runRope<float>, runRope<BF16>>};
const HostKernel kernels::add = {flatTiles<2>,
                                 typed<0, runAdd<float>, runAdd<BF16>>};
const HostKernel kernels::zero = {flatTiles<0>, untyped<runZero>};
const HostKernel kernels::swiglu = {
    rowTiles<0>, typed<0, runSwiglu<float>, runSwiglu<BF16>>};
const HostKernel kernels::swigluGrad = {
    rowTiles<0>, typed<0, runSwigluGrad<float>, runSwigluGrad<BF16>>};
