//===- Memory.cpp - Proof 3: the arena fits -------------------------------===//

#include "Flat.h"

#include <algorithm>

using namespace moert;
using namespace moert::verifier;

/// Largest sum, over issue order, of bytes that are live: from a write to the
/// last access before the next one. What holds a value before the step always
/// is.
static int64_t findLivePeak(const FlatProgram &program) {
  constexpr int32_t kAlways = -2, kDead = -1;
  struct Life {
    int32_t start = kDead, last = kDead;
  };
  std::vector<Life> lives(program.segments());
  std::vector<int64_t> change(program.size() + 1);
  int64_t live = 0;
  for (const NamedRange &named : program.initial) {
    Run run = program.runOf(named.range);
    for (int32_t s = run.begin; s < run.end; ++s)
      if (lives[s].start != kAlways) {
        lives[s].start = kAlways;
        live += program.segmentBytes(s);
      }
  }
  auto end = [&](int32_t s) {
    if (lives[s].start < 0)
      return;
    change[lives[s].start] += program.segmentBytes(s);
    change[lives[s].last + 1] -= program.segmentBytes(s);
  };
  program.forEachOp([&](int32_t index, int32_t call, const Op &,
                        const FlatOperand *first, const FlatOperand *last) {
    for (const FlatOperand *o = first; o != last; ++o) {
      Run run = program.run(call, *o);
      for (int32_t s = run.begin; s < run.end; ++s) {
        Life &life = lives[s];
        if (life.start == kAlways)
          continue;
        if (life.start == kDead || (!o->reads() && life.last != index)) {
          end(s);
          life.start = index;
        }
        life.last = index;
      }
    }
  });
  for (int32_t s = 0; s < program.segments(); ++s)
    end(s);
  int64_t peak = live;
  for (int64_t by : change)
    peak = std::max(peak, live += by);
  return peak;
}

void verifier::proveMemory(const FlatProgram &program, Faults &faults,
                           int64_t &highWater, int64_t &livePeak) {
  highWater = program.highWater;
  livePeak = findLivePeak(program);
  int64_t limit = program.view.table().memoryLimit;
  int64_t arena = program.view.program().arenaBytes;
  if (limit > 0 && arena > limit)
    faults.add(Proof::Memory, 0, {&program, -1}, {}, [&] {
      return "the arena has " + std::to_string(arena) +
             " bytes, the limit is " + std::to_string(limit) + " (high water " +
             std::to_string(highWater) + ", largest sum of live buffers " +
             std::to_string(livePeak) + "; " + program.describeRanks() + ")";
    });
}
