//===- CudnnGraph.cpp - Operation graphs of cuDNN -------------------------===//

#include "CudnnGraph.h"

#include <utility>

using namespace moert::cuda;

void moert::cuda::checkCudnn(cudnnStatus_t status, const std::string &what) {
  if (status == CUDNN_STATUS_SUCCESS)
    return;
  char message[2048] = "";
  cudnnGetLastErrorString(message, sizeof(message));
  std::string text = what + ": " + cudnnGetErrorString(status);
  if (message[0])
    text += std::string(": ") + message;
  throw CudnnFailure(text);
}

//===----------------------------------------------------------------------===//
// Descriptors
//===----------------------------------------------------------------------===//

Descriptor::Descriptor(cudnnBackendDescriptorType_t type) {
  checkCudnn(cudnnBackendCreateDescriptor(type, &raw),
             "descriptor of type " + std::to_string(type));
}

Descriptor::~Descriptor() {
  if (raw)
    cudnnBackendDestroyDescriptor(raw);
}

Descriptor &Descriptor::setRaw(cudnnBackendAttributeName_t name,
                               cudnnBackendAttributeType_t type, int64_t count,
                               const void *values) {
  checkCudnn(cudnnBackendSetAttribute(raw, name, type, count, values),
             "attribute " + std::to_string(name));
  return *this;
}

Descriptor &Descriptor::set(cudnnBackendAttributeName_t name,
                            const std::deque<Descriptor> &values) {
  std::vector<cudnnBackendDescriptor_t> raws;
  for (const Descriptor &d : values)
    raws.push_back(d.raw);
  return setRaw(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, int64_t(raws.size()),
                raws.data());
}

Descriptor &Descriptor::finalize() {
  checkCudnn(cudnnBackendFinalize(raw), "finalize");
  return *this;
}

int64_t Descriptor::getRaw(cudnnBackendAttributeName_t name,
                           cudnnBackendAttributeType_t type, int64_t count,
                           void *values) const {
  int64_t found = 0;
  checkCudnn(cudnnBackendGetAttribute(raw, name, type, count, &found, values),
             "attribute " + std::to_string(name));
  return found;
}

std::vector<Descriptor>
Descriptor::descriptors(cudnnBackendAttributeName_t name,
                        cudnnBackendDescriptorType_t type) const {
  int64_t count = getRaw(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, nullptr);
  std::vector<Descriptor> result;
  std::vector<cudnnBackendDescriptor_t> raws;
  for (int64_t i = 0; i < count; ++i)
    raws.push_back(result.emplace_back(type).raw);
  if (count)
    count = getRaw(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, count, raws.data());
  result.erase(result.begin() + count, result.end());
  return result;
}

//===----------------------------------------------------------------------===//
// Graphs
//===----------------------------------------------------------------------===//

CudnnGraph::Value CudnnGraph::add(int64_t uid, const Dims &dims,
                                  const Dims &strides, cudnnDataType_t type,
                                  bool isVirtual, bool byValue) {
  Descriptor d(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  d.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, uid)
      .set(CUDNN_ATTR_TENSOR_DATA_TYPE, type)
      .set(CUDNN_ATTR_TENSOR_DIMENSIONS, dims)
      .set(CUDNN_ATTR_TENSOR_STRIDES, strides)
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, int64_t(16))
      .set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, isVirtual)
      .set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, byValue)
      .finalize();
  return &tensors.emplace_back(Tensor{dims, strides, type, std::move(d)});
}

CudnnGraph::Value CudnnGraph::tensor(int64_t uid, const Dims &dims,
                                     const Dims &strides,
                                     cudnnDataType_t type) {
  return add(uid, dims, strides, type, false, false);
}

CudnnGraph::Value CudnnGraph::scalar(int64_t uid) {
  return add(uid, {1, 1, 1, 1}, {1, 1, 1, 1}, CUDNN_DATA_FLOAT, false, true);
}

CudnnGraph::Value CudnnGraph::temporary(const Dims &dims,
                                        cudnnDataType_t type) {
  Dims strides(dims.size(), 1);
  for (size_t i = dims.size() - 1; i > 0; --i)
    strides[i - 1] = strides[i] * dims[i];
  return add(nextTemporary++, dims, strides, type, true, false);
}

CudnnGraph::Value CudnnGraph::matmul(Value a, Value b, Value into) {
  if (!into)
    into = temporary({a->dims[0], a->dims[1], a->dims[2], b->dims[3]},
                     CUDNN_DATA_FLOAT);
  Descriptor how(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  how.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT).finalize();
  operations.emplace_back(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR)
      .set(CUDNN_ATTR_OPERATION_MATMUL_DESC, how)
      .set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, a->descriptor)
      .set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, b->descriptor)
      .set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, into->descriptor)
      .finalize();
  return into;
}

CudnnGraph::Value CudnnGraph::pointwise(cudnnPointwiseMode_t mode,
                                        std::initializer_list<Value> in,
                                        Value into, cudnnDataType_t precision) {
  static constexpr cudnnBackendAttributeName_t kInputs[] = {
      CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
      CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
      CUDNN_ATTR_OPERATION_POINTWISE_TDESC};
  if (!into)
    into = temporary((*in.begin())->dims, CUDNN_DATA_FLOAT);
  Descriptor how(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  how.set(CUDNN_ATTR_POINTWISE_MODE, mode)
      .set(CUDNN_ATTR_POINTWISE_MATH_PREC, precision)
      .finalize();
  Descriptor &op =
      operations.emplace_back(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
  const auto *name = kInputs;
  for (Value x : in)
    op.set(*name++, x->descriptor);
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, into->descriptor).finalize();
  return into;
}

CudnnGraph::Value CudnnGraph::reduce(cudnnReduceTensorOp_t op, Value x,
                                     Value into) {
  if (!into) {
    Dims dims = x->dims;
    dims.back() = 1;
    into = temporary(dims, CUDNN_DATA_FLOAT);
  }
  Descriptor how(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  how.set(CUDNN_ATTR_REDUCTION_OPERATOR, op)
      .set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT)
      .finalize();
  operations.emplace_back(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR)
      .set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, how)
      .set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x->descriptor)
      .set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, into->descriptor)
      .finalize();
  return into;
}

CudnnGraph::Value CudnnGraph::index(Value x, int64_t axis) {
  Value into = temporary(x->dims, CUDNN_DATA_INT32);
  Descriptor how(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  how.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_POINTWISE_GEN_INDEX)
      .set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT)
      .set(CUDNN_ATTR_POINTWISE_AXIS, axis)
      .finalize();
  operations.emplace_back(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)
      .set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how)
      .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x->descriptor)
      .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, into->descriptor)
      .finalize();
  return into;
}

CudnnGraph::Value CudnnGraph::transpose(Value x, cudnnDataType_t type) {
  Dims dims = x->dims, strides = x->strides;
  std::swap(dims[2], dims[3]);
  std::swap(strides[2], strides[3]);
  Value into = add(nextTemporary++, dims, strides, type, true, false);
  operations.emplace_back(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR)
      .set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x->descriptor)
      .set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, into->descriptor)
      .finalize();
  return into;
}

Descriptor CudnnGraph::finish(cudnnHandle_t handle) const {
  Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operations);
  if (handle)
    graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, handle);
  graph.finalize();
  return graph;
}
