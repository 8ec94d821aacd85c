//===- Attention.cpp - Causal attention by cuDNN --------------------------===//
//
// cuDNN's flash kernels are reached by writing attention out as an operation
// graph, in the form that its pattern matching knows: k transposed, the mask as
// a comparison of indices, softmax as maximum, difference, exponential and sum.
// The unified descriptors of cuDNN 9.19 (SDPA_FWD, SDPA_BWD) have no mask.
//
//===----------------------------------------------------------------------===//

#include "Attention.h"

#include "CudnnGraph.h"

#include <limits>
#include <optional>
#include <tuple>
#include <utility>

using namespace moert::cuda;
using Value = CudnnGraph::Value;

namespace {

/// Tensors in memory. Operands of the two kernels first, in their order.
enum Uid : int64_t {
  kQ = 1,
  kK,
  kV,
  kO,
  kLse,
  kDo,
  kDq,
  kDk,
  kDv,
  kScale,
  kMinusInfinity,
  kOne,
  kDots,
  kDqSum
};

/// A tensor of n heads of [T, n * d], seen as [batch, n, sequence, d].
Value rows(CudnnGraph &graph, int64_t uid, const AttentionShape &s, int64_t n) {
  int64_t d = s.headDim;
  return graph.tensor(uid, {s.batch, n, s.sequence, d},
                      {s.sequence * n * d, d, n * d, 1}, CUDNN_DATA_BFLOAT16);
}
/// The same as [batch, n, d, sequence].
Value columns(CudnnGraph &graph, int64_t uid, const AttentionShape &s,
              int64_t n) {
  int64_t d = s.headDim;
  return graph.tensor(uid, {s.batch, n, d, s.sequence},
                      {s.sequence * n * d, d, 1, n * d}, CUDNN_DATA_BFLOAT16);
}
/// f32 [T, n] as [batch, n, sequence, 1].
Value perRow(CudnnGraph &graph, int64_t uid, const AttentionShape &s) {
  return graph.tensor(uid, {s.batch, s.heads, s.sequence, 1},
                      {s.sequence * s.heads, 1, s.heads, 1}, CUDNN_DATA_FLOAT);
}

Value causal(CudnnGraph &graph, Value scores) {
  Value seen = graph.pointwise(
      CUDNN_POINTWISE_CMP_GE, {graph.index(scores, 2), graph.index(scores, 3)},
      graph.temporary(scores->dims, CUDNN_DATA_BOOLEAN), CUDNN_DATA_BOOLEAN);
  return graph.pointwise(CUDNN_POINTWISE_BINARY_SELECT,
                         {scores, graph.scalar(kMinusInfinity), seen});
}

Descriptor forward(const AttentionShape &s, cudnnHandle_t handle) {
  CudnnGraph graph;
  Value q = rows(graph, kQ, s, s.heads), kT = columns(graph, kK, s, s.kvHeads);
  Value v = rows(graph, kV, s, s.kvHeads);
  Value o = rows(graph, kO, s, s.heads), lse = perRow(graph, kLse, s);

  Value scores = graph.pointwise(CUDNN_POINTWISE_MUL,
                                 {graph.matmul(q, kT), graph.scalar(kScale)});
  scores = causal(graph, scores);
  Value largest = graph.reduce(CUDNN_REDUCE_TENSOR_MAX, scores);
  Value e = graph.pointwise(
      CUDNN_POINTWISE_EXP,
      {graph.pointwise(CUDNN_POINTWISE_SUB, {scores, largest})});
  Value sum = graph.reduce(CUDNN_REDUCE_TENSOR_ADD, e);
  graph.pointwise(CUDNN_POINTWISE_ADD,
                  {largest, graph.pointwise(CUDNN_POINTWISE_LOG, {sum})}, lse);
  Value p = graph.pointwise(CUDNN_POINTWISE_DIV, {e, sum},
                            graph.temporary(e->dims, CUDNN_DATA_BFLOAT16));
  graph.matmul(p, v, o);
  return graph.finish(handle);
}

/// The gradient of k or v: aT b, summed over the query heads of a group.
void gradientOfGroup(CudnnGraph &graph, Value aT, Value b, Value into) {
  if (into->dims[1] == b->dims[1]) {
    graph.matmul(aT, b, into);
    return;
  }
  Value heads =
      graph.matmul(aT, b, graph.temporary(b->dims, CUDNN_DATA_BFLOAT16));
  graph.reduce(CUDNN_REDUCE_TENSOR_ADD, heads, into);
}

/// `deterministic` asks for dq in one product; else blocks of keys add to an
/// f32 sum in the order in which they are done.
Descriptor backward(const AttentionShape &s, bool deterministic,
                    cudnnHandle_t handle) {
  CudnnGraph graph;
  Dims all = {s.batch, s.heads, s.sequence, s.headDim};
  Dims one = {s.batch, s.heads, s.sequence, 1};
  Dims oneStrides = {s.heads * s.sequence, s.sequence, 1, 1};
  Value q = rows(graph, kQ, s, s.heads), kT = columns(graph, kK, s, s.kvHeads);
  Value vT = columns(graph, kV, s, s.kvHeads), o = rows(graph, kO, s, s.heads);
  Value lse = perRow(graph, kLse, s), dO = rows(graph, kDo, s, s.heads);
  Value dq = rows(graph, kDq, s, s.heads), dk = rows(graph, kDk, s, s.kvHeads);
  Value dv = rows(graph, kDv, s, s.kvHeads), scale = graph.scalar(kScale);

  Value dots = graph.reduce(CUDNN_REDUCE_TENSOR_ADD,
                            graph.pointwise(CUDNN_POINTWISE_MUL, {dO, o}));
  dots =
      graph.pointwise(CUDNN_POINTWISE_MUL, {dots, graph.scalar(kOne)},
                      graph.tensor(kDots, one, oneStrides, CUDNN_DATA_FLOAT));

  Value scores =
      graph.pointwise(CUDNN_POINTWISE_MUL, {graph.matmul(q, kT), scale});
  scores = graph.pointwise(CUDNN_POINTWISE_SUB, {scores, lse});
  Value p = graph.pointwise(CUDNN_POINTWISE_EXP, {causal(graph, scores)});
  gradientOfGroup(graph, graph.transpose(p, CUDNN_DATA_BFLOAT16), dO, dv);

  Value dS = graph.pointwise(CUDNN_POINTWISE_SUB, {graph.matmul(dO, vT), dots});
  dS = graph.pointwise(CUDNN_POINTWISE_MUL, {dS, p});
  dS = graph.pointwise(CUDNN_POINTWISE_MUL, {dS, scale});
  gradientOfGroup(graph, graph.transpose(dS, CUDNN_DATA_BFLOAT16), q, dk);

  Value k = graph.transpose(kT, CUDNN_DATA_BFLOAT16);
  if (deterministic) {
    graph.matmul(dS, k, dq);
  } else {
    Dims strides = {s.heads * s.sequence * s.headDim, s.sequence * s.headDim,
                    s.headDim, 1};
    Value sum = graph.tensor(kDqSum, all, strides, CUDNN_DATA_FLOAT);
    graph.pointwise(CUDNN_POINTWISE_IDENTITY, {graph.matmul(dS, k, sum)}, dq);
  }
  return graph.finish(handle);
}

//===----------------------------------------------------------------------===//
// Plans
//===----------------------------------------------------------------------===//

constexpr int64_t kAlignment = 256;
int64_t aligned(int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// The device to build for: null, that of the handle.
using Device = std::optional<Descriptor>;

struct Plan {
  Descriptor descriptor;
  int64_t engine;
  int64_t workspace;
};

/// A plan of this configuration; none if cuDNN can't build it.
std::optional<Plan> build(const Descriptor &config, const Device &device,
                          std::string &error) {
  try {
    Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    if (device)
      plan.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *device);
    plan.finalize();
    std::vector<Descriptor> engines = config.descriptors(
        CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    auto engine = engines.at(0).value<int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
    auto bytes = plan.value<int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
    return Plan{std::move(plan), engine, bytes};
  } catch (const CudnnFailure &failure) {
    error = failure.what();
    return {};
  }
}

/// The first plan, in the order of cuDNN's heuristics, that builds.
std::optional<Plan> heuristicPlan(const Descriptor &graph, const Device &device,
                                  std::string &error) {
  for (auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    std::vector<Descriptor> configs;
    try {
      Descriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
      heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph)
          .set(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
      if (device)
        heuristics.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *device);
      configs = heuristics.finalize().descriptors(
          CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    } catch (const CudnnFailure &failure) {
      error = failure.what();
    }
    for (const Descriptor &config : configs)
      if (auto plan = build(config, device, error))
        return plan;
  }
  return {};
}

/// Blackwell's deterministic kernel, which the heuristics don't offer: engine
/// 5, kernel configuration 31, two stages. Known to be so from cuDNN 9.18 to
/// 9.22, and refused on other devices.
std::optional<Plan> blackwellPlan(const Descriptor &graph, const Device &device,
                                  std::string &error) {
  if (cudnnGetVersion() >= 92300)
    return {};
  try {
    Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    engine.set(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph)
        .set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, int64_t(5));
    if (device)
      engine.set(CUDNN_ATTR_ENGINE_DEVICEPROP, *device);
    engine.finalize();
    std::deque<Descriptor> knobs;
    for (auto [type, value] : {std::pair(CUDNN_KNOB_TYPE_KERNEL_CFG, 31),
                               std::pair(CUDNN_KNOB_TYPE_STAGES, 2)})
      knobs.emplace_back(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR)
          .set(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, type)
          .set(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, int64_t(value))
          .finalize();
    Descriptor config(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    config.set(CUDNN_ATTR_ENGINECFG_ENGINE, engine)
        .set(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, knobs)
        .finalize();
    return build(config, device, error);
  } catch (const CudnnFailure &failure) {
    error = failure.what();
    return {};
  }
}

/// The name of the last, the main, kernel in the JSON text of a plan.
std::string kernelName(const Descriptor &plan) {
  std::vector<char> json;
  try {
    json = plan.values<char>(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION);
  } catch (const CudnnFailure &) {
    // Only a name for reports.
  }
  std::string text(json.begin(), json.end()), key = "\"kernelName\":\"";
  size_t begin = text.rfind(key);
  if (begin == std::string::npos)
    return "";
  begin += key.size();
  return text.substr(begin, text.find('"', begin) - begin);
}

std::string words(const AttentionShape &s) {
  return std::string(s.backward ? "backward" : "forward") + " attention of " +
         std::to_string(s.batch) + " sequences of " +
         std::to_string(s.sequence) + " tokens, " + std::to_string(s.heads) +
         " heads, " + std::to_string(s.kvHeads) + " key/value heads of " +
         std::to_string(s.headDim);
}

} // namespace

struct AttentionPlan::Impl {
  AttentionShape shape;
  std::optional<Plan> plan;
  bool deterministic = true;
  /// Passed by pointer at each launch.
  float scale = 1, minusInfinity = -std::numeric_limits<float>::infinity();
  float one = 1;

