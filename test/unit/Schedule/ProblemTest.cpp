//===- ProblemTest.cpp ----------------------------------------------------===//

#include "moe/Schedule/Problem.h"

#include "gtest/gtest.h"

using namespace moert;

namespace {

/// Two streams; b waits for a, c for nothing; the host costs 1 an op.
const char *kText = "streams 2\n"
                    "op a 0 10 1\n"
                    "op b 1 5 1\n"
                    "op c 0 3 1 blocking\n"
                    "edge a b\n"
                    "issue b c\n"
                    "carried b a\n";

PairProblem parsed(const std::string &text) {
  PairProblem problem;
  std::string error;
  EXPECT_TRUE(PairProblem::parse(text, problem, error)) << error;
  return problem;
}

TEST(PairProblem, TextRoundTrips) {
  PairProblem problem = parsed(kText);
  EXPECT_EQ(problem.print(), kText);
  EXPECT_EQ(problem.ops.size(), 3u);
  EXPECT_TRUE(problem.ops[2].blocking);
  problem.ops[0].seconds = 1.0 / 3;
  EXPECT_EQ(parsed(problem.print()).ops[0].seconds, 1.0 / 3);
}

TEST(PairProblem, CommentsAndBlankLines) {
  EXPECT_EQ(parsed("# pair\n\nstreams 1 # one\n op a 0 1 0\n").ops.size(), 1u);
}

struct BadText {
  const char *text, *error;
};

TEST(PairProblem, BadTextNamesLineAndReason) {
  const BadText cases[] = {
      {"streams 0", "line 1: expected 'streams N', 1 <= N <= 64"},
      {"streams 1.5", "line 1: expected 'streams N', 1 <= N <= 64"},
      {"op a 0 1 0", "line 1: no stream '0'"},
      {"streams 1\nop a 1 1 0", "line 2: no stream '1'"},
      {"streams 1\nop a nan 1 0", "line 2: no stream 'nan'"},
      {"streams 1\nop a 0 x 0",
       "line 2: expected 'op NAME STREAM SECONDS HOST [blocking]'"},
      {"streams 1\nop a 0 1 0 block",
       "line 2: expected 'op NAME STREAM SECONDS HOST [blocking]'"},
      {"streams 1\nop a 0 1 0\nop a 0 1 0", "line 3: op 'a' is there already"},
      {"streams 1\nop a 0 1 0\nedge a b", "line 3: no op 'b' above this line"},
      {"streams 1\nop a 0 1 0\nedge a", "line 3: expected 'edge NAME NAME'"},
      {"stream 1",
       "line 1: unknown statement 'stream', expected streams, op, edge, issue "
       "or carried"},
      {"streams 1\nop a 0 -1 0",
       "op 'a' has a time that is negative or not finite"},
      {"streams 1\nop a 0 inf 0",
       "op 'a' has a time that is negative or not finite"},
      {"streams 1\nop a 0 1 0\nop b 0 1 0\nedge a b\nissue b a",
       "the edges have a cycle, through or before op 'a'"},
  };
  for (const BadText &bad : cases) {
    PairProblem problem;
    std::string error;
    EXPECT_FALSE(PairProblem::parse(bad.text, problem, error)) << bad.text;
    EXPECT_EQ(error, bad.error);
    EXPECT_TRUE(problem.ops.empty());
  }
}

TEST(PairProblem, EdgesOutOfRange) {
  PairProblem problem;
  problem.streams = 1;
  problem.ops.push_back({"a", 0, 1, 0, false});
  problem.carried.push_back({0, 3});
  EXPECT_EQ(problem.check(), "an edge names op 3 of 1");
}

TEST(Evaluate, HostStreamsAndEdges) {
  Schedule schedule = evaluate(parsed(kText), {0, 1, 2});
  EXPECT_EQ(schedule.starts, (std::vector<double>{1, 11, 11}));
  EXPECT_EQ(schedule.makespan, 16);
  EXPECT_EQ(schedule.period, 16);
  EXPECT_EQ(schedule.verify(parsed(kText)), "");
}

TEST(Evaluate, RepetitionsWaitForCarriedEdgesAndBlockedHosts) {
  PairProblem problem = parsed(kText);
  Schedule schedule = evaluate(problem, {0, 1, 2}, 3);
  // c ends at 14; a is issued at 15 but waits for b, done at 16.
  EXPECT_EQ(schedule.starts[3], 16);
  EXPECT_EQ(schedule.period, 15);
  EXPECT_EQ(schedule.makespan, 46);
  EXPECT_EQ(schedule.verify(problem), "");
  problem.carried.clear();
  EXPECT_EQ(evaluate(problem, {0, 1, 2}, 3).starts[3], 15);
  problem.ops[2].blocking = false;
  EXPECT_EQ(evaluate(problem, {0, 1, 2}, 3).starts[3], 14);
}

TEST(Verify, RejectsWhatIsWrong) {
  PairProblem problem = parsed(kText);
  const Schedule good = evaluate(problem, {0, 1, 2}, 2);
  Schedule bad = good;
  bad.order = {0, 1};
  EXPECT_EQ(bad.verify(problem), "the order has 2 ops of 3");
  bad.order = {0, 1, 1};
  EXPECT_EQ(bad.verify(problem),
            "position 2 of the order repeats an op or names none");
  bad.order = {1, 0, 2};
  EXPECT_EQ(bad.verify(problem), "'b' is issued before 'a'");
  bad.order = {0, 2, 1};
  EXPECT_EQ(bad.verify(problem), "'c' is issued before 'b'");
  auto shifted = [&](size_t i, double by) {
    Schedule schedule = good;
    schedule.starts[i] += by;
    return schedule.verify(problem);
  };
  EXPECT_EQ(shifted(0, -0.5), "'a' starts before it is issued");
  EXPECT_EQ(shifted(1, -0.5), "'b' starts before the end of 'a'");
  EXPECT_EQ(shifted(2, -0.5), "'c' starts before its stream is free");
  EXPECT_EQ(shifted(3, -0.5),
            "'a' starts before the end of 'b' of the repetition before");
  EXPECT_EQ(shifted(4, 1), "the makespan is not the end of the last op");
  bad = good;
  bad.starts.pop_back();
  EXPECT_EQ(bad.verify(problem), "wrong number of start times");
}

} // namespace
