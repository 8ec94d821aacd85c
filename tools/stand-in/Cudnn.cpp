//===- Cudnn.cpp - cuDNN: operation graphs ----------------------*- C++ -*-===//
//
// Keeps what descriptors are told and computes an operation graph op by op, in
// f32, as it was written: so a graph without the mask, say, gives numbers
// without it. Every plan has the one engine 0.
//
//===----------------------------------------------------------------------===//

#include "CudnnProgram.h"
#include "Enqueue.h"

#include <cudnn_graph.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

// The vendor's struct behind cudnnHandle_t.
struct cudnnContext {
  cudaStream_t stream = nullptr;
};

namespace standin {
namespace {

//===----------------------------------------------------------------------===//
// Descriptors
//===----------------------------------------------------------------------===//

struct Node;
using NodePtr = std::shared_ptr<Node>;

struct Attribute {
  cudnnBackendAttributeType_t type;
  int64_t count;
  std::vector<char> bytes;
  /// Of CUDNN_TYPE_BACKEND_DESCRIPTOR.
  std::vector<NodePtr> nodes;
};

struct Node {
  cudnnBackendDescriptorType_t type;
  bool finalized = false;
  std::map<cudnnBackendAttributeName_t, Attribute> attributes;
  /// Of an operation graph.
  std::shared_ptr<const Program> program;

  const Attribute *find(cudnnBackendAttributeName_t name) const {
    auto it = attributes.find(name);
    return it == attributes.end() ? nullptr : &it->second;
  }
  const Attribute &get(cudnnBackendAttributeName_t name) const {
    const Attribute *a = find(name);
    require(a && a->count, "descriptor of type " + std::to_string(type) +
                               " lacks attribute " + std::to_string(name));
    return *a;
  }
  template <typename T>
  std::vector<T> values(cudnnBackendAttributeName_t name) const {
    const Attribute &a = get(name);
    require(a.bytes.size() == a.count * sizeof(T), "size of an attribute");
    const T *begin = reinterpret_cast<const T *>(a.bytes.data());
    return std::vector<T>(begin, begin + a.count);
  }
  template <typename T> T value(cudnnBackendAttributeName_t name) const {
    return values<T>(name)[0];
  }
  const NodePtr &node(cudnnBackendAttributeName_t name) const {
    require(!get(name).nodes.empty(), "attribute is no descriptor");
    return get(name).nodes[0];
  }
  template <typename T> void put(cudnnBackendAttributeName_t name, T value) {
    const char *bytes = reinterpret_cast<const char *>(&value);
    attributes[name] = {CUDNN_TYPE_INT64, 1, {bytes, bytes + sizeof(T)}, {}};
  }
  void put(cudnnBackendAttributeName_t name, const NodePtr &node) {
    attributes[name] = {CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, {}, {node}};
  }
};

int64_t typeBytes(cudnnBackendAttributeType_t type) {
  switch (type) {
  case CUDNN_TYPE_BOOLEAN:
  case CUDNN_TYPE_CHAR:
    return 1;
  case CUDNN_TYPE_HANDLE:
  case CUDNN_TYPE_VOID_PTR:
  case CUDNN_TYPE_BACKEND_DESCRIPTOR:
  case CUDNN_TYPE_INT64:
  case CUDNN_TYPE_DOUBLE:
    return 8;
  default:
    return 4;
  }
}

/// What a cudnnBackendDescriptor_t points to.
struct Reference {
  NodePtr node;
};
NodePtr &nodeOf(void *descriptor) {
  require(descriptor, "null descriptor");
  return static_cast<Reference *>(descriptor)->node;
}

//===----------------------------------------------------------------------===//
// Operation graphs
//===----------------------------------------------------------------------===//

Tensor tensorOf(const Node &node) {
  auto dims = node.values<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
  auto strides = node.values<int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
  require(dims.size() == 4 && strides.size() == 4, "a tensor has rank 4");
  return {node.value<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID),
          {dims[0], dims[1], dims[2], dims[3]},
          {strides[0], strides[1], strides[2], strides[3]},
          node.value<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE),
          node.value<bool>(CUDNN_ATTR_TENSOR_IS_VIRTUAL),
          node.value<bool>(CUDNN_ATTR_TENSOR_IS_BY_VALUE)};
}

