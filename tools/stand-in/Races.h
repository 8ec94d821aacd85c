//===- Races.h - Which ops touched which bytes ------------------*- C++ -*-===//

#ifndef MOE_TOOLS_STAND_IN_RACES_H
#define MOE_TOOLS_STAND_IN_RACES_H

#include "Clock.h"
#include "lib/Runtime/Cuda/Twin.h"

#include <deque>
#include <map>
#include <string>
#include <vector>

namespace standin {

/// An op as the race check sees it.
struct Actor {
  const std::string &name;
  const std::string &lane;
  int laneId;
  uint32_t tick;
  const Clock &clock;
};

/// For all bytes, the last write and the reads since. That is enough: what is
/// ordered after the last write is ordered after all earlier ones, or they
/// were a fault themselves. It takes accesses in the order in which ops are
/// issued: while the bytes of one are not known, those of later ops wait.
class Races {
public:
  /// Faults if another op touches these bytes and neither is first, or (when
  /// asked for) if bytes of device memory are read that nothing wrote.
  void touch(const Actor &actor, const std::vector<moe_range> &ranges);
  /// More bytes of the op follow, by complete(), when it runs.
  void expect(const Actor &actor, long op);
  void complete(long op, std::vector<moe_range> ranges);
  /// Forgets the bytes, as they are allocated or freed. Faults if there is an
  /// access that `clock` doesn't cover: the host has not waited for it.
  void forget(uintptr_t begin, uintptr_t end, const Clock &clock);

private:
  struct Waiting {
    std::string name, lane;
    int laneId;
    uint32_t tick;
    Clock clock;
    /// The op whose bytes are not known yet; -1: they are.
    long expected;
    std::vector<moe_range> ranges;

    Actor actor() const { return {name, lane, laneId, tick, clock}; }
  };

  struct Access {
    /// Interned: outlive the op.
    const std::string *name = nullptr, *lane = nullptr;
    int laneId = 0;
    uint32_t tick = 0;
  };
  struct Segment {
    uintptr_t end;
    Access write;
    std::vector<Access> reads;
  };
  using Map = std::map<uintptr_t, Segment>;

  void touch(const Actor &actor, const moe_range &range);
  /// Splits a segment so that one begins at `at`.
  void split(uintptr_t at);
  /// Segments that cover [begin, end) exactly; gaps become empty segments.
  void cover(uintptr_t begin, uintptr_t end);
  void check(const Actor &actor, const Access &before, bool actorWrites,
             bool beforeWrote, uintptr_t begin, uintptr_t end) const;

  Map segments;
  std::deque<Waiting> waiting;
};

/// "device memory 0x..+16" for messages.
std::string describeBytes(uintptr_t begin, uintptr_t end);

} // namespace standin

#endif // MOE_TOOLS_STAND_IN_RACES_H
