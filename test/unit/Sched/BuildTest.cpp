// A small model, lowered to tables of every kind: all verify, and all give the
// serial program's bits on the host engine.

#include "moe/Sched/Build.h"
#include "dialects/Moe/MoeDialect.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "moe/Runtime/Engine.h"
#include "moe/Sched/Reference.h"
#include "moe/Support/Phase.h"
#include "moe/Transforms/Kernels/Passes.h"
#include "moe/Transforms/Spmd/Passes.h"
#include "moe/Transforms/Training/Passes.h"
#include "moe/Verify/Verify.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::moe;

namespace {

class BuildTest : public ::testing::Test {
protected:
  BuildTest() { context.loadDialect<MoeDialect>(); }

  /// The layout of `dp` data-parallel ranks, of `ep` each, on `pp` stages; the
  /// global batch stays 8 samples.
  OwningOpRef<ModuleOp> kernelsModule(std::vector<std::string> recompute,
                                      int64_t dp = 1, int64_t ep = 1,
                                      int64_t pp = 1) {
    OwningOpRef<ModuleOp> module =
        parseSourceFile<ModuleOp>(MOE_MODEL_FILE, &context);
    Builder builder(&context);
    SmallVector<int64_t> layers(pp, 2 / pp);
    (*module)->setAttr(kLayoutAttr,
                       LayoutAttr::get(&context, dp, ep, pp, 1, 8, 16,
                                       builder.getF64FloatAttr(0), layers));
    PassManager manager(&context);
    manager.addPass(createPartition());
    manager.addPass(createVerifySpmd());
    manager.addPass(createDifferentiate());
    manager.addPass(createVerifyTraining());
    manager.addPass(createFormKernels());
    RecomputeOptions options;
    options.modules.assign(recompute.begin(), recompute.end());
    manager.addPass(createRecompute(options));
    manager.addPass(createVerifyKernels());
    if (failed(manager.run(*module)))
      ADD_FAILURE() << "pipeline failed";
    return module;
  }

  moert::Table build(ModuleOp module, moert::PipelineKind kind,
                     std::set<std::string> captured = {}) {
    moert::System system;
    std::string error;
    EXPECT_TRUE(moert::parseSystem("h100x1", system, error)) << error;
    ScheduleOptions options;
    options.pipeline = kind;
    options.captured = captured;
    std::vector<moert::OrderReport> orders;
    FailureOr<moert::Table> table = buildTable(module, options, system, orders);
    if (failed(table)) {
      ADD_FAILURE() << "no table";
      return {};
    }
    for (const moert::OrderReport &order : orders) {
      EXPECT_LE(order.bound, order.chosen * (1 + 1e-9)) << order.name;
      EXPECT_LE(order.chosen, order.megatron * (1 + 1e-9)) << order.name;
    }
    return *table;
  }

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

  MLIRContext context;
};

constexpr moert::PipelineKind kKinds[] = {moert::PipelineKind::Serial,
                                          moert::PipelineKind::OneFOneB,
                                          moert::PipelineKind::Paired};

struct Layout {
  int64_t dp, ep, pp;
};

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
      OwningOpRef<ModuleOp> module =
          kernelsModule(recompute, layout.dp, layout.ep, layout.pp);
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
    OwningOpRef<ModuleOp> module =
        kernelsModule({}, layout.dp, layout.ep, layout.pp);
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
