//===- Races.cpp - Which ops touched which bytes ----------------*- C++ -*-===//

#include "Races.h"
#include "Memory.h"
#include "Report.h"

#include <set>

namespace standin {
namespace {

const std::string *intern(const std::string &text) {
  static std::set<std::string> &pool = *new std::set<std::string>;
  return &*pool.insert(text).first;
}

std::string describe(const std::string &name, const std::string &lane,
                     bool writes) {
  return name + " (" + lane + ", " + (writes ? "writes" : "reads") + ")";
}

} // namespace

void Races::split(uintptr_t at) {
  auto it = segments.upper_bound(at);
  if (it == segments.begin())
    return;
  --it;
  if (it->first == at || it->second.end <= at)
    return;
  Segment tail = it->second;
  it->second.end = at;
  segments.emplace(at, std::move(tail));
}

void Races::cover(uintptr_t begin, uintptr_t end) {
  split(begin);
  split(end);
  auto it = segments.lower_bound(begin);
  while (begin < end) {
    uintptr_t next = it == segments.end() ? end : std::min(end, it->first);
    if (begin < next)
      segments.emplace_hint(it, begin, Segment{next, {}, {}});
    begin = next;
    if (begin < end)
      begin = (it++)->second.end;
  }
}

void Races::check(const Actor &actor, const Access &before, bool actorWrites,
                  bool beforeWrote, uintptr_t begin, uintptr_t end) const {
  if (!before.name || actor.clock.covers(before.laneId, before.tick))
    return;
  fault("RACE", describe(*before.name, *before.lane, beforeWrote) + " and " +
                    describe(actor.name, actor.lane, actorWrites) + " touch " +
                    describeBytes(begin, end) + ", and nothing orders them");
}

void Races::touch(const Actor &actor, const std::vector<moe_range> &ranges) {
  if (!waiting.empty()) {
    waiting.push_back({actor.name, actor.lane, actor.laneId, actor.tick,
                       actor.clock, -1, ranges});
    return;
  }
  for (const moe_range &range : ranges)
    touch(actor, range);
}

void Races::expect(const Actor &actor, long op) {
  waiting.push_back(
      {actor.name, actor.lane, actor.laneId, actor.tick, actor.clock, op, {}});
}

void Races::complete(long op, std::vector<moe_range> ranges) {
  auto it = std::find_if(waiting.begin(), waiting.end(),
                         [&](const Waiting &w) { return w.expected == op; });
  it->expected = -1;
  it->ranges = std::move(ranges);
  for (; !waiting.empty() && waiting.front().expected < 0; waiting.pop_front())
    for (const moe_range &range : waiting.front().ranges)
      touch(waiting.front().actor(), range);
}

void Races::touch(const Actor &actor, const moe_range &range) {
  uintptr_t begin = uintptr_t(range.begin), end = begin + range.bytes;
  if (range.bytes <= 0)
    return;
  bool reads = range.effect != MOE_WRITE, writes = range.effect != MOE_READ;
  cover(begin, end);
  Access access{intern(actor.name), intern(actor.lane), actor.laneId,
                actor.tick};
  for (auto it = segments.lower_bound(begin);
       it != segments.end() && it->first < end; ++it) {
    Segment &segment = it->second;
    if (reads && !segment.write.name && settings().uninitialised &&
        memory().isDevice(it->first))
      fault("UNINITIALISED", describe(actor.name, actor.lane, false) + ": " +
                                 describeBytes(it->first, segment.end) +
                                 " was never written");
    check(actor, segment.write, writes, true, it->first, segment.end);
    if (!writes) {
      auto same = std::find_if(
          segment.reads.begin(), segment.reads.end(),
          [&](const Access &read) { return read.laneId == access.laneId; });
      if (same != segment.reads.end())
        *same = access;
      else
        segment.reads.push_back(access);
      continue;
    }
    for (const Access &read : segment.reads)
      check(actor, read, true, false, it->first, segment.end);
    segment.reads.clear();
    segment.write = access;
  }
  if (!writes)
    return;
  // One segment again: else small reads would shatter the map for good.
  auto first = segments.find(begin);
  first->second.end = end;
  segments.erase(std::next(first), segments.lower_bound(end));
}

void Races::forget(uintptr_t begin, uintptr_t end, const Clock &clock) {
  static const std::string name = "the host frees it", lane = "host";
  split(begin);
  split(end);
  auto first = segments.lower_bound(begin), last = segments.lower_bound(end);
  Actor host{name, lane, 0, 0, clock};
  for (auto it = first; it != last; ++it) {
    check(host, it->second.write, true, true, it->first, it->second.end);
    for (const Access &read : it->second.reads)
      check(host, read, true, false, it->first, it->second.end);
  }
  for (const Waiting &w : waiting)
    for (const moe_range &range : w.ranges) {
      uintptr_t from = uintptr_t(range.begin), to = from + range.bytes;
      if (from < end && to > begin)
        check(host, {&w.name, &w.lane, w.laneId, w.tick}, true,
              range.effect != MOE_READ, std::max(from, begin),
              std::min(to, end));
    }
  segments.erase(first, last);
}

std::string describeBytes(uintptr_t begin, uintptr_t end) {
  return memory().describe(begin) + ", " + std::to_string(end - begin) +
         " bytes";
}

} // namespace standin