  int64_t dotsBytes() const {
    return shape.backward ? aligned(shape.batch * shape.heads * shape.sequence *
                                    int64_t(sizeof(float)))
                          : 0;
  }
  int64_t dqSumBytes() const {
    return deterministic ? 0 : dotsBytes() * shape.headDim;
  }
  int64_t workspaceBytes() const {
    return dotsBytes() + dqSumBytes() + plan->workspace;
  }

  void build(cudnnHandle_t handle, const Device &device, std::string &error) {
    if (!shape.backward) {
      plan = heuristicPlan(forward(shape, handle), device, error);
      return;
    }
    Descriptor graph = backward(shape, true, handle);
    plan = blackwellPlan(graph, device, error);
    if (!plan)
      plan = heuristicPlan(graph, device, error);
    if (plan && workspaceBytes() <= shape.deterministicWorkspace)
      return;
    deterministic = false;
    plan = heuristicPlan(backward(shape, false, handle), device, error);
  }
};

bool AttentionShape::operator<(const AttentionShape &other) const {
  auto all = [](const AttentionShape &s) {
    return std::make_tuple(s.batch, s.sequence, s.heads, s.kvHeads, s.headDim,
                           s.scale, s.backward, s.deterministicWorkspace);
  };
  return all(*this) < all(other);
}

AttentionPlan::AttentionPlan(std::unique_ptr<Impl> impl)
    : impl(std::move(impl)) {}
AttentionPlan::~AttentionPlan() = default;

std::unique_ptr<AttentionPlan>
AttentionPlan::create(cudnnContext *handle, const AttentionShape &shape,
                      std::string &error, const char *deviceProperties) {
  if (cudnnGetVersion() < 91800) {
    error = "attention needs cuDNN 9.18, this is " +
            std::to_string(cudnnGetVersion());
    return nullptr;
  }
  auto impl = std::make_unique<Impl>();
  impl->shape = shape;
  impl->scale = float(shape.scale);
  std::string reason = "no engine supports it";
  try {
    Device device;
    if (deviceProperties)
      device.emplace(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR)
          .set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
               std::string(deviceProperties))
          .finalize();
    impl->build(handle, device, reason);
  } catch (const CudnnFailure &failure) {
    reason = failure.what();
  }
  if (!impl->plan) {
    error = "cuDNN builds no plan for " + words(shape) + ": " + reason;
    return nullptr;
  }
  return std::unique_ptr<AttentionPlan>(new AttentionPlan(std::move(impl)));
}

