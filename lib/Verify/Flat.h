//===- Flat.h - A program of the table as the proofs read it --------------===//
//
// Programs have hundreds of thousands of ops, so that the proofs work on flat
// arrays. The arena is cut at the ends of all ranges that the program names;
// a proof keeps its state per segment between two cuts, and an operand is a
// run of segments. Runs are found once per (template, frame, base), not per op.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_LIB_VERIFY_FLAT_H
#define MOE_LIB_VERIFY_FLAT_H

#include "moe/Verify/ValueMap.h"

#include <array>
#include <functional>
#include <unordered_map>

namespace moert::verifier {

/// Does it use Op::communicator?
inline bool communicates(const Op &op) {
  return op.kind == OpKind::Collective || op.kind == OpKind::Send ||
         op.kind == OpKind::Recv;
}

/// An operand of a template's op.
struct FlatOperand {
  uint32_t frame = 0;
  /// Among the distinct ranges that the template uses of the frame.
  uint32_t slot = 0;
  Effect effect = Effect::Read;
  /// Read by the host when it issues the op: counts of a collective.
  bool byHost = false;

  bool reads() const { return effect != Effect::Write; }
  bool writes() const { return effect != Effect::Read; }
};

/// A template's ops, with their operands in one array.
struct FlatTemplate {
  explicit FlatTemplate(const Template &t);

  const FlatOperand *begin(uint32_t op) const { return &operands[first[op]]; }
  const FlatOperand *end(uint32_t op) const { return &operands[first[op + 1]]; }

  std::vector<uint32_t> first;
  std::vector<FlatOperand> operands;
  /// Distinct ranges per frame, relative to it.
  std::vector<std::vector<Range>> slots;
};

/// Segments [begin, end).
struct Run {
  int32_t begin = 0, end = 0;
};

class FlatProgram {
public:
  /// `alsoNamed`: more ranges that must be runs (expected values).
  FlatProgram(const Table &table, const std::vector<FlatTemplate> &templates,
              uint32_t program, const std::vector<Range> &alsoNamed);

  const ScheduleView view;
  const uint32_t index;

  int32_t size() const { return int32_t(callOf.size()); }
  int32_t segments() const { return int32_t(cuts.size()) - 1; }
  int64_t segmentBytes(int32_t s) const { return cuts[s + 1] - cuts[s]; }
  int64_t runBytes(Run run) const { return cuts[run.end] - cuts[run.begin]; }
  /// The run of a range that was named when this was made.
  Run runOf(Range range) const;

  /// Operand of an op of `call`.
  Run run(int64_t call, const FlatOperand &operand) const {
    return runs[frameRuns[firstFrame[call] + operand.frame] + operand.slot];
  }
  const FlatTemplate &flat(int64_t call) const {
    return (*templates)[view.program().calls[call].tmpl];
  }
  const Op &op(int32_t index) const {
    int32_t call = callOf[index];
    return view.op(call, index - view.firstOpOf(call));
  }

  /// Calls fn(flat index, call, op, first operand, end of operands) in issue
  /// order.
  template <typename Fn> void forEachOp(Fn fn) const {
    const std::vector<Call> &calls = view.program().calls;
    int32_t index = 0;
    for (size_t call = 0; call < calls.size(); ++call) {
      const FlatTemplate &info = (*templates)[calls[call].tmpl];
      const std::vector<Op> &ops = view.templateOf(call).ops;
      for (uint32_t local = 0; local < ops.size(); ++local, ++index)
        fn(index, int32_t(call), ops[local], info.begin(local),
           info.end(local));
    }
  }

  /// "'layers.3.mlp/fwd mb 5' on stream comm".
  std::string describe(int32_t index) const;
  /// "stage 'decoder' (ranks 0 to 7)".
  std::string describeRanks() const;

  /// Ends of ranges, sorted.
  std::vector<int64_t> cuts;
  /// Largest end of a range that ops or the step's inputs use.
  int64_t highWater = 0;
  /// Call of each flat op, flat ops of each stream, position of each op there.
  std::vector<int32_t> callOf, positionOf;
  std::vector<std::vector<int32_t>> streamOps;
  /// What holds values before the step.
  std::vector<NamedRange> initial;

private:
  const std::vector<FlatTemplate> *templates;
  /// By frame of a call: first of its runs.
  std::vector<uint32_t> firstFrame, frameRuns;
  std::vector<Run> runs;
};

/// Which ops happen before which, within a rank: a stream runs its ops in
/// issue order, waits take effect on the op's stream, and a host read is done
/// before anything is issued after it. A vector clock per op.
class HappensBefore {
public:
  explicit HappensBefore(const FlatProgram &program);

