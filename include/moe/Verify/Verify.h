//===- Verify.h - Five proofs over a table --------------------------------===//
//
// verify() accepts a table only if, for the whole job:
//   race       every read is after its write and before the next write of the
//              same bytes, by issue order, streams and events; the host has
//              read the rows of a grouped product before it issues that
//   agreement  the ranks of a communicator issue the same collectives in the
//              same order, sends meet receives, nothing waits in a cycle
//   memory     every arena fits the limit
//   capture    no host read, no host operand, no grouped product, and no
//              collective interleaved with eager ones of its communicator,
//              within a captured range
//   value      loss, gradients and parameters carry the same symbolic value
//              as the serial program
//
// It reads the table and the reference values, never the scheduler's word.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_VERIFY_VERIFY_H
#define MOE_VERIFY_VERIFY_H

#include "moe/Table/ScheduleView.h"

namespace moert {

enum class Proof : uint8_t { Race, Agreement, Memory, Capture, Value };
const char *proofName(Proof proof);

/// One fault, reported once per (template pair, ops) with its count; the
/// message tells the first instance.
struct Fault {
  Proof proof = Proof::Race;
  std::string message;
  /// Program (stage), template and op of the failing op, and of the other one
  /// of the pair if there is one (-1: none).
  int64_t program = -1;
  int64_t tmpl = -1, op = -1;
  int64_t otherTmpl = -1, otherOp = -1;
  int64_t count = 1;
};

/// What the serial program leaves in one range of a program's arena: a hash of
/// the expression that computes it. Filled from the kernels-phase program.
struct ExpectedValue {
  std::string name;
  uint32_t program = 0;
  int64_t address = 0, bytes = 0;
  uint64_t value = 0;
};

/// Hashes of expressions, shared by verify and by whoever derives the expected
/// values. Collectives: the member's own operands; every member issues the
/// same one (proof agreement), so position in the group is left symbolic.
namespace value {
/// Value of a parameter, of the step's tokens, ... before the step.
uint64_t initial(const std::string &name);
/// Result number `result` (among written operands) of a kernel or collective
/// applied to `operands` (values of read and read-written operands, in order).
/// `signature` is signatureOf the op.
uint64_t apply(uint64_t signature, const std::vector<uint64_t> &operands,
               uint32_t result);
uint64_t kernelSignature(const Kernel &kernel);
uint64_t collectiveSignature(CollectiveKind kind,
                             const std::string &communicator);
/// Of a launch or collective; 0 for other ops, which copy. Holds the operands'
/// types where results depend on them: bytes that are read as other rows give
/// something else. "zero" and collectives that move or add single elements
/// don't look at rows.
uint64_t signatureOf(const Table &table, const Op &op);
} // namespace value

struct VerifyResult {
  std::vector<Fault> faults;
  /// Per program: bytes of the arena's high-water mark (as placed) and of the
  /// largest sum of live buffers; their difference is fragmentation.
  std::vector<int64_t> highWater, livePeak;
  /// Flat ops that were checked, all programs.
  int64_t ops = 0;
  /// CUDA graphs that a run instantiates: distinct (program, capture, base
  /// addresses of the frames that it uses).
  int64_t graphInstances = 0;
  bool ok() const { return faults.empty(); }
};

/// `expected` empty: the value proof is reported as a fault ("no reference").
struct VerifyOptions {
  bool value = true;
  /// Values that the serial program computes, sends or brings to the host on
  /// its way, sorted; may be empty.
  /// With them, a value fault names the first op that strays, not only the op
  /// that wrote the wrong result.
  std::vector<uint64_t> known;
};
/// The table must be well-formed (checkTable). At most 50 faults are listed. A
/// table of more than 64 streams is not proven, which is a fault.
VerifyResult verify(const Table &table,
                    const std::vector<ExpectedValue> &expected,
                    const VerifyOptions &options = {});

} // namespace moert

#endif // MOE_VERIFY_VERIFY_H
