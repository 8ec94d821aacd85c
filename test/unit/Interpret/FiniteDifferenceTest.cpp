//===- FiniteDifferenceTest.cpp - Every backward against differences ------===//
//
// A model of three layers in f64: embedding, the layer under test, a linear
// with the loss. Every element of every parameter's gradient, as the
// differentiated program computes it, is compared with a central difference
// of the loss. The embedding's gradient is that of the layer's argument.
//
//===----------------------------------------------------------------------===//

#include "TestModule.h"
#include "mlir/Pass/PassManager.h"
#include "moe/Transforms/Spmd/Passes.h"
#include "moe/Transforms/Training/Passes.h"
#include "test/unit/Tolerances.h"
#include "gtest/gtest.h"

#include <cmath>

using namespace mlir;
using namespace mlir::moe;

namespace {

struct Case {
  const char *name;
  /// From %x, tensor<8x8xf64> (two sequences of four), to %y of that type.
  const char *body;
};

std::ostream &operator<<(std::ostream &os, const Case &c) {
  return os << c.name;
}

/// Routing of eight tokens to two of four experts, with its permutation.
#define ROUTE(normalize)                                                       \
  R"(
  %wg = moe.param ["router"] dims [experts, hidden] init normal : tensor<4x8xf64>
  %logits = moe.linear %x, %wg module(moe_router) : (tensor<8x8xf64>, tensor<4x8xf64>) -> tensor<8x4xf64>
  %probs, %experts = moe.route %logits module(moe_router) )" normalize         \
  R"( : (tensor<8x4xf64>) -> (tensor<8x2xf64>, tensor<8x2xi32>)
  %map, %counts = moe.permutation %experts module(moe_preprocess) : (tensor<8x2xi32>) -> (tensor<8x2xi32>, !moe.rows<4, mean = 16>)
  %px = moe.permute %x, %map module(moe_dispatch) : (tensor<8x8xf64>, tensor<8x2xi32>) -> tensor<16x8xf64>
  %pp = moe.permute_probs %probs, %map module(moe_dispatch) : (tensor<8x2xf64>, tensor<8x2xi32>) -> tensor<16xf64>
)"

/// Experts from %px and the probabilities %pp to %y.
#define EXPERTS                                                                \
  R"(
  %w1 = moe.param ["gate.{e}", "up.{e}"] dims [experts, gate_up_width, hidden] init normal : tensor<4x8x8xf64>
  %y1 = moe.grouped_linear %px, %w1, %counts module(moe_experts) : (tensor<16x8xf64>, tensor<4x8x8xf64>, !moe.rows<4, mean = 16>) -> tensor<16x8xf64>
  %act = moe.swiglu %y1, %pp, %counts module(moe_act) : (tensor<16x8xf64>, tensor<16xf64>, !moe.rows<4, mean = 16>) -> tensor<16x4xf64>
  %w2 = moe.param ["down.{e}"] dims [experts, hidden, expert_width] init normal : tensor<4x8x4xf64>
  %y2 = moe.grouped_linear %act, %w2, %counts module(moe_experts) : (tensor<16x4xf64>, tensor<4x8x4xf64>, !moe.rows<4, mean = 16>) -> tensor<16x8xf64>
  %y = moe.unpermute %y2, %map module(moe_combine) : (tensor<16x8xf64>, tensor<8x2xi32>) -> tensor<8x8xf64>
)"

