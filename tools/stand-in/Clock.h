//===- Clock.h - What is known to have happened -----------------*- C++ -*-===//
//
// A lane is a line of ops that follow each other: a stream, a branch of a
// graph, or the host (lane 0). A clock says, for each lane, up to which of its
// ops everything happened before.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TOOLS_STAND_IN_CLOCK_H
#define MOE_TOOLS_STAND_IN_CLOCK_H

#include <algorithm>
#include <cstdint>
#include <vector>

namespace standin {

class Clock {
public:
  void join(const Clock &other) {
    if (ticks.size() < other.ticks.size())
      ticks.resize(other.ticks.size());
    for (size_t i = 0; i < other.ticks.size(); ++i)
      ticks[i] = std::max(ticks[i], other.ticks[i]);
  }
  bool covers(int lane, uint32_t tick) const {
    return size_t(lane) < ticks.size() && ticks[lane] >= tick;
  }
  void set(int lane, uint32_t tick) {
    if (ticks.size() <= size_t(lane))
      ticks.resize(lane + 1);
    ticks[lane] = tick;
  }

private:
  std::vector<uint32_t> ticks;
};

} // namespace standin

#endif // MOE_TOOLS_STAND_IN_CLOCK_H
