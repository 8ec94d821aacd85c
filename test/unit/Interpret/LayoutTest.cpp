//===- LayoutTest.cpp - Layouts compute what one rank computes ------------===//
//
// The same global batch, as model IR on one rank and as spmd and training IR
// on the ranks of a layout.
//
//===----------------------------------------------------------------------===//

#include "TestModule.h"
#include "mlir/Pass/PassManager.h"
#include "moe/Support/Phase.h"
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
  int dp, ep, pp;
  const char *capacity, *layers;
  /// All router logits are equal: experts 0 and 1 get every token, and with
  /// ep = 4 three of four ranks receive nothing.
  bool equalLogits = false;
};

std::ostream &operator<<(std::ostream &os, const Case &c) {
  return os << c.name;
}

const Case one = {"one", 1, 1, 1, "0.0", "3"};
const Case cases[] = {
    {"dp2", 2, 1, 1, "0.0", "3"},
    {"ep2", 2, 2, 1, "0.0", "3"},
    {"ep4", 4, 4, 1, "0.0", "3"},
    {"ep8", 8, 8, 1, "0.0", "3"},
    {"pp2", 1, 1, 2, "0.0", "2, 1"},
    {"ep2_pp2", 2, 2, 2, "0.0", "1, 2"},
    {"dp4_ep2", 4, 2, 1, "0.0", "3"},
    {"dp8_ep2_pp3", 8, 2, 3, "0.0", "1, 0, 2"},
    {"dp4_ep2_capacity", 4, 2, 1, "3.0", "3"},
    {"equal_logits_dp2", 2, 1, 1, "0.0", "3", true},
    {"equal_logits_ep4", 4, 4, 1, "0.0", "3", true},
    {"equal_logits_dp8_ep4_pp2", 8, 4, 2, "0.0", "1, 2", true},
};

