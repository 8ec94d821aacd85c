//===- Scheduler.h - Runs queued ops in a legal order -----------*- C++ -*-===//
//
// Ops are queued as the host issues them. They run when the host waits for
// something, one at a time: any op whose predecessors are done may be next.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TOOLS_STAND_IN_SCHEDULER_H
#define MOE_TOOLS_STAND_IN_SCHEDULER_H

#include "Clock.h"
#include "Races.h"

#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <unordered_set>
#include <vector>

namespace standin {

struct Op;
struct Capture;

/// An op that needs other processes: started once, then done when it says so.
class Flight {
public:
  virtual ~Flight() = default;
  virtual void start() = 0;
  virtual bool arrived() = 0;
  /// Runs when it arrived.
  virtual void finish() = 0;
  /// For the report of a deadlock.
  virtual std::string waitsFor() const = 0;
};

/// What an op does. A node of a graph is launched many times.
class Work {
public:
  virtual ~Work() = default;
  std::string name;
  std::vector<moe_range> ranges;

  virtual void run() {}
  /// Whether there are more bytes, which only the device knows.
  virtual bool isLate() const { return false; }
  /// These, just before it runs.
  virtual std::vector<moe_range> lateRanges() { return {}; }
  /// Called as the host issues `op`, in that order. May add predecessors.
  virtual std::unique_ptr<Flight> issue(Op &op,
                                        std::vector<std::shared_ptr<Op>> &) {
    return nullptr;
  }
};

struct Op : std::enable_shared_from_this<Op> {
  std::shared_ptr<Work> work;
  std::unique_ptr<Flight> flight;
  long id = 0;
  int lane = 0;
  uint32_t tick = 0;
  /// Of what is known to happen before it, and itself.
  Clock clock;
  int unmet = 0;
  std::vector<std::shared_ptr<Op>> successors;
  bool started = false, done = false;
};
using OpRef = std::shared_ptr<Op>;

struct Stream {
  int lane = 0;
  bool blocking = true;
  int priority = 0;
  /// The last op, and what is known to happen before the next one.
  OpRef last;
  Clock clock;
  /// While it is captured: the nodes that the next one follows.
  std::shared_ptr<Capture> capture;
  std::vector<int> tail;
};

class Scheduler {
public:
  Scheduler();

  /// Guards the scheduler and all state of streams, events and memory.
  std::mutex mutex;
  using Lock = std::unique_lock<std::mutex>;
  /// For calls of the host.
  Lock enter();

  int newLane(std::string name);
  const std::string &laneName(int lane) const { return laneNames[lane]; }

  /// Queues an op on a stream that isn't captured.
  OpRef enqueue(Stream &stream, std::shared_ptr<Work> work,
                std::vector<OpRef> after = {});
  /// Queues an op on a lane of its own, after `after`.
  OpRef enqueueOn(int lane, Clock clock, std::shared_ptr<Work> work,
                  std::vector<OpRef> after);

  /// Runs ops until `done`; faults on a deadlock.
  void until(Lock &lock, const std::function<bool()> &done);
  /// Runs a few ops. Never blocks for long.
  void advance(Lock &lock);
  /// What runs when nothing else wakes it: called by the background thread.
  void idle();
  /// Something arrived from another process.
  void notify();

  bool quiet() const { return pending == 0; }
  Clock &host() { return hostClock; }
  Races &races() { return raceMap; }

  /// The legacy stream; the streams that it waits for and that wait for it.
  Stream legacy;
  std::unordered_set<Stream *> streams;
  /// Of streams that are no more.
  Clock destroyed;

private:
  /// Runs one op or the end of one; false: none can.
  bool step();
  OpRef choose(bool &finishes);
  /// Faults if the op's bytes can't be used.
  void checkAddresses(const Op &op, const std::vector<moe_range> &ranges);
  void complete(const OpRef &op);
  /// Waits until something arrives; faults after too long.
  void stall(Lock &lock, double seconds);
  [[noreturn]] void deadlock();

  std::vector<std::string> laneNames;
  std::vector<uint32_t> ticks;
  Clock hostClock;
  Races raceMap;
  std::vector<OpRef> ready, inFlight;
  /// Ops that are not done; all ops.
  long pending = 0, issued = 0;
  std::mt19937_64 random;

  long arrivals = 0;
  double lastProgress = 0, lastCall = 0;
  long calls = 0, idleCalls = 0;
};

Scheduler &scheduler();

} // namespace standin

#endif // MOE_TOOLS_STAND_IN_SCHEDULER_H
