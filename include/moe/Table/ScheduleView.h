//===- ScheduleView.h - A program of the table, flat ----------------------===//
//
// Lazily expands one program: op k of the view is op `local` of call `call`.
// Addresses are bytes from the start of the rank's arena.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TABLE_SCHEDULEVIEW_H
#define MOE_TABLE_SCHEDULEVIEW_H

#include "moe/Table/Table.h"

namespace moert {

/// A half-open range of bytes of the arena.
struct Range {
  int64_t begin = 0, end = 0;
};

class ScheduleView {
public:
  ScheduleView(const Table &table, uint32_t program);

  const Table &table() const { return *tablePtr; }
  const Program &program() const;
  /// Number of ops in the whole program, in issue order.
  int64_t size() const { return firstOp.empty() ? 0 : firstOp.back(); }
  /// Index of the first op of a call; firstOpOf(calls) == size().
  int64_t firstOpOf(int64_t call) const { return firstOp[call]; }
  /// The call that holds flat op `index`.
  int64_t callOf(int64_t index) const;

  const Template &templateOf(int64_t call) const;
  const Op &op(int64_t call, uint32_t local) const;
  Range range(int64_t call, const Operand &operand) const;
  /// Flat index of the op that a wait names, -1: already done.
  int64_t waitedOp(int64_t call, const Wait &wait) const;
  /// Layer and micro-batch of the half that the op belongs to, -1: none.
  int64_t layer(int64_t call, uint32_t local) const;
  int64_t microBatch(int64_t call, uint32_t local) const;
  /// The op's location with layer and micro-batch filled in.
  std::string location(int64_t call, uint32_t local) const;

private:
  const Table *tablePtr;
  uint32_t programIndex;
  std::vector<int64_t> firstOp;
};

} // namespace moert

#endif // MOE_TABLE_SCHEDULEVIEW_H
