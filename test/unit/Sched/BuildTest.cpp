// A small model, lowered to tables of every kind: all verify, and all give the
// serial program's bits on the host engine.

#include "Jobs.h"
#include "moe/Runtime/Engine.h"
#include "moe/Sched/Reference.h"
#include "moe/Verify/Verify.h"

#include <cstring>

using namespace mlir;
using namespace mlir::moe;

namespace {

class BuildTest : public SmallModelTest {
protected:
  void expectVerified(ModuleOp module, const moert::Table &table) {
    for (const std::string &problem : moert::checkTable(table))
      ADD_FAILURE() << problem;
    auto expected = referenceValues(module, table);
    ASSERT_TRUE(succeeded(expected));
    for (const moert::Fault &fault : moert::verify(table, *expected).faults)
      ADD_FAILURE() << moert::proofName(fault.proof) << ": " << fault.message;
  }

  std::vector<moert::StepResult> run(const moert::Table &table,
                                     uint64_t orderSeed) {
    moert::EngineOptions options;
    options.orderSeed = orderSeed;
    std::string error;
    auto engine = moert::Engine::create(table, options, {}, error);
    EXPECT_TRUE(engine) << error;
    std::vector<moert::StepResult> results;
    if (!engine)
      return results;
    EXPECT_TRUE(engine->initialize(1, error)) << error;
    for (int step = 0; step < 3; ++step) {
      moert::StepResult result;
      EXPECT_TRUE(engine->step(engine->randomTokens(1, step), result, error))
          << error;
      results.push_back(result);
    }
    return results;
  }
};

class SerialBitsTest : public BuildTest,
                       public ::testing::WithParamInterface<Job> {
protected:
  /// What two steps leave: losses, norms and all parameters.
  struct Outcome {
    std::vector<float> losses, norms;
    std::vector<moert::NamedTensor> parameters;
  };

  Outcome outcome(const moert::Table &table, int threads, uint64_t orderSeed) {
    Outcome outcome;
    moert::EngineOptions options;
    options.threads = threads;
    options.orderSeed = orderSeed;
    std::string error;
    auto engine = moert::Engine::create(table, options, {}, error);
    EXPECT_TRUE(engine) << error;
    if (!engine)
      return outcome;
    EXPECT_TRUE(engine->initialize(1, error)) << error;
    for (int step = 0; step < 2; ++step) {
      moert::StepResult result;
      EXPECT_TRUE(engine->step(engine->randomTokens(1, step), result, error))
          << error;
      outcome.losses.push_back(result.loss);
      outcome.norms.push_back(result.gradNorm);
    }
    EXPECT_TRUE(engine->parameters(outcome.parameters, error)) << error;
    return outcome;
  }

  void expectSameBits(const Outcome &actual, const Outcome &expected) {
    auto same = [](const std::vector<float> &a, const std::vector<float> &b) {
      return a.size() == b.size() &&
             !std::memcmp(a.data(), b.data(), a.size() * sizeof(float));
    };
    EXPECT_TRUE(same(actual.losses, expected.losses)) << "losses differ";
    EXPECT_TRUE(same(actual.norms, expected.norms)) << "norms differ";
    ASSERT_EQ(actual.parameters.size(), expected.parameters.size());
    for (size_t i = 0; i < actual.parameters.size(); ++i)
      EXPECT_TRUE(
          same(actual.parameters[i].values, expected.parameters[i].values))
          << expected.parameters[i].name << " differs";
  }
};

// Recompute, pairs, pipeline order, capture, in any combination, on one and on
// two threads, each under 20 orders of what streams and events permit: the bits
// of the serial program that recomputes nothing.
TEST_P(SerialBitsTest, InEveryCombination) {
  Layout layout = GetParam().layout;
  OwningOpRef<ModuleOp> plain = kernelsModule({}, layout);
  Outcome serial =
      outcome(build(*plain, moert::PipelineKind::Serial), /*threads=*/1, 0);
  ASSERT_EQ(serial.losses.size(), 2u);
  // Random tokens of 64: near log(64), twice that as the model's loss is
  // scaled for 4 samples.
  EXPECT_NEAR(serial.losses[0], 8.32, 0.2);
  EXPECT_NE(serial.losses[0], serial.losses[1]);
  EXPECT_GT(serial.norms[0], 0);
  EXPECT_FALSE(serial.parameters.empty());

  OwningOpRef<ModuleOp> module = kernelsModule(GetParam().recompute, layout);
  for (moert::PipelineKind kind : kKinds)
    for (const std::set<std::string> &captured : kCaptures) {
      moert::Table table = build(*module, kind, captured);
      expectVerified(*module, table);
      for (int threads : {1, 2})
        for (uint64_t seed = 1; seed <= 20; ++seed) {
          SCOPED_TRACE("kind " + std::to_string(int(kind)) + ", captured " +
                       std::to_string(captured.size()) + ", threads " +
                       std::to_string(threads) + ", seed " +
                       std::to_string(seed));
          expectSameBits(outcome(table, threads, seed), serial);
          if (HasFailure())
            return;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Jobs, SerialBitsTest, ::testing::ValuesIn(jobs()),
                         jobName);

// What the host reads of each layer and micro-batch: the rows of its experts,
// or the counts of their exchange, never both; backward reads nothing.
TEST_F(BuildTest, CountsAreReadOnce) {
  for (auto [layout, reads] :
       {std::pair{Layout{1, 1, 1}, 1}, std::pair{Layout{2, 1, 1}, 1},
        std::pair{Layout{2, 2, 1}, 2}})
    for (std::vector<std::string> recompute :
         {std::vector<std::string>{}, {"moe"}})
      for (moert::PipelineKind kind : kKinds) {
        OwningOpRef<ModuleOp> module = kernelsModule(recompute, layout);
        moert::Table table = build(*module, kind);
        int64_t found = 0, calls = 0;
        for (const moert::Call &call : table.programs[0].calls) {
          const moert::Template &tmpl = table.templates[call.tmpl];
          for (const moert::Op &op : tmpl.ops)
            found += op.kind == moert::OpKind::HostRead;
          calls += tmpl.name == "decoder_fwd" ||
                   StringRef(tmpl.name).starts_with("pair_decoder");
        }
        EXPECT_GT(calls, 0);
        EXPECT_EQ(found, reads * calls) << "ep " << layout.ep;
      }
}

// A proof holds that it reads all of them, before the products that take them.
TEST_F(BuildTest, CountsThatAreNotRead) {
  for (Layout layout : {Layout{1, 1, 1}, Layout{2, 2, 1}}) {
    OwningOpRef<ModuleOp> module = kernelsModule({}, layout);
    moert::Table table = build(*module, moert::PipelineKind::Serial);
    for (moert::Template &tmpl : table.templates)
      for (moert::Op &op : tmpl.ops)
        if (op.kind == moert::OpKind::HostRead)
          for (moert::Operand &operand : op.operands)
            --operand.shape[0];
    moert::VerifyOptions options;
    options.value = false;
    moert::VerifyResult result = moert::verify(table, {}, options);
    EXPECT_TRUE(llvm::any_of(
        result.faults,
        [](const moert::Fault &fault) {
          return fault.proof == moert::Proof::Race &&
                 StringRef(fault.message)
                     .contains("takes the rows of its experts from the host");
        }))
        << "ep " << layout.ep;
  }
}

// Each layout trains like one rank with as many more micro-batches.
TEST_F(BuildTest, LayoutsAgreeWithOneRank) {
  auto first = [&](Layout layout) {
    OwningOpRef<ModuleOp> module = kernelsModule({}, layout);
    return run(build(*module, moert::PipelineKind::OneFOneB), 0);
  };
  std::vector<moert::StepResult> one = first({1, 1, 1});
  ASSERT_EQ(one.size(), 3u);
  for (Layout layout : {Layout{2, 1, 1}, Layout{2, 2, 1}, Layout{4, 4, 1},
                        Layout{1, 1, 2}, Layout{2, 2, 2}, Layout{8, 2, 1}}) {
    std::vector<moert::StepResult> many = first(layout);
    ASSERT_EQ(many.size(), one.size());
    for (size_t i = 0; i < one.size(); ++i) {
      EXPECT_NEAR(many[i].loss, one[i].loss, 1e-5) << layout.dp << layout.pp;
      EXPECT_NEAR(many[i].gradNorm, one[i].gradNorm, 1e-5 * one[i].gradNorm);
    }
  }
}

} // namespace