const Case cases[] = {
    {"linear", R"(
  %w = moe.param ["w"] dims [hidden, hidden] init normal : tensor<8x8xf64>
  %y = moe.linear %x, %w module(attn) : (tensor<8x8xf64>, tensor<8x8xf64>) -> tensor<8x8xf64>
)"},
    {"rms_norm", R"(
  %w = moe.param ["w"] dims [hidden] init ones : tensor<8xf64>
  %y = moe.rms_norm %x, %w module(norm) {eps = 1.0e-2 : f64} : (tensor<8x8xf64>, tensor<8xf64>) -> tensor<8x8xf64>
)"},
    {"rms_norm_of_heads", R"(
  %w = moe.param ["w"] dims [head_dim] init ones : tensor<4xf64>
  %y = moe.rms_norm %x, %w module(attn) {eps = 1.0e-2 : f64} : (tensor<8x8xf64>, tensor<4xf64>) -> tensor<8x8xf64>
)"},
    {"rope", R"(
  %y = moe.rope %x module(attn) {base = 1.0e+1 : f64, head_dim = 4 : i64, sequence = 4 : i64} : (tensor<8x8xf64>) -> tensor<8x8xf64>
)"},
    {"inverse_rope", R"(
  %y = moe.rope %x module(attn) {inverse, base = 1.0e+1 : f64, head_dim = 4 : i64, sequence = 4 : i64} : (tensor<8x8xf64>) -> tensor<8x8xf64>
)"},
    {"attention", R"(
  %wq = moe.param ["q"] dims [heads, hidden] init normal : tensor<8x8xf64>
  %wk = moe.param ["k"] dims [kv_heads, hidden] init normal : tensor<4x8xf64>
  %wv = moe.param ["v"] dims [kv_heads, hidden] init normal : tensor<4x8xf64>
  %q = moe.linear %x, %wq module(attn) : (tensor<8x8xf64>, tensor<8x8xf64>) -> tensor<8x8xf64>
  %k = moe.linear %x, %wk module(attn) : (tensor<8x8xf64>, tensor<4x8xf64>) -> tensor<8x4xf64>
  %v = moe.linear %x, %wv module(attn) : (tensor<8x8xf64>, tensor<4x8xf64>) -> tensor<8x4xf64>
  %y, %lse = moe.attention %q, %k, %v module(core_attn) {heads = 4 : i64, kv_heads = 2 : i64, head_dim = 2 : i64, sequence = 4 : i64, scale = 0.5 : f64} : (tensor<8x8xf64>, tensor<8x4xf64>, tensor<8x4xf64>) -> (tensor<8x8xf64>, tensor<8x4xf64>)
)"},
    {"add_and_a_parameter_used_twice", R"(
  %w = moe.param ["w"] dims [hidden, hidden] init normal : tensor<8x8xf64>
  %a = moe.linear %x, %w module(attn) : (tensor<8x8xf64>, tensor<8x8xf64>) -> tensor<8x8xf64>
  %b = moe.linear %a, %w module(attn) : (tensor<8x8xf64>, tensor<8x8xf64>) -> tensor<8x8xf64>
  %c = moe.add %x, %b module(residual) : (tensor<8x8xf64>, tensor<8x8xf64>) -> tensor<8x8xf64>
  %y = moe.add %c, %c module(residual) : (tensor<8x8xf64>, tensor<8x8xf64>) -> tensor<8x8xf64>
)"},
    {"route", ROUTE("") EXPERTS},
    {"route_normalized", ROUTE("{normalize}") EXPERTS},
    {"unpermute_probs", R"(
  %wg = moe.param ["router"] dims [experts, hidden] init normal : tensor<4x8xf64>
  %logits = moe.linear %x, %wg module(moe_router) : (tensor<8x8xf64>, tensor<4x8xf64>) -> tensor<8x4xf64>
  %probs, %experts = moe.route %logits module(moe_router) : (tensor<8x4xf64>) -> (tensor<8x2xf64>, tensor<8x2xi32>)
  %map, %counts = moe.permutation %experts module(moe_preprocess) : (tensor<8x2xi32>) -> (tensor<8x2xi32>, !moe.rows<4, mean = 16>)
  %px = moe.permute %x, %map module(moe_dispatch) : (tensor<8x8xf64>, tensor<8x2xi32>) -> tensor<16x8xf64>
  %p0 = moe.permute_probs %probs, %map module(moe_dispatch) : (tensor<8x2xf64>, tensor<8x2xi32>) -> tensor<16xf64>
  %p1 = moe.unpermute_probs %p0, %map module(moe_dispatch) : (tensor<16xf64>, tensor<8x2xi32>) -> tensor<8x2xf64>
  %pp = moe.permute_probs %p1, %map module(moe_dispatch) : (tensor<8x2xf64>, tensor<8x2xi32>) -> tensor<16xf64>
)" EXPERTS},
    // The four experts' counts as those of two source ranks and two experts.
    {"sort_chunks", ROUTE("{normalize}") R"(
  %sx = moe.sort_chunks %px, %counts module(moe_dispatch) {ranks = 2 : i64} : (tensor<16x8xf64>, !moe.rows<4, mean = 16>) -> tensor<16x8xf64>
  %sp = moe.sort_chunks %pp, %counts module(moe_dispatch) {ranks = 2 : i64} : (tensor<16xf64>, !moe.rows<4, mean = 16>) -> tensor<16xf64>
  %rows = moe.local_rows %counts module(moe_preprocess) : (!moe.rows<4, mean = 16>) -> !moe.rows<2, mean = 16>
  %w1 = moe.param ["gate.{e}", "up.{e}"] dims [experts, gate_up_width, hidden] init normal : tensor<2x8x8xf64>
  %y1 = moe.grouped_linear %sx, %w1, %rows module(moe_experts) : (tensor<16x8xf64>, tensor<2x8x8xf64>, !moe.rows<2, mean = 16>) -> tensor<16x8xf64>
  %act = moe.swiglu %y1, %sp, %rows module(moe_act) : (tensor<16x8xf64>, tensor<16xf64>, !moe.rows<2, mean = 16>) -> tensor<16x4xf64>
  %w2 = moe.param ["down.{e}"] dims [experts, hidden, expert_width] init normal : tensor<2x8x4xf64>
  %y2 = moe.grouped_linear %act, %w2, %rows module(moe_experts) : (tensor<16x4xf64>, tensor<2x8x4xf64>, !moe.rows<2, mean = 16>) -> tensor<16x8xf64>
  %u = moe.sort_chunks %y2, %counts module(moe_combine) {inverse, ranks = 2 : i64} : (tensor<16x8xf64>, !moe.rows<4, mean = 16>) -> tensor<16x8xf64>
  %y = moe.unpermute %u, %map module(moe_combine) : (tensor<16x8xf64>, tensor<8x2xi32>) -> tensor<8x8xf64>
)"},
};

