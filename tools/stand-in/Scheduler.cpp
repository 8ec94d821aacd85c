//===- Scheduler.cpp - Runs queued ops in a legal order ---------*- C++ -*-===//

#include "Scheduler.h"
#include "Memory.h"
#include "Report.h"

#include <chrono>
#include <condition_variable>
#include <thread>

namespace standin {
namespace {

constexpr auto kIdle = std::chrono::milliseconds(50);
constexpr double kQuerySeconds = 0.001;
/// Another thread of the host may issue what a waiting one needs.
constexpr double kSliceSeconds = 0.02;
/// A host that was away longer than this is not a deadlock.
constexpr double kAwaySeconds = 1;

double now() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Arrivals come from threads that must never wait for an op that runs, or two
/// processes that send to each other would stop.
struct Arrivals {
  std::mutex mutex;
  std::condition_variable changed;
  long count = 0;
};
Arrivals &arrivalsOf() {
  static Arrivals &result = *new Arrivals;
  return result;
}

} // namespace

Scheduler::Scheduler() : random(settings().seed) {
  newLane("host");
  legacy.lane = newLane("default stream");
  // A real device works while the host does something else, such as waiting
  // for another process by its own means.
  std::thread([this] {
    for (;;) {
      std::this_thread::sleep_for(kIdle);
      idle();
    }
  }).detach();
}

Scheduler::Lock Scheduler::enter() {
  Lock lock(mutex);
  ++calls;
  double time = now();
  if (time - lastCall > kAwaySeconds)
    lastProgress = time;
  lastCall = time;
  return lock;
}

int Scheduler::newLane(std::string name) {
  laneNames.push_back(std::move(name));
  ticks.push_back(0);
  return int(laneNames.size()) - 1;
}

OpRef Scheduler::enqueue(Stream &stream, std::shared_ptr<Work> work,
                         std::vector<OpRef> after) {
  // The legacy stream and the blocking streams wait for each other.
  if (&stream == &legacy) {
    for (Stream *other : streams)
      if (other->blocking && other->last) {
        after.push_back(other->last);
        stream.clock.join(other->clock);
      }
  } else if (stream.blocking && legacy.last) {
    after.push_back(legacy.last);
    stream.clock.join(legacy.clock);
  }
  for (const OpRef &op : after)
    stream.clock.join(op->clock);
  if (stream.last)
    after.push_back(stream.last);
  stream.last = enqueueOn(stream.lane, stream.clock, std::move(work), after);
  stream.clock = stream.last->clock;
  return stream.last;
}

OpRef Scheduler::enqueueOn(int lane, Clock clock, std::shared_ptr<Work> work,
                           std::vector<OpRef> after) {
  auto op = std::make_shared<Op>();
  op->id = issued++;
  op->lane = lane;
  op->tick = ++ticks[lane];
  op->clock = std::move(clock);
  op->clock.join(hostClock);
  op->clock.set(lane, op->tick);
  op->work = std::move(work);
  op->flight = op->work->issue(*op, after);
  Actor actor{op->work->name, laneNames[lane], lane, op->tick, op->clock};
  checkAddresses(*op, op->work->ranges);
  raceMap.touch(actor, op->work->ranges);
  if (op->work->isLate())
    raceMap.expect(actor, op->id);
  for (const OpRef &before : after)
    if (!before->done) {
      before->successors.push_back(op);
      ++op->unmet;
    }
  ++pending;
  lastProgress = now();
  if (op->unmet == 0)
    ready.push_back(op);
  return op;
}

void Scheduler::checkAddresses(const Op &op,
                               const std::vector<moe_range> &ranges) {
  for (const moe_range &range : ranges) {
    uintptr_t begin = uintptr_t(range.begin), end = begin + range.bytes;
    std::string wrong = range.bytes > 0 ? memory().fault(begin, end) : "";
    if (!wrong.empty())
      fault("ADDRESS", op.work->name + " (" + laneNames[op.lane] +
                           ") touches " + describeBytes(begin, end) +
                           ", which " + wrong);
  }
}

OpRef Scheduler::choose(bool &finishes) {
  std::vector<OpRef *> ends;
  for (OpRef &op : inFlight)
    if (op->flight->arrived())
      ends.push_back(&op);
  size_t choices = ready.size() + ends.size();
  if (choices == 0)
    return nullptr;
  auto at = [&](size_t i) -> OpRef & {
    return i < ready.size() ? ready[i] : *ends[i - ready.size()];
  };
  size_t chosen = 0;
  if (settings().seed != 0)
    chosen = random() % choices;
  else
    for (size_t i = 1; i < choices; ++i)
      if (at(i)->id < at(chosen)->id)
        chosen = i;
  finishes = chosen >= ready.size();
  std::vector<OpRef> &from = finishes ? inFlight : ready;
  OpRef &slot = at(chosen);
  OpRef op = std::move(slot);
  slot = std::move(from.back());
  from.pop_back();
  return op;
}

bool Scheduler::step() {
  bool finishes = false;
  OpRef op = choose(finishes);
  if (!op)
    return false;
  lastProgress = now();
  if (finishes) {
    op->flight->finish();
    complete(op);
  } else if (op->flight) {
    op->started = true;
    op->flight->start();
    inFlight.push_back(op);
  } else {
    if (op->work->isLate()) {
      // It reads some of its bytes to know the rest: are they still there?
      checkAddresses(*op, op->work->ranges);
      std::vector<moe_range> late = op->work->lateRanges();
      checkAddresses(*op, late);
      raceMap.complete(op->id, std::move(late));
    }
    op->work->run();
    complete(op);
  }
  return true;
}

void Scheduler::complete(const OpRef &op) {
  op->done = true;
  --pending;
  if (!op->work->name.empty())
    ++counts().ops;
  for (OpRef &next : op->successors)
    if (--next->unmet == 0)
      ready.push_back(std::move(next));
  op->successors.clear();
  // What is kept of it is its clock, by the last op of a stream.
  op->flight.reset();
  op->work.reset();
}

void Scheduler::until(Lock &lock, const std::function<bool()> &done) {
  while (!done())
    if (!step())
      stall(lock, kSliceSeconds);
}

void Scheduler::advance(Lock &lock) {
  int steps = settings().seed == 0 ? 1 : 1 + int(random() % 4);
  for (int i = 0; i < steps; ++i)
    if (!step()) {
      if (pending != 0)
        stall(lock, kQuerySeconds);
      return;
    }
}

void Scheduler::idle() {
  Lock lock(mutex, std::try_to_lock);
  if (!lock)
    return;
  // A host that calls decides itself when something runs.
  while (calls == idleCalls && step()) {
    lock.unlock();
    std::this_thread::yield();
    lock.lock();
  }
  idleCalls = calls;
}

void Scheduler::notify() {
  Arrivals &a = arrivalsOf();
  std::lock_guard<std::mutex> guard(a.mutex);
  ++a.count;
  a.changed.notify_all();
}

void Scheduler::stall(Lock &lock, double seconds) {
  Arrivals &a = arrivalsOf();
  std::unique_lock<std::mutex> guard(a.mutex);
  if (a.count == arrivals) {
    double left = lastProgress + settings().timeout - now();
    if (left <= 0)
      deadlock();
    lock.unlock();
    a.changed.wait_for(guard,
                       std::chrono::duration<double>(std::min(left, seconds)),
                       [&] { return a.count != arrivals; });
    guard.unlock();
    lock.lock();
    guard.lock();
  }
  if (a.count != arrivals) {
    arrivals = a.count;
    lastProgress = now();
  }
}

void Scheduler::deadlock() {
  std::string text = "nothing can run, and nothing arrived for " +
                     std::to_string(int(settings().timeout)) + " s.";
  for (const OpRef &op : inFlight)
    text += "\n  " + op->work->name + " (" + laneNames[op->lane] +
            ") waits for " + op->flight->waitsFor();
  if (inFlight.empty())
    text += "\n  no op has started";
  fault("DEADLOCK", text);
}

Scheduler &scheduler() {
  static Scheduler &result = *new Scheduler;
  return result;
}

} // namespace standin
