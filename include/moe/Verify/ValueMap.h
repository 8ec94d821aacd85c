//===- ValueMap.h - Which symbolic value a range of bytes holds -----------===//
//
// Proof "value" numbers the expressions that a program computes, not numbers:
// two ranges of bytes hold the same value if and only if (up to collisions of
// 64-bit hashes) the same expression of the step's inputs computed them. How
// the bytes are cut into buffers does not matter: a value read in parts and a
// value assembled from parts have one canonical form.
//
// Conventions, for whoever derives expected values:
//  - before the step, ranges hold initial(name) of initialRanges();
//  - a launch's written operands get apply(signatureOf, reads, i);
//  - send, receive and host read copy; they name no value of their own;
//  - a collective is apply(signatureOf, {x}, 0), an all-to-all
//    apply(signatureOf, {x, sendCounts, recvCounts}, 0). The overflow
//    flag passes through all-to-alls unchanged, as their order is free: verify
//    checks instead that no all-to-all sets it after something has read it.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_VERIFY_VALUEMAP_H
#define MOE_VERIFY_VALUEMAP_H

#include "moe/Verify/Verify.h"

#include <map>

namespace moert {

namespace value {

/// Bytes [offset, offset + length) of a value that has `total` bytes.
struct Piece {
  uint64_t value = 0;
  int64_t offset = 0, length = 0, total = 0;
};

/// What the kernel "zero" writes. All bytes are alike: each slice of it, and
/// several in a row, are the same value again.
uint64_t zero();
/// Appends a piece, merged with the last one where they adjoin.
void append(std::vector<Piece> &pieces, Piece piece);
/// The value of pieces in a row; they must have been merged by append.
uint64_t combine(const std::vector<Piece> &pieces);
uint64_t slice(uint64_t value, int64_t offset, int64_t length, int64_t total);
/// Whole values in a row, each with its number of bytes.
uint64_t concat(const std::vector<std::pair<uint64_t, int64_t>> &parts);

} // namespace value

/// Values of the ranges of an arena. Bytes that nothing wrote hold
/// value::initial("undefined").
class ValueMap {
public:
  void write(Range range, uint64_t value);
  uint64_t read(Range range) const;

private:
  struct Entry {
    int64_t end = 0;
    value::Piece piece;
  };
  /// Makes `at` a boundary between entries.
  void cut(int64_t at);
  /// Disjoint, by begin.
  std::map<int64_t, Entry> entries;
};

struct NamedRange {
  std::string name;
  Range range;
};

/// What holds a value before a step, later entries over earlier ones:
///   "<bucket>:weights", "<bucket>:gradients" (whole, padding included),
///   "<bucket>:master", "<bucket>:moment1", "<bucket>:moment2" (the shard),
///   "<parameter>", "<parameter>:gradient" by the first of its names,
///   "tokens", "labels", "loss", "flag", "step".
std::vector<NamedRange> initialRanges(const Table &table, uint32_t program);

/// What a step leaves: "loss", "gradNorm", and parameters, their gradients,
/// masters and moments by the names above.
std::vector<NamedRange> finalRanges(const Table &table, uint32_t program);

/// Runs the table symbolically in issue order; the table must be well-formed.
/// Returns the values of finalRanges() of each program that came to its end.
/// `results`, if not null, gets every value that an op computes or copies,
/// sorted: what VerifyOptions::known takes.
std::vector<ExpectedValue> valuesAfterStep(const Table &table,
                                           std::vector<uint64_t> *results);

} // namespace moert

#endif // MOE_VERIFY_VALUEMAP_H
