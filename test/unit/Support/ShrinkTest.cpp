//===- ShrinkTest.cpp - Shrinking commutes, and keeps prices --------------===//

#include "moe/Support/Shrink.h"

#include "../Import/ImportTesting.h"
#include "dialects/Moe/MoeOps.h"
#include "mlir/Pass/PassManager.h"
#include "moe/Interpret/Interpreter.h"
#include "moe/Transforms/Kernels/Passes.h"
#include "moe/Transforms/Spmd/Passes.h"
#include "moe/Transforms/Training/Passes.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace mlir;
using namespace mlir::moe;
using nlohmann::ordered_json;

namespace {

/// The widths of Qwen3-30B-A3B, in two layers.
ordered_json qwen30() {
  ordered_json config = tinyConfig();
  config.update({{"hidden_size", 2048},
                 {"num_attention_heads", 32},
                 {"num_key_value_heads", 4},
                 {"head_dim", 128},
                 {"num_experts", 128},
                 {"num_experts_per_tok", 8},
                 {"moe_intermediate_size", 768},
                 {"vocab_size", 151936}});
  return config;
}

/// All widths, and the numbers of experts and tokens, are one number; sizes
/// that are equal become different ones.
ordered_json coincident() {
  ordered_json config = tinyConfig();
  config.update({{"hidden_size", 64},
                 {"num_attention_heads", 64},
                 {"num_key_value_heads", 64},
                 {"head_dim", 64},
                 {"num_experts", 64},
                 {"num_experts_per_tok", 64},
                 {"moe_intermediate_size", 64},
                 {"vocab_size", 64}});
  return config;
}

struct ShrinkTest : testing::Test {
  MLIRContext context;

  OwningOpRef<ModuleOp> import(const ordered_json &config,
                               const std::string &target,
                               const std::string &layout) {
    return importHuggingFace(&context, config.dump(), "config.json",
                             {target, layout, std::nullopt});
  }

  /// Runs the pipeline's passes `from` to `to` (excluded), each of which ends
  /// in a phase; recompute is the last.
  static constexpr int kPasses = 4;
  void lower(ModuleOp module, int from, int to) {
    PassManager manager(&context);
    for (int pass = from; pass < to; ++pass)
      switch (pass) {
      case 0:
        manager.addPass(createPartition());
        manager.addPass(createVerifySpmd());
        break;
      case 1:
        manager.addPass(createDifferentiate());
        manager.addPass(createVerifyTraining());
        break;
      case 2:
        manager.addPass(createFormKernels());
        break;
      case 3: {
        RecomputeOptions options;
        options.modules = {"moe", "norm"};
        manager.addPass(createRecompute(options));
        manager.addPass(createVerifyKernels());
        break;
      }
      }
    ASSERT_TRUE(succeeded(manager.run(module)));
  }

