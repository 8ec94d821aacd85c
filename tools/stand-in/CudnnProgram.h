//===- CudnnProgram.h - An operation graph as a program ---------*- C++ -*-===//

#ifndef MOE_TOOLS_STAND_IN_CUDNNPROGRAM_H
#define MOE_TOOLS_STAND_IN_CUDNNPROGRAM_H

#include <cudnn_graph.h>

#include <array>
#include <stdexcept>
#include <string>
#include <vector>

namespace standin {

/// What a call of cuDNN answers with.
struct Fault : std::runtime_error {
  cudnnStatus_t status;
  Fault(cudnnStatus_t status, const std::string &text)
      : std::runtime_error(text), status(status) {}
};
[[noreturn]] inline void unsupported(const std::string &text) {
  throw Fault(CUDNN_STATUS_NOT_SUPPORTED, text);
}
inline void require(bool holds, const std::string &text) {
  if (!holds)
    throw Fault(CUDNN_STATUS_BAD_PARAM, text);
}

using Dims = std::array<int64_t, 4>;

struct Tensor {
  int64_t uid;
  Dims dims, strides;
  cudnnDataType_t type;
  bool isVirtual, byValue;
  /// By a step of the program.
  bool written = false;

  int64_t elements() const { return dims[0] * dims[1] * dims[2] * dims[3]; }
  int64_t bytes() const {
    int64_t last = 0;
    for (int i = 0; i < 4; ++i)
      last += (dims[i] - 1) * strides[i];
    return (last + 1) * (type == CUDNN_DATA_BFLOAT16 ? 2 : 4);
  }
};

struct Step {
  cudnnBackendDescriptorType_t kind;
  /// cudnnPointwiseMode_t or cudnnReduceTensorOp_t.
  int mode = 0;
  /// Of CUDNN_POINTWISE_GEN_INDEX.
  int64_t axis = 0;
  std::vector<int> in;
  int out = 0;
};

/// Elements in row-major order, whatever the strides.
using Values = std::vector<float>;

/// Ops in an order in which each reads what is written before.
class Program {
public:
  /// Index of the tensor of this name; the first call adds it.
  int tensor(const Tensor &tensor);
  void add(const Step &step);
  const std::vector<Tensor> &tensors() const { return all; }
  /// Pointers and scalars (of tensors by value) are by index of the tensor.
  void run(void *const *pointers, const float *scalars) const;

private:
  void check(const Step &step) const;
  void compute(const Step &step, std::vector<Values> &values) const;

  std::vector<Tensor> all;
  std::vector<Step> steps;
};

} // namespace standin

#endif // MOE_TOOLS_STAND_IN_CUDNNPROGRAM_H