  /// clock[s]: position of the last op of stream s known to be done (-1:
  /// none). Of the op's own stream: its own position.
  const int32_t *clock(int32_t op) const {
    return &clocks[size_t(op) * streams];
  }
  bool before(int32_t a, int32_t b) const {
    return clock(b)[program.op(a).stream] >= program.positionOf[a];
  }

private:
  const FlatProgram &program;
  const size_t streams;
  std::vector<int32_t> clocks;
};

/// Where an op is, for a fault.
struct OpRef {
  const FlatProgram *program = nullptr;
  int32_t op = -1;
};

/// Collects faults: one per pair of template ops and reason, at most 50.
class Faults {
public:
  explicit Faults(std::vector<Fault> &faults) : faults(faults) {}

  /// `reason` tells reasons of one proof apart; `message` is only called for
  /// the first instance. `other` may be empty.
  void add(Proof proof, int reason, OpRef at, OpRef other,
           const std::function<std::string()> &message);

private:
  std::vector<Fault> &faults;
  std::unordered_map<std::string, size_t> known;
};

//===----------------------------------------------------------------------===//
// The proofs
//===----------------------------------------------------------------------===//

/// How programs meet in communicators: the representative rank of a program is
/// its first one, and rank enters only as data.
class Peers {
public:
  Peers(const Table &table, const std::vector<FlatProgram> &programs);

  /// Programs whose ranks share groups of the communicator, as the smallest
  /// program index among them.
  uint32_t classOf(uint32_t communicator, uint32_t program) const {
    return classes[communicator][program];
  }
  /// Number of programs of that class.
  int64_t classSize(uint32_t communicator, uint32_t program) const;
  /// Two communicators with groups that have more than one rank in common.
  bool overlap(uint32_t a, uint32_t b, uint32_t program) const;

  /// Sends from one program to another at one distance in a communicator.
  struct Channel {
    uint32_t communicator = 0;
    int32_t from = 0, to = 0, distance = 0;
    /// Flat ops in issue order.
    std::vector<int32_t> sends, receives;
  };
  std::vector<Channel> channels;
  /// Per program and flat op: number among the collectives of its communicator
  /// or among the sends (receives) of its channel; -1: none of these.
  std::vector<std::vector<int32_t>> ordinal;
  /// Channel of a send or receive.
  int32_t channelOf(uint32_t program, const Op &op) const;
  /// Flat collectives of a communicator, in issue order.
  const std::vector<int32_t> &collectives(uint32_t program, uint32_t c) const {
    return collectiveOps[program][c];
  }
  /// Ops whose peers of one program would run different programs.
  std::vector<OpRef> mixed;

private:
  int32_t makeChannel(uint32_t program, const Op &op);

  const Table &table;
  std::vector<int32_t> rankPrograms;
  std::vector<std::vector<uint32_t>> classes;
  std::vector<std::vector<std::vector<int32_t>>> collectiveOps;
  /// (program, communicator, peer, is send) -> channel.
  std::map<std::array<int64_t, 4>, int32_t> channelIds;
};

void proveNoRace(const FlatProgram &program, const HappensBefore &order,
                 Faults &faults);
/// Within a rank: collectives whose communicators share ranks are ordered.
void proveCollectiveOrder(const FlatProgram &program,
                          const HappensBefore &order, const Peers &peers,
                          Faults &faults);
/// Across programs. Returns true if no fault was found.
bool proveAgreement(const Table &table,
                    const std::vector<FlatProgram> &programs,
                    const Peers &peers, Faults &faults);
void proveMemory(const FlatProgram &program, Faults &faults, int64_t &highWater,
                 int64_t &livePeak);
/// Returns the number of graph instances.
int64_t proveCapture(const Table &table,
                     const std::vector<FlatProgram> &programs, Faults &faults);

/// Values of all programs after the step, in issue order.
class ValueRun {
public:
  /// Runs at once. `faults`, if not null, gets counts that do not come from
  /// the same exchange, and overflow flags set too late. `known` as in
  /// VerifyOptions; `results`, if not null, gets every result.
  ValueRun(const Table &table, const std::vector<FlatProgram> &programs,
           const Peers &peers, Faults *faults,
           const std::vector<uint64_t> &known, std::vector<uint64_t> *results);
  ~ValueRun();

  /// Whether the program came to its end; it does not if a receive waits for a
  /// send that never comes.
  bool finished(uint32_t program) const;
  uint64_t read(uint32_t program, Run run) const;
  /// The op that wrote the last byte of the run to be written, -1: none.
  int32_t lastWriter(uint32_t program, Run run) const;
  /// First op with a result that is not among the known values.
  OpRef firstStray() const { return stray; }

private:
  struct State;

  std::vector<State> states;
  OpRef stray;
};

} // namespace moert::verifier

#endif // MOE_LIB_VERIFY_FLAT_H