  static std::string text(ModuleOp module) {
    std::string result;
    llvm::raw_string_ostream(result) << module;
    return result;
  }
};

TEST_F(ShrinkTest, Sizes) {
  EXPECT_EQ(shrunkenSize(2048, 32), 64);
  EXPECT_EQ(shrunkenSize(151936, 32), 4748);
  EXPECT_EQ(shrunkenSize(128, 100), 2);
  EXPECT_EQ(shrunkenSize(2, INT64_MAX), 2);
  for (int64_t size = 2; size < 200; ++size)
    for (int64_t factor = 2; factor < 210; ++factor) {
      int64_t small = shrunkenSize(size, factor);
      EXPECT_EQ(small % 2, 0);
      EXPECT_GE(small, 2);
      EXPECT_LE(small, size);
      // No even number is nearer, unless it is zero.
      if (small > 2) {
        EXPECT_LE(std::abs(small * factor - size), factor)
            << size << " / " << factor;
      }
    }
}

// Wherever on the way a program is shrunken, the end is the same, with its
// costs. Costs are those of the program that was not shrunken, and restoring
// gives that program.
TEST_F(ShrinkTest, Commutes) {
  struct Job {
    ordered_json config;
    std::string target, layout;
  };
  const Job jobs[] = {
      {tinyConfig(), "h100x1", "seq=16,global_batch=4"},
      {qwen30(), "h100x4", "ep=2,pp=2,global_batch=8"},
      {qwen30(), "h100x8", "ep=4,micro_batch=2,global_batch=32,capacity=worst"},
      {coincident(), "h100x2", "ep=2,seq=64,global_batch=64,micro_batch=32"},
      {coincident(), "h100x1", "seq=64,global_batch=64"}};
  for (const Job &job : jobs)
    for (int64_t factor : {2, 3, 7, 32, 1 << 20}) {
      SCOPED_TRACE(job.layout + " by " + std::to_string(factor));
      std::string first;
      for (int at = 0; at <= kPasses; ++at) {
        auto module = import(job.config, job.target, job.layout);
        ASSERT_TRUE(module);
        lower(*module, 0, at);
        std::string whole = text(*module);
        ASSERT_TRUE(succeeded(shrinkProgram(*module, factor)));
        EXPECT_NE(text(*module), whole);
        auto restored = originalProgram(*module);
        ASSERT_TRUE(succeeded(restored));
        EXPECT_EQ(text(**restored), whole) << "pass " << at;
        lower(*module, at, kPasses);
        if (at == 0)
          first = text(*module);
        EXPECT_EQ(text(*module), first) << "pass " << at;
      }
    }
}

// What is shrunken is what would have been imported at the small sizes, but
// for the record.
TEST_F(ShrinkTest, EqualsImported) {
  auto module = import(qwen30(), "h100x4", "ep=2,pp=2,global_batch=8");
  ASSERT_TRUE(succeeded(shrinkProgram(*module, 32)));
  ordered_json config = qwen30();
  config.update({{"hidden_size", 64},
                 {"head_dim", 4},
                 {"moe_intermediate_size", 24},
                 {"vocab_size", 4748}});
  auto small = import(config, "h100x4", "ep=2,pp=2,global_batch=8,seq=128");
  EXPECT_NE(text(*module), text(*small));
  auto original = (*module)->getAttrOfType<DictionaryAttr>(kOriginalAttr);
  ASSERT_TRUE(original);
  EXPECT_EQ(original.getAs<IntegerAttr>("hidden").getInt(), 2048);
  EXPECT_EQ(original.getAs<IntegerAttr>("sequence").getInt(), 4096);
  (*module)->removeAttr(kOriginalAttr);
  EXPECT_EQ(text(*module), text(*small));
}

// Two factors are their product where nothing is rounded; the record is that
// of the first.
TEST_F(ShrinkTest, Again) {
  auto once = import(qwen30(), "h100x4", "ep=2,pp=2"),
       twice = import(qwen30(), "h100x4", "ep=2,pp=2");
  ASSERT_TRUE(succeeded(shrinkProgram(*once, 32)));
  ASSERT_TRUE(succeeded(shrinkProgram(*twice, 4)));
  EXPECT_NE(text(*once), text(*twice));
  ASSERT_TRUE(succeeded(shrinkProgram(*twice, 8)));
  EXPECT_EQ(text(*once), text(*twice));
  ASSERT_TRUE(succeeded(shrinkProgram(*twice, 1)));
  EXPECT_EQ(text(*once), text(*twice));
}

// Unusual scales keep their ratio to the usual one.
TEST_F(ShrinkTest, UnusualScale) {
  auto module = import(tinyConfig(), "h100x1", "seq=16,global_batch=4");
  Builder b(&context);
  module->walk([&](AttentionOp op) {
    op.setScaleAttr(b.getF64FloatAttr(3 * op.getScale().convertToDouble()));
  });
  ASSERT_TRUE(succeeded(shrinkProgram(*module, 4)));
  module->walk([&](AttentionOp op) {
    EXPECT_EQ(op.getHeadDim(), 2u);
    EXPECT_DOUBLE_EQ(op.getScale().convertToDouble(), 3 / std::sqrt(2.0));
  });
}

// A job of two layers with a real model's widths, of four ranks, trains when
// it is shrunken.
TEST_F(ShrinkTest, Executes) {
  auto module = import(qwen30(), "h100x4", "ep=2,pp=2,global_batch=4");
  ASSERT_TRUE(succeeded(shrinkProgram(*module, 32)));
  lower(*module, 0, 2);
  auto interpreter = Interpreter::create(*module);
  ASSERT_TRUE(succeeded(interpreter));
  ASSERT_TRUE(succeeded((*interpreter)->initialize(1)));
  auto tokens = (*interpreter)->randomTokens(1, 0);
  ASSERT_TRUE(succeeded(tokens));
  EXPECT_EQ(tokens->size(), 4u * (128 + 1));
  auto first = (*interpreter)->step(*tokens), second = first;
  ASSERT_TRUE(succeeded(first));
  // An untrained model knows nothing of the shrunken vocabulary.
  EXPECT_NEAR(first->loss, std::log(4748.0), 0.1);
  second = (*interpreter)->step(*tokens);
  ASSERT_TRUE(succeeded(second));
  EXPECT_LT(second->loss, first->loss);
}

} // namespace
