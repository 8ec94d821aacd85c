//===- Plan.h - Addresses that a schedule leaves out ------------*- C++ -*-===//

#ifndef MOE_LIB_TARGET_TABLE_PLAN_H
#define MOE_LIB_TARGET_TABLE_PLAN_H

#include "moe/Table/Table.h"

namespace moert {

/// Sizes and offsets of a template that are not given.
class FramePlan {
public:
  explicit FramePlan(size_t frames) : end(frames) {}

  /// A buffer that is given, or is to be placed by run().
  void add(Operand &buffer, bool placed) {
    (placed ? given : open).push_back(&buffer);
  }
  /// Gives each open buffer a place after the given ones of its frame, and
  /// frames without size (bytes < 0) the size of their buffers.
  void run(std::vector<Frame> &frames);
  /// Whether a buffer of a temporary frame was open.
  bool openTemporaries(const std::vector<Frame> &frames) const;

private:
  std::vector<Operand *> given, open;
  std::vector<int64_t> end;
};

/// Binds the frames of `open` calls (by index) by their names: frames of one
/// name are one place, after all that the program places itself. Then, if
/// `arena` is not given, the program's arena ends where the last range does.
/// With `inputs`, frames hold values from before: each place is a parameter,
/// but of temporary and host frames.
void planCalls(const Table &table, Program &program,
               const std::vector<size_t> &open, bool arenaGiven, bool inputs);

} // namespace moert

#endif // MOE_LIB_TARGET_TABLE_PLAN_H