std::string moduleText(const std::string &body) {
  return R"(
module attributes {moe.phase = "model",
  moe.layout = #moe.layout<dp = 1, ep = 1, pp = 1, micro_batch = 2, global_batch = 4, seq = 4, capacity = 0.0, layers = [0]>} {
moe.layer @embed(%ids: tensor<8xi32>) -> tensor<8x8xf64> {
  %t = moe.param ["table"] dims [vocabulary, hidden] init normal : tensor<6x8xf64>
  %x = moe.embedding %t, %ids module(embedding) : (tensor<6x8xf64>, tensor<8xi32>) -> tensor<8x8xf64>
  moe.return %x : tensor<8x8xf64>
}
moe.layer @tested(%x: tensor<8x8xf64>) -> tensor<8x8xf64> {
)" + body +
         R"(
  moe.return %y : tensor<8x8xf64>
}
moe.layer @head(%h: tensor<8x8xf64>, %labels: tensor<8xi32>) -> tensor<1xf64> {
  %w = moe.param ["head"] dims [vocabulary, hidden] init normal : tensor<6x8xf64>
  %z = moe.linear %h, %w module(head) : (tensor<8x8xf64>, tensor<6x8xf64>) -> tensor<8x6xf64>
  %loss = moe.cross_entropy %z, %labels module(head) {scale = 0.0625 : f64} : (tensor<8x6xf64>, tensor<8xi32>) -> tensor<1xf64>
  moe.return %loss : tensor<1xf64>
}
moe.model @model(%ids: tensor<8xi32>, %labels: tensor<8xi32>) -> tensor<1xf64> {
  %h0 = moe.apply @embed [0 to 1] (%ids) : (tensor<8xi32>) -> tensor<8x8xf64>
  %h1 = moe.apply @tested [0 to 2] (%h0) : (tensor<8x8xf64>) -> tensor<8x8xf64>
  %loss = moe.apply @head [0 to 1] (%h1, %labels) : (tensor<8x8xf64>, tensor<8xi32>) -> tensor<1xf64>
  moe.return %loss : tensor<1xf64>
}
}
)";
}

