//===- SmallModel.h - A small model, lowered to tables --------------------===//

#ifndef MOE_TEST_UNIT_SCHED_SMALLMODEL_H
#define MOE_TEST_UNIT_SCHED_SMALLMODEL_H

#include "dialects/Moe/MoeDialect.h"
#include "dialects/Moe/MoeOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "moe/Sched/Build.h"
#include "moe/Support/Phase.h"
#include "moe/Transforms/Kernels/Passes.h"
#include "moe/Transforms/Spmd/Passes.h"
#include "moe/Transforms/Training/Passes.h"
#include "gtest/gtest.h"

namespace mlir::moe {

struct Layout {
  int64_t dp = 1, ep = 1, pp = 1;
};

class SmallModelTest : public ::testing::Test {
protected:
  SmallModelTest() { context.loadDialect<MoeDialect>(); }

  /// The model in phase kernels, its sizes divided by `shrink`; the global
  /// batch stays 8 samples.
  OwningOpRef<ModuleOp> kernelsModule(std::vector<std::string> recompute,
                                      Layout layout = {}, int64_t shrink = 1) {
    OwningOpRef<ModuleOp> module =
        parseSourceFile<ModuleOp>(MOE_MODEL_FILE, &context);
    Builder builder(&context);
    // A layer for each stage, at least the model's two.
    int64_t depth = std::max<int64_t>(2, layout.pp);
    (*module)->walk([&](ApplyOp apply) {
      if (apply.getLayer() == "decoder")
        apply.setUpper(depth);
    });
    SmallVector<int64_t> layers(layout.pp, depth / layout.pp);
    (*module)->setAttr(kLayoutAttr,
                       LayoutAttr::get(&context, layout.dp, layout.ep,
                                       layout.pp, 1, 8, 16,
                                       builder.getF64FloatAttr(0), layers));
    PassManager manager(&context);
    ShrinkOptions shrinkOptions;
    shrinkOptions.factor = shrink;
    manager.addPass(createShrink(shrinkOptions));
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

  MLIRContext context;
};

} // namespace mlir::moe

#endif // MOE_TEST_UNIT_SCHED_SMALLMODEL_H
