//===- PipelineTest.cpp ---------------------------------------------------===//

#include "moe/Schedule/Pipeline.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <set>

using namespace moert;

namespace {

constexpr PipelineKind kKinds[] = {PipelineKind::Serial, PipelineKind::OneFOneB,
                                   PipelineKind::Paired};

/// Every pipeline of at most 8 stages and 16 micro-batches.
template <typename F> void forEachPipeline(F check) {
  for (PipelineKind kind : kKinds)
    for (int64_t stages = 1; stages <= 8; ++stages)
      for (int64_t microBatches = 1; microBatches <= 16; ++microBatches) {
        SCOPED_TRACE("kind " + std::to_string(static_cast<int>(kind)) +
                     ", stages " + std::to_string(stages) + ", micro-batches " +
                     std::to_string(microBatches));
        std::vector<std::vector<PipelineStep>> steps;
        for (int64_t stage = 0; stage < stages; ++stage)
          steps.push_back(pipelineSteps(kind, stages, stage, microBatches));
        check(kind, steps, microBatches);
        if (::testing::Test::HasFailure())
          return;
      }
}

bool computes(const PipelineStep &step) {
  return step.kind == StepKind::Forward || step.kind == StepKind::Backward ||
         step.kind == StepKind::Pair;
}

// Megatron-LM's non-interleaved 1F1B: PP - rank - 1.
TEST(Pipeline, WarmUps) {
  auto warmUps = [](PipelineKind kind, int64_t stages, int64_t microBatches) {
    std::vector<int64_t> result;
    for (int64_t stage = 0; stage < stages; ++stage)
      result.push_back(warmUp(kind, stages, stage, microBatches));
    return result;
  };
  using Counts = std::vector<int64_t>;
  PipelineKind plain = PipelineKind::OneFOneB, paired = PipelineKind::Paired;
  EXPECT_EQ(warmUps(plain, 2, 16), (Counts{1, 0}));
  EXPECT_EQ(warmUps(plain, 4, 16), (Counts{3, 2, 1, 0}));
  EXPECT_EQ(warmUps(plain, 8, 16), (Counts{7, 6, 5, 4, 3, 2, 1, 0}));
  // Fewer micro-batches than warm-up forwards: all are.
  EXPECT_EQ(warmUps(plain, 4, 2), (Counts{2, 2, 1, 0}));
  EXPECT_EQ(warmUps(paired, 1, 16), (Counts{1}));
  EXPECT_EQ(warmUps(paired, 4, 16), (Counts{7, 5, 3, 1}));
  EXPECT_EQ(warmUps(PipelineKind::Serial, 4, 16), (Counts{0, 0, 0, 0}));
}

TEST(Pipeline, EveryMicroBatchOnceEachWayInOrder) {
  forEachPipeline([](PipelineKind kind, const auto &stages, int64_t count) {
    for (size_t stage = 0; stage < stages.size(); ++stage) {
      int64_t forwards = 0, backwards = 0, most = 0;
      for (const PipelineStep &step : stages[stage]) {
        if (!computes(step))
          continue;
        if (step.kind != StepKind::Backward) {
          ASSERT_EQ(step.forward, forwards);
          ++forwards;
        }
        most = std::max(most, forwards - backwards);
        if (step.kind != StepKind::Forward) {
          ASSERT_EQ(step.backward, backwards);
          ++backwards;
          // A pair's halves are of different micro-batches.
          ASSERT_LE(backwards,
                    forwards - (step.kind == StepKind::Pair ? 1 : 0));
        }
      }
      EXPECT_EQ(forwards, count);
      EXPECT_EQ(backwards, count);
      // The bound holds, and no slot is there for nothing.
      EXPECT_EQ(most, inFlight(kind, stages.size(), stage, count));
    }
  });
}

// Each value is received before it is used and sent after it is made.
TEST(Pipeline, TransfersSurroundSteps) {
  forEachPipeline([](PipelineKind, const auto &stages, int64_t count) {
    for (size_t stage = 0; stage < stages.size(); ++stage) {
      bool first = stage == 0, last = stage + 1 == stages.size();
      std::set<std::pair<StepKind, int64_t>> seen;
      for (const PipelineStep &step : stages[stage]) {
        auto has = [&](StepKind kind, int64_t mb) {
          return seen.count({kind, mb}) > 0;
        };
        if (computes(step)) {
          if (step.forward >= 0) {
            EXPECT_TRUE(first || has(StepKind::RecvForward, step.forward));
            seen.insert({StepKind::Forward, step.forward});
          }
          if (step.backward >= 0) {
            EXPECT_TRUE(last || has(StepKind::RecvBackward, step.backward));
            EXPECT_TRUE(has(StepKind::Forward, step.backward));
            seen.insert({StepKind::Backward, step.backward});
          }
          continue;
        }
        int64_t mb = std::max(step.forward, step.backward);
        if (step.kind == StepKind::SendForward)
          EXPECT_TRUE(has(StepKind::Forward, mb));
        if (step.kind == StepKind::SendBackward)
          EXPECT_TRUE(has(StepKind::Backward, mb));
        EXPECT_TRUE(seen.insert({step.kind, mb}).second) << "twice";
      }
      EXPECT_EQ(seen.size(),
                static_cast<size_t>(2 * count * (1 + !first + !last)));
    }
  });
}

// What a stage does with its successor is what that does with it, in one
// order.
TEST(Pipeline, SendsMeetReceivesInOneOrder) {
  forEachPipeline([](PipelineKind, const auto &stages, int64_t) {
    for (size_t s = 0; s + 1 < stages.size(); ++s) {
      std::vector<std::pair<bool, int64_t>> down, up;
      for (const PipelineStep &step : stages[s]) {
        if (step.kind == StepKind::SendForward)
          down.emplace_back(true, step.forward);
        if (step.kind == StepKind::RecvBackward)
          down.emplace_back(false, step.backward);
      }
      for (const PipelineStep &step : stages[s + 1]) {
        if (step.kind == StepKind::RecvForward)
          up.emplace_back(true, step.forward);
        if (step.kind == StepKind::SendBackward)
          up.emplace_back(false, step.backward);
      }
      EXPECT_EQ(down, up) << "stages " << s << " and " << s + 1;
    }
  });
}

/// Runs all stages, each one step after another, a transfer only when both
/// sides are at it. Returns how many steps are left when nothing moves.
size_t runRendezvous(const std::vector<std::vector<PipelineStep>> &stages) {
  std::vector<size_t> at(stages.size());
  auto next = [&](size_t s) -> const PipelineStep * {
    return s < stages.size() && at[s] < stages[s].size() ? &stages[s][at[s]]
                                                         : nullptr;
  };
  auto isAt = [&](size_t s, StepKind kind, int64_t mb) {
    const PipelineStep *step = next(s);
    return step && step->kind == kind &&
           std::max(step->forward, step->backward) == mb;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t s = 0; s < stages.size(); ++s)
      while (const PipelineStep *step = next(s)) {
        if (computes(*step)) {
          ++at[s];
        } else if (step->kind == StepKind::SendForward &&
                   isAt(s + 1, StepKind::RecvForward, step->forward)) {
          ++at[s];
          ++at[s + 1];
        } else if (step->kind == StepKind::RecvBackward &&
                   isAt(s + 1, StepKind::SendBackward, step->backward)) {
          ++at[s];
          ++at[s + 1];
        } else {
          break;
        }
        moved = true;
      }
  }
  size_t left = 0;
  for (size_t s = 0; s < stages.size(); ++s)
    left += stages[s].size() - at[s];
  return left;
}

// No buffer holds what is sent: a schedule ends on one stream even so.
TEST(Pipeline, RendezvousNeverBlocks) {
  forEachPipeline([](PipelineKind, const auto &stages, int64_t) {
    EXPECT_EQ(runRendezvous(stages), 0u);
  });
}

// The simulation does find a pipeline that blocks.
TEST(Pipeline, RendezvousFindsABlock) {
  std::vector<PipelineStep> sends = {{StepKind::SendForward, 0, -1},
                                     {StepKind::RecvBackward, -1, 0}};
  std::vector<PipelineStep> crossed = {{StepKind::SendBackward, -1, 0},
                                       {StepKind::RecvForward, 0, -1}};
  EXPECT_EQ(runRendezvous({sends, crossed}), 4u);
}

} // namespace
