//===- StepBoundTest.cpp --------------------------------------------------===//

#include "Tables.h"

#include <algorithm>
#include <random>

using namespace moert;

namespace {

// What the order, the streams and the waits are doesn't change the bound.
TEST(StepBound, ReadsNoSchedule) {
  TableBuilder b;
  Template &t = b.program("p", 3);
  b.launch(t, 2);
  b.collective(t, 5, {0});
  b.launch(t, 3, {1});
  System system = plainSystem();
  system.communicationSms = 30;
  double bound = stepLowerBound(b.table, system).best();
  std::reverse(t.ops.begin(), t.ops.end());
  for (Op &op : t.ops) {
    op.waits.clear();
    op.stream = 0;
  }
  EXPECT_DOUBLE_EQ(stepLowerBound(b.table, system).best(), bound);
}

TEST(StepBound, PartsAreWhatTheHeaderSays) {
  TableBuilder b;
  Template &t = b.program("p", 10);
  b.launch(t, 2);
  b.collective(t, 3);
  b.launch(t, 4);
  System system = plainSystem();
  EXPECT_DOUBLE_EQ(stepLowerBound(b.table, system).device, 60);
  system.hostLaunch = 4;
  EXPECT_DOUBLE_EQ(stepLowerBound(b.table, system).host, 80);
  EXPECT_DOUBLE_EQ(stepLowerBound(b.table, system).pipeline, 0);
  t.ops[1].bytes = 7;
  EXPECT_DOUBLE_EQ(stepLowerBound(b.table, system).device, 70);
  // s = 0.3, c = 0.1, C = 60, M = 70: x is the least of 70/0.9, 60/0.7.
  system.communicationSms = 30;
  system.communicationSlowdown = 0.1;
  double x = 70 / 0.9;
  EXPECT_DOUBLE_EQ(stepLowerBound(b.table, system).device, 130 - 0.6 * x);
}

/// A pipeline of stages that run forward and backward of each micro-batch in
/// order of 1F1B, weight gradients at the end of each backward.
Table pipeline(std::mt19937 &random, int64_t stages, int64_t microBatches) {
  TableBuilder b;
  b.table.communicators[1].size = stages;
  b.table.templates.reserve(static_cast<size_t>(2 * stages));
  for (int64_t s = 0; s < stages; ++s) {
    Program program;
    program.name = "stage" + std::to_string(s);
    program.firstRank = 8 * s;
    program.rankCount = 8;
    auto seconds = [&] { return 1.0 + random() % 5; };
    Template forward, backward;
    std::vector<uint32_t> received;
    if (s) {
      b.sendOrRecv(forward, OpKind::Recv, -1, 0.05);
      received = {0};
    }
    b.launch(forward, seconds(), received);
    uint32_t first = static_cast<uint32_t>(forward.ops.size() - 1);
    b.collective(forward, seconds(), {first});
    b.launch(forward, seconds(), {first + 1});
    if (s + 1 < stages)
      b.sendOrRecv(forward, OpKind::Send, 1, 0.05, {first + 2}, 2);
    received.clear();
    if (s + 1 < stages) {
      b.sendOrRecv(backward, OpKind::Recv, 1, 0.05);
      received = {0};
    }
    b.launch(backward, seconds(), received);
    first = static_cast<uint32_t>(backward.ops.size() - 1);
    b.collective(backward, seconds(), {first});
    b.launch(backward, seconds(), {first + 1});
    if (s)
      b.sendOrRecv(backward, OpKind::Send, -1, 0.05, {first + 2}, 2);
    Op weights;
    weights.kernel = b.kernel(seconds(), "linear_wgrad");
    b.append(backward, weights, 0, {first});
    for (Op &op : forward.ops)
      op.half = "F";
    for (Op &op : backward.ops)
      op.half = "B";
    uint32_t tmpl = static_cast<uint32_t>(b.table.templates.size());
    b.table.templates.push_back(forward);
    b.table.templates.push_back(backward);
    auto call = [&](bool isForward, int64_t microBatch) {
      Call c;
      c.tmpl = isForward ? tmpl : tmpl + 1;
      (isForward ? c.microBatch : c.backwardMicroBatch) = microBatch;
      program.calls.push_back(c);
    };
    int64_t warmUp = std::min(stages - s, microBatches);
    for (int64_t m = 0; m < warmUp; ++m)
      call(true, m);
    for (int64_t m = 0; m < microBatches; ++m) {
      call(false, m);
      if (m + warmUp < microBatches)
        call(true, m + warmUp);
    }
    b.table.programs.push_back(program);
  }
  b.table.ranks = 8 * stages;
  return b.table;
}

TEST(StepBound, HoldsForPipelines) {
  std::mt19937 random(2);
  for (int i = 0; i < 60; ++i) {
    int64_t stages = 2 + i % 4, microBatches = 1 + i % 9;
    Table table = pipeline(random, stages, microBatches);
    System system = plainSystem();
    system.communicationSms = i % 3 * 10;
    system.communicationSlowdown = i % 2 * 0.1;
    Simulation s = simulated(table, system); // Checks bound <= makespan.
    StepBound bound = stepLowerBound(table, system);
    EXPECT_GT(bound.pipeline, 0);
    // One micro-batch has little choice: the bound is near.
    if (microBatches == 1) {
      EXPECT_GT(bound.pipeline, 0.4 * s.makespan);
      EXPECT_GT(bound.pipeline, bound.device);
    }
  }
}

TEST(StepBound, NoPipelineWithoutSends) {
  std::mt19937 random(2);
  Table table = pipeline(random, 3, 2);
  for (Template &t : table.templates)
    for (Op &op : t.ops)
      if (op.kind == OpKind::Send)
        op.half = "B";
  EXPECT_EQ(stepLowerBound(table, plainSystem()).pipeline, 0);
}

// Programs of random ops, orders and waits.
TEST(StepBound, HoldsForRandomPrograms) {
  std::mt19937 random(9);
  double closest = 0;
  for (int i = 0; i < 300; ++i) {
    TableBuilder b;
    Template &t = b.program("p", 1 + random() % 4);
    uint32_t ops = 1 + random() % 20;
    for (uint32_t op = 0; op < ops; ++op) {
      std::vector<uint32_t> waits;
      for (uint32_t before = 0; before < op; ++before)
        if (random() % 8 == 0)
          waits.push_back(before);
      uint32_t stream = random() % 3;
      double seconds = random() % 5;
      if (random() % 2)
        b.launch(t, seconds, waits, stream);
      else
        b.collective(t, seconds, waits, stream, random() % 2);
    }
    b.table.communicators[1] = {"other", 4, 1, 25};
    System system = plainSystem();
    system.communicationSms = 20;
    system.communicationSlowdown = 0.1;
    system.hostLaunch = random() % 2;
    double makespan = simulated(b.table, system).makespan;
    if (makespan > 0)
      closest =
          std::max(closest, stepLowerBound(b.table, system).best() / makespan);
  }
  // It is reached.
  EXPECT_GT(closest, 1 - 1e-9);
}

} // namespace