/// Eight experts, two for each of four tokens; eight samples a step.
std::string moduleText(const Case &c) {
  return "module attributes {moe.phase = \"model\", moe.layout = "
         "#moe.layout<dp = " +
         std::to_string(c.dp) + ", ep = " + std::to_string(c.ep) +
         ", pp = " + std::to_string(c.pp) +
         ", micro_batch = 1, global_batch = 8, seq = 4, capacity = " +
         c.capacity + ", layers = [" + c.layers + "]>} {" + R"(
moe.layer @embed(%ids: tensor<4xi32>) -> tensor<4x8xf32> {
  %t = moe.param ["embed"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
  %x = moe.embedding %t, %ids module(embedding) : (tensor<16x8xf32>, tensor<4xi32>) -> tensor<4x8xf32>
  moe.return %x : tensor<4x8xf32>
}
moe.layer @decoder(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %wn = moe.param ["{i}.norm"] dims [hidden] init ones : tensor<8xf32>
  %n = moe.rms_norm %x, %wn module(norm) {eps = 1.0e-06 : f64} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %wg = moe.param ["{i}.router"] dims [experts, hidden] init normal : tensor<8x8xf32>
  %logits = moe.linear %n, %wg module(moe_router) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %p, %e = moe.route %logits module(moe_router) {normalize} : (tensor<4x8xf32>) -> (tensor<4x2xf32>, tensor<4x2xi32>)
  %map, %counts = moe.permutation %e module(moe_preprocess) : (tensor<4x2xi32>) -> (tensor<4x2xi32>, !moe.rows<8, mean = 8>)
  %px = moe.permute %n, %map module(moe_dispatch) : (tensor<4x8xf32>, tensor<4x2xi32>) -> tensor<8x8xf32>
  %pp = moe.permute_probs %p, %map module(moe_dispatch) : (tensor<4x2xf32>, tensor<4x2xi32>) -> tensor<8xf32>
  %w1 = moe.param ["{i}.{e}.gate", "{i}.{e}.up"] dims [experts, gate_up_width, hidden] init normal : tensor<8x6x8xf32>
  %y1 = moe.grouped_linear %px, %w1, %counts module(moe_experts) : (tensor<8x8xf32>, tensor<8x6x8xf32>, !moe.rows<8, mean = 8>) -> tensor<8x6xf32>
  %a = moe.swiglu %y1, %pp, %counts module(moe_act) : (tensor<8x6xf32>, tensor<8xf32>, !moe.rows<8, mean = 8>) -> tensor<8x3xf32>
  %w2 = moe.param ["{i}.{e}.down"] dims [experts, hidden, expert_width] init normal : tensor<8x8x3xf32>
  %y2 = moe.grouped_linear %a, %w2, %counts module(moe_experts) : (tensor<8x3xf32>, tensor<8x8x3xf32>, !moe.rows<8, mean = 8>) -> tensor<8x8xf32>
  %y = moe.unpermute %y2, %map module(moe_combine) : (tensor<8x8xf32>, tensor<4x2xi32>) -> tensor<4x8xf32>
  %out = moe.add %x, %y module(residual) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  moe.return %out : tensor<4x8xf32>
}
moe.layer @head(%h: tensor<4x8xf32>, %labels: tensor<4xi32>) -> tensor<1xf32> {
  %w = moe.param ["head"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
  %z = moe.linear %h, %w module(head) : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  %loss = moe.cross_entropy %z, %labels module(head) {scale = 0.03125 : f64} : (tensor<4x16xf32>, tensor<4xi32>) -> tensor<1xf32>
  moe.return %loss : tensor<1xf32>
}
moe.model @m(%ids: tensor<4xi32>, %labels: tensor<4xi32>) -> tensor<1xf32> {
  %h0 = moe.apply @embed [0 to 1] (%ids) : (tensor<4xi32>) -> tensor<4x8xf32>
  %h = moe.apply @decoder [0 to 3] (%h0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %loss = moe.apply @head [0 to 1] (%h, %labels) : (tensor<4x8xf32>, tensor<4xi32>) -> tensor<1xf32>
  moe.return %loss : tensor<1xf32>
}
}
)";
}

/// A module after the passes that lead to a phase, with weights.
class Program {
public:
  Program(const Case &c, Phase phase, bool equalLogits)
      : test(moduleText(c)), tokens(moert::randomTokens(5, 0, 8 * 5, 16)) {
    PassManager passes(&test.context);
    if (phase != Phase::Model) {
      passes.addPass(createPartition());
      passes.addPass(createVerifySpmd());
    }
    if (phase == Phase::Training) {
      passes.addPass(createDifferentiate());
      passes.addPass(createVerifyTraining());
    }
    if (!test.module || failed(passes.run(*test.module)))
      return;
    auto created = Interpreter::create(*test.module);
    if (failed(created))
      return;
    interpreter = std::move(*created);
    for (const std::string &name : interpreter->parameterNames()) {
      std::vector<int64_t> shape = interpreter->parameter(name)->shape;
      std::vector<double> values =
          moe_test::normals(name, interpreter->parameter(name)->values.size());
      bool zero = equalLogits && StringRef(name).ends_with("router");
      for (double &value : values)
        value = zero ? 0 : value * 0.5;
      if (failed(interpreter->setParameter(name, shape, values)))
        return;
    }
    ready = true;
  }

  moe_test::TestModule test;
  std::vector<int32_t> tokens;
  std::unique_ptr<Interpreter> interpreter;
  bool ready = false;
};

double largest(const std::vector<double> &values) {
  double most = 0;
  for (double value : values)
    most = std::max(most, std::abs(value));
  return most;
}

class Layout : public testing::TestWithParam<Case> {};

TEST_P(Layout, SpmdHasTheLossOfTheModel) {
  bool equal = GetParam().equalLogits;
  Program model(one, Phase::Model, equal), spmd(GetParam(), Phase::Spmd, equal);
  ASSERT_TRUE(model.ready && spmd.ready) << spmd.test.errors;
  FailureOr<double> want = model.interpreter->forward(model.tokens);
  FailureOr<double> got = spmd.interpreter->forward(spmd.tokens);
  ASSERT_TRUE(succeeded(want) && succeeded(got)) << spmd.test.errors;
  EXPECT_NEAR(*got, *want, moe_test::kLayoutLoss * std::abs(*want));
}

TEST_P(Layout, TrainsLikeOneRank) {
  bool equal = GetParam().equalLogits;
  Program alone(one, Phase::Training, equal);
  Program ranks(GetParam(), Phase::Training, equal);
  ASSERT_TRUE(alone.ready && ranks.ready) << ranks.test.errors;
  FailureOr<InterpretedStep> want = alone.interpreter->step(alone.tokens);
  FailureOr<InterpretedStep> got = ranks.interpreter->step(ranks.tokens);
  ASSERT_TRUE(succeeded(want) && succeeded(got)) << ranks.test.errors;
  EXPECT_NEAR(got->loss, want->loss, moe_test::kLayoutLoss * want->loss);
  EXPECT_NEAR(got->gradNorm, want->gradNorm,
              moe_test::kLayoutGradient * want->gradNorm);
  const auto &gradients = ranks.interpreter->gradients();
  ASSERT_EQ(gradients.size(), alone.interpreter->gradients().size());
  size_t nonzero = 0;
  for (auto &[name, gradient] : alone.interpreter->gradients()) {
    const std::vector<double> &other = gradients.at(name).values;
    ASSERT_EQ(other.size(), gradient.values.size()) << name;
    double scale = largest(gradient.values);
    nonzero += scale > 0;
    for (size_t i = 0; i < other.size(); ++i)
      ASSERT_NEAR(other[i], gradient.values[i],
                  moe_test::kLayoutGradient * scale)
          << name << "[" << i << "]";
  }
  // An expert without tokens has no gradient (of three stored weights): six of
  // eight in each of three layers if logits are equal, one by these weights.
  EXPECT_EQ(gradients.size() - nonzero, equal ? 3u * 6 * 3 : 3u);
  // The second step uses the first's update.
  want = alone.interpreter->step(alone.tokens);
  got = ranks.interpreter->step(ranks.tokens);
  ASSERT_TRUE(succeeded(want) && succeeded(got)) << ranks.test.errors;
  EXPECT_NEAR(got->loss, want->loss, moe_test::kLayoutLoss * want->loss);
}

INSTANTIATE_TEST_SUITE_P(Layouts, Layout, testing::ValuesIn(cases),
                         testing::PrintToStringParamName());

} // namespace
