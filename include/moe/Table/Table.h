//===- Table.h - A schedule as data ---------------------------------------===//
//
// The table is what a lowered schedule is: templates (ops in host issue order),
// programs (calls of templates), kernels, streams, communicators, parameters.
// The compiler writes it; the verifier, the simulator, the memory plan and the
// engines read the same one, so that what is proven is what runs.
//
// It stays hierarchical: a template is a layer's forward, backward, or a pair
// of both; a program calls it once per layer and micro-batch. ScheduleView.h
// expands a program to flat arrays.
//
// Units: bytes, seconds, rows. This header includes no MLIR and no LLVM.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TABLE_TABLE_H
#define MOE_TABLE_TABLE_H

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace moert {

/// Bump on any change that an older reader would misread.
inline constexpr int64_t kTableVersion = 1;

enum class ElementType : uint8_t { F32, BF16, I32 };
/// Bytes of one element.
int64_t elementBytes(ElementType type);

//===----------------------------------------------------------------------===//
// Machine-independent objects
//===----------------------------------------------------------------------===//

/// A queue of device work. Ops on one stream run in issue order.
struct Stream {
  std::string name;
  /// Higher runs first when two streams compete.
  int32_t priority = 0;
};

/// Ranks that issue the same collectives. The members of the group of rank r
/// are base + i*stride, i < size, base = r - ((r / stride) % size) * stride.
struct Communicator {
  std::string name;
  int64_t size = 1;
  int64_t stride = 1;
  /// SMs that its kernels may take, 0: the library decides.
  int64_t smBudget = 0;
};

enum class Provider : uint8_t { Library, Generated };

/// What is promised of a kernel's bits.
enum class NumericClass : uint8_t {
  /// Two runs may differ.
  NonDeterministic,
  /// Same inputs, same bits.
  Deterministic,
  /// Deterministic, and a row's bits do not depend on the other rows.
  RowInvariant,
};

enum class Effect : uint8_t { Read, Write, ReadWrite };

/// A kernel: what a launch runs. Operand effects are by position: first what
/// it reads, then what it writes; an accumulator is one ReadWrite operand.
struct Kernel {
  std::string name;
  /// The library entry ("linear", "swiglu_grad", ...), see Kernels.h.
  std::string op;
  Provider provider = Provider::Library;
  NumericClass numericClass = NumericClass::Deterministic;
  std::vector<Effect> effects;
  std::map<std::string, double> attributes;
  /// Work of one launch of the original, not shrunken, sizes.
  double flops = 0, bytes = 0;
};

/// A product for each expert. The host launches them, and so must know the
/// rows of each (operand 2), unless the library for the device has one product
/// for all.
inline bool isGroupedProduct(const Kernel &kernel) {
  return kernel.op.rfind("grouped_linear", 0) == 0;
}

//===----------------------------------------------------------------------===//
// Templates
//===----------------------------------------------------------------------===//

enum class FrameKind : uint8_t {
  /// Parameters of the layer (read), in the model's type.
  Weights,
  /// Accumulated gradients of the layer, f32.
  Gradients,
  /// What forward keeps for backward: one per layer and slot.
  Saved,
  /// Lives within one call.
  Temporary,
  /// A value carried between calls: activations, their gradients.
  Carried,
  /// Counts read back by the host. Written by HostRead only.
  Host,
  /// Tokens, labels, loss, norm, overflow flag.
  Global,
};

/// A formal frame of a template: the calls bind it to an address.
struct Frame {
  std::string name;
  FrameKind kind = FrameKind::Temporary;
  int64_t bytes = 0;
};

/// A buffer: a typed range of a frame. Ranges of one frame may overlap.
struct Operand {
  uint32_t frame = 0;
  int64_t offset = 0;
  ElementType type = ElementType::F32;
  std::vector<int64_t> shape;
  Effect effect = Effect::Read;

  int64_t elements() const;
  int64_t bytes() const { return elements() * elementBytes(type); }
};

enum class OpKind : uint8_t { Launch, Collective, Send, Recv, HostRead };

enum class CollectiveKind : uint8_t {
  /// (counts[E]) -> counts[E]: block i of E/size goes to member i.
  ExchangeCounts,
  /// (x[R,w], sendCounts[E], recvCounts[E], flag) -> y[C,w]. Both counts are
  /// Host operands, read as the host issues the op. Rows for member i are the
  /// sum of its block of E/size counts. If the received rows exceed C nothing
  /// is written past C and the overflow flag (i32, ReadWrite) is set to 1 + the
  /// location's layer.
  AllToAll,
  /// (x) -> y, sums f32 or takes the maximum of i32, in member order.
  AllReduceSum,
  AllReduceMax,
  /// (x[n]) -> y[n/size]: member i gets the sum of block i.
  ReduceScatter,
  /// (x[n]) -> y[n*size].
  AllGather,
};

/// An event that an op waits for: another op of the template, or an import.
struct Wait {
  bool isImport = false;
  /// Op index, or import index.
  uint32_t index = 0;

  bool operator==(const Wait &o) const {
    return isImport == o.isImport && index == o.index;
  }
};

/// One op, in the host's issue order. A wait takes effect on the op's stream
/// before the op; a HostRead blocks the host until its copy is done, so that
/// all ops issued later happen after it.
struct Op {
  OpKind kind = OpKind::Launch;
  uint32_t stream = 0;
  /// Launch: the kernel.
  uint32_t kernel = 0;
  /// Collective, Send, Recv: the communicator.
  uint32_t communicator = 0;
  CollectiveKind collective = CollectiveKind::AllToAll;
  /// Send, Recv: position of the peer relative to this rank in the group.
  int32_t peer = 0;
  std::vector<Operand> operands;
  std::vector<Wait> waits;
  /// Index of the capture that holds it, -1: eager.
  int32_t capture = -1;
  /// With {i} for the layer and {mb} for the micro-batch.
  std::string location;
  /// Forward, backward, or backward's weight gradients: "F", "B", "W".
  std::string half;
  /// Module it belongs to ("norm", "moe_experts", ...): capture scopes and
  /// reports go by it.
  std::string module;
  /// Bytes moved, of the original sizes (collectives, copies). For pricing.
  double bytes = 0;
};

/// Consecutive ops that are one CUDA graph, launched at once.
struct Capture {
  std::string name;
};

struct Template {
  std::string name;
  std::vector<Frame> frames;
  /// Names of the events that calls bind.
  std::vector<std::string> imports;
  std::vector<Op> ops;
  std::vector<Capture> captures;
};

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

/// An event of an earlier call of the same program: after op `op` of `call`.
/// call < 0: already done.
struct EventRef {
  int64_t call = -1;
  uint32_t op = 0;
};

struct Call {
  uint32_t tmpl = 0;
  /// Address in the rank's arena of each frame.
  std::vector<int64_t> bases;
  std::vector<EventRef> imports;
  /// For locations: layer and micro-batch of the forward and backward half.
  /// -1: none.
  int64_t layer = -1, backwardLayer = -1;
  int64_t microBatch = -1, backwardMicroBatch = -1;
};

/// A named parameter and where a rank keeps it.
struct Parameter {
  /// Stored (Hugging Face) names; several: stacked over experts and
  /// concatenated along rows, in memory order.
  std::vector<std::string> names;
  ElementType type = ElementType::F32;
  /// Local shape, and the shape of one stored tensor.
  std::vector<int64_t> shape, storedShape;
  /// Of the local block among the experts' grid: which dimension-0 block this
  /// rank holds is its position in this communicator (-1: the whole).
  int32_t shardedOver = -1;
  /// Address of the value and of its f32 gradient sum in the arena.
  int64_t address = 0, gradient = 0;
  /// 0: norm (ones), 1: normal(0, initStd).
  int32_t init = 1;
};

/// A range of the arena that holds optimizer shards of a bucket of parameters:
/// those whose gradient lies in [gradients, gradients + 4 * elements). They are
/// of one type, and begin at the same element of weights as of gradients. The
/// group's member i has elements [i * n, (i + 1) * n), n = elements / size, of
/// master and moments (f32).
struct Bucket {
  std::string name;
  /// Reduce-scatter and all-gather run over it.
  uint32_t communicator = 0;
  /// Elements of the bucket, padded to the group's size.
  int64_t elements = 0;
  int64_t weights = 0, gradients = 0, master = 0, moment1 = 0, moment2 = 0;
};

/// What one class of ranks runs. Ranks first + i, i < count (a pipeline stage).
struct Program {
  std::string name;
  int64_t firstRank = 0, rankCount = 1;
  std::vector<Call> calls;
  int64_t arenaBytes = 0;
  std::vector<Parameter> parameters;
  std::vector<Bucket> buckets;
  /// Addresses in the arena, -1: the program has none. Tokens and labels are
  /// i32 [microBatches, rows]; loss, gradNorm are f32 [1], flag is i32 [1].
  int64_t tokens = -1, labels = -1, loss = -1, gradNorm = -1, flag = -1;
  /// Step number as i32 [1], written by the engine before each step.
  int64_t step = -1;
};

struct Table {
  int64_t version = kTableVersion;
  std::string model, target;
  int64_t ranks = 1;
  /// Per rank: micro-batches of a step, samples of a micro-batch, tokens of
  /// a sample. Micro-batch m of data-parallel rank r is sample m*dp + r.
  int64_t microBatches = 1, microBatchSamples = 1, sequence = 1;
  int64_t dataParallel = 1;
  int64_t vocabulary = 1;
  double initStd = 0.02;
  /// Bytes an arena may have.
  int64_t memoryLimit = 0;
  std::vector<Stream> streams;
  std::vector<Communicator> communicators;
  std::vector<Kernel> kernels;
  std::vector<Template> templates;
  std::vector<Program> programs;
};

//===----------------------------------------------------------------------===//
// Reading, writing, checking
//===----------------------------------------------------------------------===//

/// Well-formedness: every index in range, operands inside their frames,
/// frames inside the arena, counts of operands as the kernel says, imports of
/// earlier calls. Returns all problems found (at most 20), empty: well-formed.
/// Everything else that reads a table may rely on it.
std::vector<std::string> checkTable(const Table &table);

/// JSON text of the table, and back. `error` names the key and the reason;
/// the result is empty (`ok` false) then.
std::string toJson(const Table &table);
bool fromJson(const std::string &text, Table &table, std::string &error);

} // namespace moert

#endif // MOE_TABLE_TABLE_H
