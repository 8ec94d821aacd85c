// A small model, lowered to tables of every kind: all verify, and all give the
// serial program's bits on the host engine.

#include "SmallModel.h"
#include "moe/Runtime/Engine.h"
#include "moe/Sched/Reference.h"
#include "moe/Verify/Verify.h"

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
    engine->initialize(1);
    for (int step = 0; step < 3; ++step) {
      moert::StepResult result;
      EXPECT_TRUE(engine->step(engine->randomTokens(1, step), result, error))
          << error;
      results.push_back(result);
    }
    return results;
  }
};

constexpr moert::PipelineKind kKinds[] = {moert::PipelineKind::Serial,
                                          moert::PipelineKind::OneFOneB,
                                          moert::PipelineKind::Paired};

// Recompute, pairs, pipeline order, capture, in any combination and under
// several orders of what streams and events permit: the serial bits.
TEST_F(BuildTest, EveryScheduleHasTheSerialBits) {
  for (Layout layout : {Layout{1, 1, 1}, Layout{2, 2, 1}, Layout{1, 1, 2},
                        Layout{2, 2, 2}, Layout{4, 2, 1}}) {
    SCOPED_TRACE("dp " + std::to_string(layout.dp) + " ep " +
                 std::to_string(layout.ep) + " pp " +
                 std::to_string(layout.pp));
    std::vector<moert::StepResult> serial;
    for (std::vector<std::string> recompute :
         {std::vector<std::string>{}, {"moe", "norm"}}) {
      OwningOpRef<ModuleOp> module = kernelsModule(recompute, layout);
      for (moert::PipelineKind kind : kKinds)
        for (std::set<std::string> captured :
             {std::set<std::string>{}, {"moe_router"}}) {
          moert::Table table = build(*module, kind, captured);
          expectVerified(*module, table);
          for (uint64_t seed : {0, 1, 2}) {
            std::vector<moert::StepResult> results = run(table, seed);
            if (serial.empty())
              serial = results;
            ASSERT_EQ(results.size(), serial.size());
            for (size_t i = 0; i < results.size(); ++i) {
              EXPECT_EQ(results[i].loss, serial[i].loss);
              EXPECT_EQ(results[i].gradNorm, serial[i].gradNorm);
            }
          }
        }
    }
    ASSERT_EQ(serial.size(), 3u);
    // Random tokens of 64: near log(64), twice that as the model's loss is
    // scaled for 4 samples.
    EXPECT_NEAR(serial[0].loss, 8.32, 0.2);
    EXPECT_NE(serial[0].loss, serial[1].loss);
    EXPECT_GT(serial[0].gradNorm, 0);
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
