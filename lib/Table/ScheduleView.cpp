//===- ScheduleView.cpp - A program of the table, flat --------------------===//

#include "moe/Table/ScheduleView.h"

#include <algorithm>

namespace moert {

ScheduleView::ScheduleView(const Table &table, uint32_t program)
    : tablePtr(&table), programIndex(program) {
  const std::vector<Call> &calls = table.programs[program].calls;
  firstOp.reserve(calls.size() + 1);
  firstOp.push_back(0);
  for (const Call &call : calls)
    firstOp.push_back(firstOp.back() + table.templates[call.tmpl].ops.size());
}

const Program &ScheduleView::program() const {
  return tablePtr->programs[programIndex];
}

int64_t ScheduleView::callOf(int64_t index) const {
  // The last call that starts at or before the op: empty calls start where the
  // next one does, and are passed over.
  return std::upper_bound(firstOp.begin(), firstOp.end(), index) -
         firstOp.begin() - 1;
}

const Template &ScheduleView::templateOf(int64_t call) const {
  return tablePtr->templates[program().calls[call].tmpl];
}

const Op &ScheduleView::op(int64_t call, uint32_t local) const {
  return templateOf(call).ops[local];
}

Range ScheduleView::range(int64_t call, const Operand &operand) const {
  int64_t begin = program().calls[call].bases[operand.frame] + operand.offset;
  return {begin, begin + operand.bytes()};
}

int64_t ScheduleView::waitedOp(int64_t call, const Wait &wait) const {
  if (!wait.isImport)
    return firstOp[call] + wait.index;
  const EventRef &event = program().calls[call].imports[wait.index];
  return event.call < 0 ? -1 : firstOp[event.call] + event.op;
}

/// The value of the op's own half, or of the other one where it has none.
static int64_t ofHalf(const Op &op, int64_t forward, int64_t backward) {
  bool isBackward = op.half == "B" || op.half == "W";
  int64_t own = isBackward ? backward : forward;
  return own >= 0 ? own : isBackward ? forward : backward;
}

int64_t ScheduleView::layer(int64_t call, uint32_t local) const {
  const Call &c = program().calls[call];
  return ofHalf(op(call, local), c.layer, c.backwardLayer);
}

int64_t ScheduleView::microBatch(int64_t call, uint32_t local) const {
  const Call &c = program().calls[call];
  return ofHalf(op(call, local), c.microBatch, c.backwardMicroBatch);
}

static void replaceAll(std::string &text, const std::string &pattern,
                       const std::string &by) {
  for (size_t at = 0; (at = text.find(pattern, at)) != std::string::npos;
       at += by.size())
    text.replace(at, pattern.size(), by);
}

std::string ScheduleView::location(int64_t call, uint32_t local) const {
  std::string text = op(call, local).location;
  int64_t i = layer(call, local), mb = microBatch(call, local);
  if (i >= 0)
    replaceAll(text, "{i}", std::to_string(i));
  if (mb >= 0)
    replaceAll(text, "{mb}", std::to_string(mb));
  return text;
}

} // namespace moert