void addOperation(Program &program, const Node &op) {
  Step step;
  step.kind = op.type;
  std::vector<cudnnBackendAttributeName_t> in;
  cudnnBackendAttributeName_t out;
  switch (op.type) {
  case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
    in = {CUDNN_ATTR_OPERATION_MATMUL_ADESC, CUDNN_ATTR_OPERATION_MATMUL_BDESC};
    out = CUDNN_ATTR_OPERATION_MATMUL_CDESC;
    break;
  case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR: {
    const Node &how = *op.node(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    step.mode = how.value<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
    if (step.mode == CUDNN_POINTWISE_GEN_INDEX)
      step.axis = how.value<int64_t>(CUDNN_ATTR_POINTWISE_AXIS);
    in = {CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
          CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
          CUDNN_ATTR_OPERATION_POINTWISE_TDESC};
    out = CUDNN_ATTR_OPERATION_POINTWISE_YDESC;
    break;
  }
  case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
    step.mode =
        op.node(CUDNN_ATTR_OPERATION_REDUCTION_DESC)
            ->value<cudnnReduceTensorOp_t>(CUDNN_ATTR_REDUCTION_OPERATOR);
    in = {CUDNN_ATTR_OPERATION_REDUCTION_XDESC};
    out = CUDNN_ATTR_OPERATION_REDUCTION_YDESC;
    break;
  case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
    in = {CUDNN_ATTR_OPERATION_RESHAPE_XDESC};
    out = CUDNN_ATTR_OPERATION_RESHAPE_YDESC;
    break;
  default:
    unsupported("operation of type " + std::to_string(op.type));
  }
  for (auto name : in)
    if (op.find(name))
      step.in.push_back(program.tensor(tensorOf(*op.node(name))));
  step.out = program.tensor(tensorOf(*op.node(out)));
  program.add(step);
}

//===----------------------------------------------------------------------===//
// Plans
//===----------------------------------------------------------------------===//

/// Enough that a caller has to provide it. It is overwritten.
constexpr int64_t kWorkspace = 512;

NodePtr make(cudnnBackendDescriptorType_t type) {
  auto node = std::make_shared<Node>();
  node->type = type;
  return node;
}

void finalize(const NodePtr &node) {
  switch (node->type) {
  case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR: {
    auto program = std::make_shared<Program>();
    for (const NodePtr &op : node->get(CUDNN_ATTR_OPERATIONGRAPH_OPS).nodes)
      addOperation(*program, *op);
    node->program = program;
    break;
  }
  case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR: {
    NodePtr engine = make(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    engine->put(CUDNN_ATTR_ENGINE_OPERATION_GRAPH,
                node->node(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH));
    engine->put(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, int64_t(0));
    NodePtr config = make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    config->put(CUDNN_ATTR_ENGINECFG_ENGINE, engine);
    engine->finalized = config->finalized = true;
    node->put(CUDNN_ATTR_ENGINEHEUR_RESULTS, config);
    break;
  }
  case CUDNN_BACKEND_ENGINE_DESCRIPTOR:
    if (node->value<int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX) != 0)
      unsupported("the stand-in has engine 0 only");
    break;
  case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
    node->program = node->node(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)
                        ->node(CUDNN_ATTR_ENGINECFG_ENGINE)
                        ->node(CUDNN_ATTR_ENGINE_OPERATION_GRAPH)
                        ->program;
    node->put(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, kWorkspace);
    break;
  default:
    break;
  }
  node->finalized = true;
}

struct Execution {
  std::shared_ptr<const Program> program;
  std::vector<void *> pointers;
  std::vector<float> scalars;
  void *workspace;
};

void execute(cudaStream_t stream, const Node &plan, const Node &pack) {
  require(plan.program && plan.finalized, "the plan isn't finalized");
  auto uids = pack.values<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  auto pointers = pack.values<void *>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  require(uids.size() == pointers.size(), "as many pointers as names");
  std::map<int64_t, void *> bound;
  for (size_t i = 0; i < uids.size(); ++i)
    require(bound.emplace(uids[i], pointers[i]).second, "a name twice");

  auto work = std::make_unique<Execution>();
  work->program = plan.program;
  work->workspace = pack.value<void *>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  require(work->workspace, "no workspace");
  std::vector<moe_range> ranges = {{work->workspace, kWorkspace, MOE_WRITE}};
  for (const Tensor &t : plan.program->tensors()) {
    work->pointers.push_back(nullptr);
    work->scalars.push_back(0);
    if (t.isVirtual)
      continue;
    void *pointer = bound[t.uid];
    require(pointer, "no pointer for tensor " + std::to_string(t.uid));
    if (t.byValue) {
      // A host pointer, read at the call.
      work->scalars.back() = *static_cast<const float *>(pointer);
      continue;
    }
    require(reinterpret_cast<uintptr_t>(pointer) % 16 == 0,
            "tensor " + std::to_string(t.uid) + " is not aligned to 16 bytes");
    work->pointers.back() = pointer;
    ranges.push_back({pointer, t.bytes(), t.written ? MOE_WRITE : MOE_READ});
  }
  auto run = [](void *state) {
    auto *work = static_cast<Execution *>(state);
    std::fill_n(static_cast<char *>(work->workspace), kWorkspace, char(0xff));
    work->program->run(work->pointers.data(), work->scalars.data());
  };
  auto destroy = [](void *state) { delete static_cast<Execution *>(state); };
  int error =
      moe_standin_enqueue(stream, "cudnnBackendExecute", ranges.data(),
                          int(ranges.size()), run, work.release(), destroy);
  if (error)
    throw Fault(CUDNN_STATUS_EXECUTION_FAILED_CUDART,
                "CUDA error " + std::to_string(error));
}

thread_local std::string lastError;

template <typename Body> cudnnStatus_t call(Body body) {
  try {
    body();
    return CUDNN_STATUS_SUCCESS;
  } catch (const Fault &fault) {
    lastError = std::string("stand-in: ") + fault.what();
    return fault.status;
  }
}

} // namespace
} // namespace standin

