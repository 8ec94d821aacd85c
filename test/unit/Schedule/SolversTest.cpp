//===- SolversTest.cpp ----------------------------------------------------===//

#include "moe/Schedule/Solvers.h"
#include "moe/Schedule/Bounds.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <random>

using namespace moert;

namespace {

PairProblem randomProblem(std::mt19937 &random, size_t ops, uint32_t streams) {
  auto chance = [&](int percent) {
    return static_cast<int>(random() % 100) < percent;
  };
  PairProblem problem;
  problem.streams = streams;
  for (size_t i = 0; i < ops; ++i)
    problem.ops.push_back({"op" + std::to_string(i),
                           static_cast<uint32_t>(random() % streams),
                           static_cast<double>(random() % 10),
                           static_cast<double>(random() % 3), chance(10)});
  for (uint32_t i = 0; i < ops; ++i)
    for (uint32_t j = i + 1; j < ops; ++j)
      if (chance(20))
        problem.edges.push_back({i, j});
      else if (chance(5))
        problem.issueEdges.push_back({i, j});
  for (int i = 0; i < 2; ++i)
    problem.carried.push_back({static_cast<uint32_t>(random() % ops),
                               static_cast<uint32_t>(random() % ops)});
  return problem;
}

bool respects(const PairProblem &problem, const std::vector<uint32_t> &order) {
  std::vector<size_t> position(order.size());
  for (size_t i = 0; i < order.size(); ++i)
    position[order[i]] = i;
  for (const auto *list : {&problem.edges, &problem.issueEdges})
    for (const PairProblem::Edge &edge : *list)
      if (position[edge.from] > position[edge.to])
        return false;
  return true;
}

/// The least makespan over all permutations.
double enumerate(const PairProblem &problem, uint32_t repeats) {
  std::vector<uint32_t> order(problem.ops.size());
  std::iota(order.begin(), order.end(), 0);
  double best = 1e300;
  Evaluator evaluator(problem, repeats);
  do {
    if (respects(problem, order))
      best = std::min(best, evaluator.makespan(order));
  } while (std::next_permutation(order.begin(), order.end()));
  return best;
}

/// An order that respects the edges, at random.
std::vector<uint32_t> randomOrder(const PairProblem &problem,
                                  std::mt19937 &random) {
  std::vector<uint32_t> order(problem.ops.size());
  std::iota(order.begin(), order.end(), 0);
  // Edges of randomProblem go from lower to higher numbers.
  for (int i = 0; i < 200; ++i) {
    size_t at = random() % (order.size() - 1);
    std::swap(order[at], order[at + 1]);
    if (!respects(problem, order))
      std::swap(order[at], order[at + 1]);
  }
  return order;
}

struct Size {
  size_t ops;
  uint32_t streams, repeats;
};

class Random : public testing::TestWithParam<Size> {};

TEST_P(Random, BoundOptimumSchedule) {
  auto [ops, streams, repeats] = GetParam();
  std::mt19937 random(7);
  int tight = 0, listLoses = 0;
  for (int i = 0; i < 60; ++i) {
    PairProblem problem = randomProblem(random, ops, streams);
    ASSERT_EQ(problem.check(), "");
    double optimum = enumerate(problem, repeats);
    Schedule exact;
    ASSERT_TRUE(solveExactly(problem, repeats, 1 << 20, exact));
    EXPECT_DOUBLE_EQ(exact.makespan, optimum) << problem.print();
    EXPECT_EQ(exact.verify(problem), "");

    PairBounds bounds = lowerBounds(problem, repeats);
    EXPECT_LE(bounds.best(), optimum * (1 + 1e-12)) << problem.print();
    EXPECT_LE(bounds.stream, bounds.oneMachine * (1 + 1e-12));
    EXPECT_LE(bounds.path, bounds.oneMachine * (1 + 1e-12));
    tight += bounds.best() > optimum * (1 - 1e-12);

    Schedule list = listSchedule(problem, repeats);
    EXPECT_EQ(list.verify(problem), "");
    EXPECT_GE(list.makespan, optimum);
    listLoses += list.makespan > optimum;
    std::string error;
    Schedule found = search(problem, {}, {repeats, 2000, 1}, error);
    EXPECT_EQ(error, "");
    EXPECT_EQ(found.verify(problem), "");
    EXPECT_GE(found.makespan, optimum);
    EXPECT_LE(found.makespan, list.makespan);
    EXPECT_LE(found.makespan, optimum * 1.02) << problem.print();
  }
  // The bound is of use, and the instances aren't trivial.
  EXPECT_GE(tight, 20);
  EXPECT_GE(listLoses, 1);
}

INSTANTIATE_TEST_SUITE_P(Sizes, Random,
                         testing::Values(Size{7, 2, 1}, Size{7, 3, 1},
                                         Size{7, 1, 1}, Size{6, 2, 3},
                                         Size{7, 2, 2}));

TEST(Search, IncumbentsNeverGetWorse) {
  std::mt19937 random(3);
  for (int i = 0; i < 100; ++i) {
    PairProblem problem = randomProblem(random, 20, 3);
    std::vector<std::vector<uint32_t>> incumbents;
    for (int j = 0; j < 3; ++j)
      incumbents.push_back(randomOrder(problem, random));
    // Even without evaluations.
    for (uint32_t evaluations : {0u, 1u, 300u}) {
      std::string error;
      Schedule found = search(problem, incumbents, {2, evaluations, 1}, error);
      ASSERT_EQ(error, "");
      EXPECT_EQ(found.verify(problem), "");
      for (const auto &incumbent : incumbents)
        EXPECT_LE(found.makespan, evaluate(problem, incumbent, 2).makespan);
    }
  }
}

TEST(Search, IsDeterministic) {
  std::mt19937 random(5);
  PairProblem problem = randomProblem(random, 30, 3);
  std::string error;
  SearchOptions options{2, 1000, 1};
  EXPECT_EQ(search(problem, {}, options, error).order,
            search(problem, {}, options, error).order);
}

TEST(Search, RejectsIncumbentsThatBreakEdges) {
  PairProblem problem;
  std::string error;
  ASSERT_TRUE(PairProblem::parse(
      "streams 1\nop a 0 1 0\nop b 0 1 0\nedge a b\n", problem, error));
  EXPECT_TRUE(search(problem, {{0, 1}, {1, 0}}, {}, error).order.empty());
  EXPECT_EQ(error, "incumbent 1: 'b' is issued before 'a'");
  EXPECT_TRUE(search(problem, {{0, 9}}, {}, error).order.empty());
  EXPECT_EQ(error, "incumbent 0: position 1 of the order repeats an op or "
                   "names none");
}

TEST(SolveExactly, StopsAtItsNodes) {
  std::mt19937 random(11);
  PairProblem problem = randomProblem(random, 12, 2);
  Schedule result;
  EXPECT_FALSE(solveExactly(problem, 3, 5, result));
}

/// Megatron's pair: attention, dispatch, experts, combine, forward and
/// backward, weight gradients apart; communication takes `ratio` of compute.
PairProblem layerPair(double ratio) {
  PairProblem problem;
  std::string error;
  double c = 5.8 * ratio / 4;
  std::string n = " " + std::to_string(c) + " 0\n";
  std::string text = "streams 2\n"
                     "op Af 0 1.0 0\nop Df 1" +
                     n + "op Mf 0 1.2 0\nop Cf 1" + n + "op Cb 1" + n +
                     "op Mb 0 1.2 0\nop Mw 0 1.2 0\n" + "op Db 1" + n +
                     "op Ab 0 1.4 0\nop Aw 0 0.7 0\n" +
                     "edge Af Df\nedge Df Mf\nedge Mf Cf\n"
                     "edge Cb Mb\nedge Mb Db\nedge Mb Mw\nedge Db Ab\n"
                     "edge Ab Aw\n"
                     "carried Cf Af\ncarried Ab Cb\n";
  EXPECT_TRUE(PairProblem::parse(text, problem, error)) << error;
  return problem;
}

// The figures of the reference: a layer pair at 0.3, 0.6 of communication to
// compute is hidden whole, in Megatron's order already.
TEST(Search, LayerPairReachesTheBound) {
  // Cb, Af | Df, Mb | Db, Mw, Mf | Cf, Ab, Aw.
  std::vector<uint32_t> megatron = {4, 0, 1, 5, 7, 6, 2, 3, 8, 9};
  for (double ratio : {0.3, 0.6, 1.0, 1.4}) {
    PairProblem problem = layerPair(ratio);
    std::string error;
    Schedule first = evaluate(problem, megatron, 8);
    Schedule found = search(problem, {megatron}, {8, 6000, 1}, error);
    ASSERT_EQ(error, "");
    EXPECT_EQ(found.verify(problem), "");
    EXPECT_LE(found.makespan, first.makespan);
    double bound = lowerBounds(problem, 8).best();
    EXPECT_LE(bound, found.makespan * (1 + 1e-12));
    EXPECT_LE(found.makespan, bound * (ratio < 0.7 ? 1.03 : 1.12));
  }
}

TEST(Search, HundredOpsInTime) {
  std::mt19937 random(1);
  PairProblem problem = randomProblem(random, 100, 3);
  std::string error;
  auto start = std::chrono::steady_clock::now();
  Schedule found = search(problem, {}, {3, 6000, 1}, error);
  std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(found.verify(problem), "");
  RecordProperty("milliseconds", std::to_string(took.count() * 1e3));
  // An order of magnitude above what it takes: only a blow-up fails.
  EXPECT_LT(took.count(), 1.0);
}

} // namespace
