//===- CudnnGraph.h - Operation graphs of cuDNN -----------------*- C++ -*-===//
//
// cuDNN's backend API with owned descriptors, and a builder that reads like
// the formula: each method adds an operation and returns its result. Failures
// are thrown as CudnnFailure in cuDNN's own words.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_LIB_RUNTIME_CUDA_CUDNNGRAPH_H
#define MOE_LIB_RUNTIME_CUDA_CUDNNGRAPH_H

#include <cudnn_graph.h>

#include <deque>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <vector>

namespace moert::cuda {

struct CudnnFailure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Throws if `status` isn't success; `what` says what was tried.
void checkCudnn(cudnnStatus_t status, const std::string &what);

//===----------------------------------------------------------------------===//
// Descriptors
//===----------------------------------------------------------------------===//

inline constexpr auto attributeType(int64_t) { return CUDNN_TYPE_INT64; }
inline constexpr auto attributeType(bool) { return CUDNN_TYPE_BOOLEAN; }
inline constexpr auto attributeType(char) { return CUDNN_TYPE_CHAR; }
inline constexpr auto attributeType(void *) { return CUDNN_TYPE_VOID_PTR; }
inline constexpr auto attributeType(cudnnHandle_t) { return CUDNN_TYPE_HANDLE; }
inline constexpr auto attributeType(cudnnDataType_t) {
  return CUDNN_TYPE_DATA_TYPE;
}
inline constexpr auto attributeType(cudnnPointwiseMode_t) {
  return CUDNN_TYPE_POINTWISE_MODE;
}
inline constexpr auto attributeType(cudnnReduceTensorOp_t) {
  return CUDNN_TYPE_REDUCTION_OPERATOR_TYPE;
}
inline constexpr auto attributeType(cudnnBackendHeurMode_t) {
  return CUDNN_TYPE_HEUR_MODE;
}
inline constexpr auto attributeType(cudnnBackendKnobType_t) {
  return CUDNN_TYPE_KNOB_TYPE;
}
inline constexpr auto attributeType(cudnnBackendNumericalNote_t) {
  return CUDNN_TYPE_NUMERICAL_NOTE;
}

class Descriptor {
public:
  explicit Descriptor(cudnnBackendDescriptorType_t type);
  Descriptor(Descriptor &&other) noexcept : raw(other.raw) {
    other.raw = nullptr;
  }
  Descriptor &operator=(Descriptor &&other) noexcept {
    std::swap(raw, other.raw);
    return *this;
  }
  ~Descriptor();

  cudnnBackendDescriptor_t get() const { return raw; }

  template <typename T>
  Descriptor &set(cudnnBackendAttributeName_t name, const T &value) {
    return setRaw(name, attributeType(value), 1, &value);
  }
  template <typename T>
  Descriptor &set(cudnnBackendAttributeName_t name,
                  const std::vector<T> &values) {
    return setRaw(name, attributeType(T()), int64_t(values.size()),
                  values.data());
  }
  Descriptor &set(cudnnBackendAttributeName_t name, const Descriptor &value) {
    return setRaw(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value.raw);
  }
  Descriptor &set(cudnnBackendAttributeName_t name, const std::string &text) {
    return setRaw(name, CUDNN_TYPE_CHAR, int64_t(text.size()), text.data());
  }
  Descriptor &set(cudnnBackendAttributeName_t name,
                  const std::deque<Descriptor> &values);
  Descriptor &finalize();

  template <typename T> T value(cudnnBackendAttributeName_t name) const {
    T result{};
    getRaw(name, attributeType(result), 1, &result);
    return result;
  }
  /// All values of an attribute.
  template <typename T>
  std::vector<T> values(cudnnBackendAttributeName_t name) const {
    std::vector<T> result(getRaw(name, attributeType(T()), 0, nullptr));
    if (!result.empty())
      result.resize(getRaw(name, attributeType(T()), int64_t(result.size()),
                           result.data()));
    return result;
  }
  /// Descriptors are read into descriptors of the caller, of type `type`.
  std::vector<Descriptor> descriptors(cudnnBackendAttributeName_t name,
                                      cudnnBackendDescriptorType_t type) const;

private:
  Descriptor &setRaw(cudnnBackendAttributeName_t name,
                     cudnnBackendAttributeType_t type, int64_t count,
                     const void *values);
  int64_t getRaw(cudnnBackendAttributeName_t name,
                 cudnnBackendAttributeType_t type, int64_t count,
                 void *values) const;

  cudnnBackendDescriptor_t raw = nullptr;
};

//===----------------------------------------------------------------------===//
// Graphs
//===----------------------------------------------------------------------===//

using Dims = std::vector<int64_t>;

/// An operation graph while it is built. All arithmetic is in f32.
class CudnnGraph {
public:
  struct Tensor {
    Dims dims, strides;
    cudnnDataType_t type;
    Descriptor descriptor;
  };
  /// Valid as long as the graph.
  using Value = const Tensor *;

  /// A tensor in memory, named `uid`: at most 999.
  Value tensor(int64_t uid, const Dims &dims, const Dims &strides,
               cudnnDataType_t type);
  /// A number that the host passes by pointer at launch, f32.
  Value scalar(int64_t uid);
  /// A contiguous tensor that lives within the graph only.
  Value temporary(const Dims &dims, cudnnDataType_t type);

  // Operations write `into`, or else a temporary in f32.

  /// [.., m, k] x [.., k, n].
  Value matmul(Value a, Value b, Value into = nullptr);
  /// One to three inputs, of the shape of the first or broadcast to it.
  Value pointwise(cudnnPointwiseMode_t mode, std::initializer_list<Value> in,
                  Value into = nullptr,
                  cudnnDataType_t precision = CUDNN_DATA_FLOAT);
  /// Over the last dimension, or as `into` has fewer elements.
  Value reduce(cudnnReduceTensorOp_t op, Value x, Value into = nullptr);
  /// i32: the position of each element of x along an axis.
  Value index(Value x, int64_t axis);
  /// The last two dimensions exchanged, of another type.
  Value transpose(Value x, cudnnDataType_t type);

  /// The whole, finalized. `handle` is null where there is no device.
  Descriptor finish(cudnnHandle_t handle) const;

private:
  Value add(int64_t uid, const Dims &dims, const Dims &strides,
            cudnnDataType_t type, bool isVirtual, bool byValue);

  std::deque<Tensor> tensors;
  std::deque<Descriptor> operations;
  int64_t nextTemporary = 1000;
};

} // namespace moert::cuda

#endif // MOE_LIB_RUNTIME_CUDA_CUDNNGRAPH_H