using namespace standin;

#pragma GCC visibility push(default)
extern "C" {

size_t cudnnGetVersion(void) { return CUDNN_VERSION; }

const char *cudnnGetErrorString(cudnnStatus_t status) {
  switch (status) {
  case CUDNN_STATUS_SUCCESS:
    return "CUDNN_STATUS_SUCCESS";
  case CUDNN_STATUS_BAD_PARAM:
    return "CUDNN_STATUS_BAD_PARAM";
  case CUDNN_STATUS_NOT_SUPPORTED:
    return "CUDNN_STATUS_NOT_SUPPORTED";
  case CUDNN_STATUS_EXECUTION_FAILED_CUDART:
    return "CUDNN_STATUS_EXECUTION_FAILED_CUDART";
  default:
    return "CUDNN_UNKNOWN_STATUS";
  }
}

void cudnnGetLastErrorString(char *message, size_t size) {
  if (size)
    message[lastError.copy(message, size - 1)] = 0;
  lastError.clear();
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle) {
  return call([&] {
    require(handle, "null pointer");
    *handle = new cudnnContext;
  });
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  return call([&] {
    require(handle, "null handle");
    handle->stream = stream;
  });
}

cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t *stream) {
  return call([&] {
    require(handle && stream, "null pointer");
    *stream = handle->stream;
  });
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t *to) {
  return call([&] {
    require(to, "null pointer");
    *to = new Reference{make(type)};
  });
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t from) {
  delete static_cast<Reference *>(from);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type,
                                       int64_t count, const void *values) {
  return call([&] {
    Node &node = *nodeOf(descriptor);
    require(!node.finalized, "the descriptor is finalized");
    require(count >= 0 && (values || !count), "null pointer");
    Attribute a{type, count, {}, {}};
    const char *bytes = static_cast<const char *>(values);
    if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR)
      for (int64_t i = 0; i < count; ++i) {
        a.nodes.push_back(nodeOf(static_cast<void *const *>(values)[i]));
        require(a.nodes.back()->finalized, "a descriptor isn't finalized");
      }
    else
      a.bytes.assign(bytes, bytes + count * typeBytes(type));
    node.attributes[name] = std::move(a);
  });
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type,
                                       int64_t requested, int64_t *count,
                                       void *values) {
  return call([&] {
    const Node &node = *nodeOf(descriptor);
    require(node.finalized, "the descriptor isn't finalized");
    const Attribute *a = node.find(name);
    if (!a)
      unsupported("attribute " + std::to_string(name));
    require(a->type == type, "type of an attribute");
    if (count)
      *count = a->count;
    int64_t given = std::min(requested, a->count);
    if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR)
      for (int64_t i = 0; i < given; ++i)
        nodeOf(static_cast<void **>(values)[i]) = a->nodes[i];
    else
      std::copy_n(a->bytes.data(), given * typeBytes(type),
                  static_cast<char *>(values));
  });
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  return call([&] { finalize(nodeOf(descriptor)); });
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle,
                                  cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack) {
  return call([&] {
    require(handle, "null handle");
    execute(handle->stream, *nodeOf(plan), *nodeOf(pack));
  });
}

} // extern "C"
#pragma GCC visibility pop
