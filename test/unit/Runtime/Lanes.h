//===- Lanes.h - The device's lanes, simulated ------------------*- C++ -*-===//
//
// A Block (lib/Runtime/Cuda/Kernels/Group.h) of kBlock threads in warps of 32
// on one thread of the host: each lane is a context of its own that runs to its
// next barrier, so that the lanes' part of a kernel is executed as it stands.
// What lanes do between two barriers happens one lane after the other, by
// rising or, `backward`, falling numbers: a missing barrier is seen if it
// matters to one of the two. A barrier that some lane of its group doesn't
// reach ends the test.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_UNIT_RUNTIME_LANES_H
#define MOE_TEST_UNIT_RUNTIME_LANES_H

#include "lib/Runtime/Cuda/Kernels/Group.h"

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <vector>

#include <ucontext.h>

namespace moert::test {

class Lanes {
public:
  static constexpr int kThreads = cuda::kBlock, kWarp = 32;
  static constexpr int kWarps = kThreads / kWarp;

  /// Runs `body` on all threads of a block.
  void run(bool backward, const std::function<void()> &body) {
    this->body = &body;
    active = this;
    for (Thread &t : threads) {
      t.done = false;
      t.waitsFor = nullptr;
      getcontext(&t.context);
      t.context.uc_stack.ss_sp = t.stack.get();
      t.context.uc_stack.ss_size = kStack;
      t.context.uc_link = &scheduler;
      makecontext(&t.context, start, 0);
    }
    for (int running = kThreads, i = 0; running; ++i) {
      if (i == kThreads) {
        std::fprintf(stderr, "lanes wait for a barrier that some left out\n");
        std::abort();
      }
      current = backward ? kThreads - 1 - i : i;
      Thread &t = threads[current];
      if (t.done || (t.waitsFor && t.waitsFor->generation == t.generation))
        continue;
      int before = events;
      swapcontext(&scheduler, &t.context);
      running -= t.done;
      // Some that come before may run again.
      if (events != before)
        i = -1;
    }
  }

  int thread() const { return current; }
  void waitForWarp() { wait(warps[current / kWarp], kWarp); }
  void waitForBlock() { wait(block, kThreads); }
  /// Gives `v`, takes what the thread `from` gives. Of a whole warp.
  template <typename V> V exchange(V v, int from) {
    static_assert(sizeof(V) <= sizeof(Slot));
    // The next exchange uses the other slots, so one barrier is enough.
    Slot *side = slots[threads[current].exchanges++ % 2];
    std::memcpy(&side[current], &v, sizeof(V));
    waitForWarp();
    std::memcpy(&v, &side[from], sizeof(V));
    return v;
  }

private:
  static constexpr size_t kStack = 64 << 10;
  struct Barrier {
    int arrived = 0, generation = 0;
  };
  struct Thread {
    ucontext_t context;
    std::unique_ptr<char[]> stack{new char[kStack]};
    bool done;
    const Barrier *waitsFor;
    int generation;
    unsigned exchanges = 0;
  };
  using Slot = uint64_t[2];

  static void start() {
    Lanes *lanes = active;
    (*lanes->body)();
    lanes->threads[lanes->current].done = true;
    ++lanes->events;
  }
  void wait(Barrier &barrier, int size) {
    Thread &self = threads[current];
    if (++barrier.arrived == size) {
      barrier.arrived = 0;
      ++barrier.generation;
      ++events;
      return;
    }
    self.waitsFor = &barrier;
    self.generation = barrier.generation;
    swapcontext(&self.context, &scheduler);
  }

  inline static Lanes *active = nullptr;
  const std::function<void()> *body = nullptr;
  std::vector<Thread> threads{kThreads};
  ucontext_t scheduler;
  int current = 0, events = 0;
  Barrier warps[kWarps], block;
  Slot slots[2][kThreads];
};

struct SimulatedWarp {
  static constexpr int kSize = Lanes::kWarp;
  Lanes *lanes;

  int rank() const { return lanes->thread() % kSize; }
  template <typename V> V shuffle(V v, int lane) const {
    return lanes->exchange(v, lanes->thread() / kSize * kSize + lane);
  }
  template <typename V> V shuffleXor(V v, int mask) const {
    return shuffle(v, rank() ^ mask);
  }
  uint32_t ballot(bool flag) const {
    uint32_t flags = flag ? uint32_t(1) << rank() : 0;
    for (int mask = 1; mask < kSize; mask *= 2)
      flags |= shuffleXor(flags, mask);
    return flags;
  }
  void sync() const { lanes->waitForWarp(); }
};

struct SimulatedBlock {
  using Warp = SimulatedWarp;
  static constexpr int kWarps = Lanes::kWarps;
  Warp warp;
  unsigned index, count;

  int warpIndex() const { return warp.lanes->thread() / Warp::kSize; }
  void barrier() const { warp.lanes->waitForBlock(); }
  bool arrive(unsigned *counter) const { return ++*counter == count; }
};

} // namespace moert::test

#endif // MOE_TEST_UNIT_RUNTIME_LANES_H