class FiniteDifference : public testing::TestWithParam<Case> {};

TEST_P(FiniteDifference, EveryGradient) {
  moe_test::TestModule test(moduleText(GetParam().body));
  ASSERT_TRUE(test.module) << test.errors;
  PassManager passes(&test.context);
  passes.addPass(createPartition());
  passes.addPass(createDifferentiate());
  passes.addPass(createVerifyTraining());
  ASSERT_TRUE(succeeded(passes.run(*test.module))) << test.errors;
  auto created = Interpreter::create(*test.module);
  ASSERT_TRUE(succeeded(created)) << test.errors;
  Interpreter &interpreter = **created;

  // Weights around 0.5: far from where a tie would change a routing.
  std::map<std::string, StoredTensor> start;
  for (const std::string &name : interpreter.parameterNames()) {
    StoredTensor tensor = *interpreter.parameter(name);
    tensor.values = moe_test::normals(name, tensor.values.size());
    for (double &value : tensor.values)
      value *= 0.5;
    start[name] = tensor;
  }
  auto set = [&](const std::string &name, const StoredTensor &tensor) {
    ASSERT_TRUE(
        succeeded(interpreter.setParameter(name, tensor.shape, tensor.values)));
  };
  std::vector<int32_t> tokens =
      moert::randomTokens(3, 0, interpreter.tokenCount(), 6);

  for (auto &[name, tensor] : start)
    set(name, tensor);
  FailureOr<InterpretedStep> step = interpreter.step(tokens);
  ASSERT_TRUE(succeeded(step)) << test.errors;
  const std::map<std::string, StoredTensor> gradients = interpreter.gradients();
  ASSERT_EQ(gradients.size(), start.size());
  for (auto &[name, tensor] : start)
    set(name, tensor);
  FailureOr<double> loss = interpreter.forward(tokens);
  ASSERT_TRUE(succeeded(loss));
  EXPECT_EQ(*loss, step->loss);

  const double delta = 1e-5;
  for (auto &[name, tensor] : start) {
    const std::vector<double> &gradient = gradients.at(name).values;
    double largest = 0;
    for (double value : gradient)
      largest = std::max(largest, std::abs(value));
    EXPECT_GT(largest, 1e-4) << name << ": a gradient that shows nothing";
    for (size_t i = 0; i < gradient.size(); ++i) {
      double loss[2];
      for (int side : {0, 1}) {
        StoredTensor moved = tensor;
        moved.values[i] += side ? delta : -delta;
        set(name, moved);
        FailureOr<double> at = interpreter.forward(tokens);
        ASSERT_TRUE(succeeded(at));
        loss[side] = *at;
      }
      EXPECT_NEAR(gradient[i], (loss[1] - loss[0]) / (2 * delta),
                  moe_test::kFiniteDifference * std::max(1.0, largest))
          << name << "[" << i << "]";
    }
    set(name, tensor);
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, FiniteDifference, testing::ValuesIn(cases),
                         [](const auto &info) {
                           return std::string(info.param.name);
                         });

TEST(Differentiable, EveryOpIsTested) {
  std::string text =
      moe_test::finiteDifferenceTestText() + moe_test::dualTestText();
  moe_test::TestModule test("module {}");
  unsigned count = 0;
  for (RegisteredOperationName op :
       test.context.getRegisteredOperationsByDialect("moe")) {
    if (!op.hasInterface<DifferentiableOpInterface>())
      continue;
    ++count;
    EXPECT_NE(text.find(op.getStringRef().str() + " "), std::string::npos)
        << op.getStringRef().str() << " is in no test";
  }
  EXPECT_GT(count, 20u);
}

} // namespace

std::string moe_test::finiteDifferenceTestText() {
  std::string text;
  for (const Case &c : cases)
    text += moduleText(c.body);
  return text;
}