int64_t AttentionPlan::workspaceBytes() const { return impl->workspaceBytes(); }

std::string AttentionPlan::engine() const {
  std::string name = kernelName(impl->plan->descriptor);
  return (name.empty() ? "" : name + ", ") + "engine " +
         std::to_string(impl->plan->engine) +
         (impl->deterministic ? "" : ", not deterministic");
}

std::string AttentionPlan::launch(cudnnContext *handle, void *const *pointers,
                                  void *workspace) const {
  std::vector<int64_t> uids;
  std::vector<void *> addresses;
  auto bind = [&](int64_t uid, const void *address) {
    uids.push_back(uid);
    addresses.push_back(const_cast<void *>(address));
  };
  int64_t operands = impl->shape.backward ? kDv : kLse;
  for (int64_t i = 0; i < operands; ++i)
    bind(kQ + i, pointers[i]);
  bind(kScale, &impl->scale);
  bind(kMinusInfinity, &impl->minusInfinity);
  char *bytes = static_cast<char *>(workspace);
  if (impl->shape.backward) {
    bind(kOne, &impl->one);
    bind(kDots, bytes);
    bytes += impl->dotsBytes();
  }
  if (!impl->deterministic) {
    bind(kDqSum, bytes);
    bytes += impl->dqSumBytes();
  }
  try {
    Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, uids)
        .set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, addresses)
        .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, static_cast<void *>(bytes))
        .finalize();
    checkCudnn(
        cudnnBackendExecute(handle, impl->plan->descriptor.get(), pack.get()),
        words(impl->shape));
  } catch (const CudnnFailure &failure) {
    return failure.what();
  }
  return "";
}
