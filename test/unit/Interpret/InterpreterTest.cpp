//===- InterpreterTest.cpp - Rounding, ties, ranks, errors ----------------===//

#include "TestModule.h"
#include "gtest/gtest.h"

#include <cmath>

using namespace mlir;
using namespace mlir::moe;
using moe_test::TestModule;

namespace {

/// A module in phase spmd with one layer and nothing that applies it.
std::string layerText(const std::string &layer, int dp = 1, int ep = 1) {
  return "#v = #moe.dist<attention, dp = varying>\n"
         "#ev = #moe.dist<experts, ep = varying>\n"
         "module attributes {moe.phase = \"spmd\", moe.layout = #moe.layout<"
         "dp = " +
         std::to_string(dp) + ", ep = " + std::to_string(ep) +
         ", pp = 1, micro_batch = 1, global_batch = 4, seq = 4, capacity = "
         "0.0, layers = [1]>} {\n" +
         layer + "\n}";
}

/// Runs the only layer; the results, none if it fails.
std::vector<RankTensors> run(TestModule &test,
                             const std::vector<RankTensors> &arguments) {
  std::vector<RankTensors> results, saved;
  if (!test.module)
    return results;
  auto interpreter = Interpreter::create(*test.module);
  LayerOp layer = *test.module->getOps<LayerOp>().begin();
  if (failed(interpreter) ||
      failed((*interpreter)->runLayer(layer, 0, arguments, results, saved)))
    results.clear();
  return results;
}

TEST(Interpreter, RoundsToTheElementType) {
  TestModule test(layerText(R"(
moe.layer @l(%a: tensor<5xbf16>, %b: tensor<5xbf16>) -> tensor<5xbf16> {
  %y = moe.add %a, %b module(residual) : (tensor<5xbf16>, tensor<5xbf16>) -> tensor<5xbf16>
  moe.return %y : tensor<5xbf16>
})"));
  // 1 + 2^-8 lies between 1 and 1 + 2^-7: to even, 1; a little more: up. Then
  // the largest bf16 and half its spacing more; a denormal; a NaN.
  double top = std::ldexp(255, 120), tiny = std::ldexp(1, -133);
  RankTensors a{{{5}, {1, 1, top, tiny, NAN}}};
  RankTensors b{{{5},
                 {std::ldexp(1, -8), std::ldexp(1.01, -8), std::ldexp(1, 119),
                  tiny / 4, 1}}};
  std::vector<RankTensors> results = run(test, {a, b});
  ASSERT_EQ(results.size(), 1u) << test.errors;
  const std::vector<double> &y = results[0][0].values;
  EXPECT_EQ(y[0], 1);
  EXPECT_EQ(y[1], 1 + std::ldexp(1, -7));
  EXPECT_EQ(y[2], INFINITY);
  EXPECT_EQ(y[3], tiny);
  EXPECT_TRUE(std::isnan(y[4]));
}

TEST(Interpreter, EqualLogitsGoToTheLowestExperts) {
  TestModule test(layerText(R"(
moe.layer @l(%z: tensor<4x4xf32>) -> (tensor<4x2xf32>, tensor<4x2xi32>) {
  %p, %e = moe.route %z module(moe_router) : (tensor<4x4xf32>) -> (tensor<4x2xf32>, tensor<4x2xi32>)
  moe.return %p, %e : tensor<4x2xf32>, tensor<4x2xi32>
})"));
  RankTensors z{{{4, 4}, {0, 0, 0, 0, 1, 2, 2, 1, 3, 1, 2, 2, 0, 0, 0, 1}}};
  std::vector<RankTensors> results = run(test, {z});
  ASSERT_EQ(results.size(), 2u) << test.errors;
  EXPECT_EQ(results[1][0].values,
            (std::vector<double>{0, 1, 1, 2, 0, 2, 3, 0}));
  EXPECT_EQ(results[0][0].values[0], 0.25);
}

TEST(Interpreter, AnExpertWithoutTokensHasNoRows) {
  TestModule test(layerText(R"(
moe.layer @l(%e: tensor<2x2xi32>) -> (tensor<2x2xi32>, !moe.rows<4, mean = 4>) {
  %map, %counts = moe.permutation %e module(moe_preprocess) : (tensor<2x2xi32>) -> (tensor<2x2xi32>, !moe.rows<4, mean = 4>)
  moe.return %map, %counts : tensor<2x2xi32>, !moe.rows<4, mean = 4>
})"));
  std::vector<RankTensors> results = run(test, {{{{2, 2}, {3, 0, 0, 1}}}});
  ASSERT_EQ(results.size(), 2u) << test.errors;
  EXPECT_EQ(results[0][0].values, (std::vector<double>{3, 0, 1, 2}));
  EXPECT_EQ(results[1][0].values, (std::vector<double>{2, 1, 0, 1}));
}

const char *const exchange = R"(
moe.layer @l(%x: tensor<4x1xf32, #v>, %send: !moe.rows<4, mean = 4>) -> (tensor<5x1xf32, #ev>, !moe.rows<4, mean = 4>) {
  %receive = moe.exchange_counts %send over "ep" module(moe_preprocess) : (!moe.rows<4, mean = 4>) -> !moe.rows<4, mean = 4>
  %y = moe.all_to_all %x, %send, %receive over "ep" module(moe_dispatch) : (tensor<4x1xf32, #v>, !moe.rows<4, mean = 4>, !moe.rows<4, mean = 4>) -> tensor<5x1xf32, #ev>
  moe.return %y, %receive : tensor<5x1xf32, #ev>, !moe.rows<4, mean = 4>
})";

TEST(Interpreter, ExchangesRowsByCounts) {
  TestModule test(layerText(exchange, 2, 2));
  // Experts 0, 1 are rank 0's.
  std::vector<RankTensors> results =
      run(test, {{{{4, 1}, {1, 2, 3, 4}}, {{4, 1}, {5, 6, 7, 8}}},
                 {{{4}, {1, 0, 2, 1}}, {{4}, {1, 1, 0, 2}}}});
  ASSERT_EQ(results.size(), 2u) << test.errors;
  EXPECT_EQ(results[1][0].values, (std::vector<double>{1, 0, 1, 1}));
  EXPECT_EQ(results[1][1].values, (std::vector<double>{2, 1, 0, 2}));
  const std::vector<double> &y = results[0][0].values;
  EXPECT_EQ(std::vector<double>(y.begin(), y.begin() + 3),
            (std::vector<double>{1, 5, 6}));
  EXPECT_TRUE(std::isnan(y[3])) << "a row that is not in use";
  EXPECT_EQ(results[0][1].values, (std::vector<double>{2, 3, 4, 7, 8}));
}

TEST(Interpreter, NamesLayerAndRowsOfAnOverflow) {
  TestModule test(layerText(exchange, 2, 2));
  EXPECT_TRUE(run(test, {{{{4, 1}, {1, 2, 3, 4}}, {{4, 1}, {5, 6, 7, 8}}},
                         {{{4}, {4, 0, 0, 0}}, {{4}, {1, 1, 1, 1}}}})
                  .empty());
  EXPECT_NE(test.errors.find("capacity overflow: layer 0, rank 0 receives 6 "
                             "rows, but has room for 5"),
            std::string::npos)
      << test.errors;
}

TEST(Interpreter, RefusesWhatItDoesNotHold) {
  TestModule test(layerText("moe.layer @l() {\n  moe.return\n}"));
  ASSERT_TRUE(test.module) << test.errors;
  auto interpreter = Interpreter::create(*test.module);
  ASSERT_TRUE(succeeded(interpreter)) << test.errors;
  std::vector<int32_t> tokens((*interpreter)->tokenCount());
  EXPECT_EQ(tokens.size(), 20u);
  EXPECT_TRUE(failed((*interpreter)->step(tokens)));
  EXPECT_NE(test.errors.find("expected a module in phase training"),
            std::string::npos);
  EXPECT_TRUE(failed((*interpreter)->forward(tokens)));
  EXPECT_NE(test.errors.find("expected exactly one moe.model"),
            std::string::npos);
  tokens.pop_back();
  EXPECT_TRUE(failed((*interpreter)->forward(tokens)));
  EXPECT_NE(test.errors.find("a step takes 20 tokens, got 19"),
            std::string::npos);
  EXPECT_TRUE(failed((*interpreter)->setParameter("w", {1}, {1.0})));
  EXPECT_NE(test.errors.find("the program has no parameter 'w'"),
            std::string::npos);
  EXPECT_TRUE(failed((*interpreter)->initialize(1)));
  EXPECT_NE(test.errors.find("no initializer_range"), std::string::npos);
}

} // namespace
