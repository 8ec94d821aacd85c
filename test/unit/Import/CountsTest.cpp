#include "ImportTesting.h"

#include "dialects/Moe/MoeOps.h"
#include "mlir/Parser/Parser.h"
#include "moe/Import/Counts.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace mlir::moe;
using nlohmann::ordered_json;

namespace {

struct CountsTest : testing::Test {
  MLIRContext context;

  OwningOpRef<ModuleOp> import(const ordered_json &config,
                               const std::string &layout = "") {
    return importHuggingFace(&context, config.dump(), "config.json",
                             {"h100x8", layout, std::nullopt});
  }
  int64_t parameters(const ordered_json &config) {
    return *parameterCount(*import(config));
  }
};

/// With the dimensions of a published model.
ordered_json published(int64_t hidden, int64_t layers, int64_t heads,
                       int64_t width) {
  ordered_json config = tinyConfig();
  config.update({{"hidden_size", hidden},
                 {"num_hidden_layers", layers},
                 {"num_attention_heads", heads},
                 {"num_key_value_heads", 4},
                 {"head_dim", 128},
                 {"num_experts", 128},
                 {"num_experts_per_tok", 8},
                 {"moe_intermediate_size", width},
                 {"vocab_size", 151936}});
  return config;
}

TEST_F(CountsTest, PublishedModels) {
  auto small = import(published(2048, 48, 32, 768));
  EXPECT_EQ(*parameterCount(*small), 30532122624);
  EXPECT_NEAR(*modelFlopsPerToken(*small, 4096), 23.006e9, 23.006e6);
  auto large = import(published(4096, 94, 64, 1536));
  EXPECT_EQ(*parameterCount(*large), 235093634560);
  EXPECT_NEAR(*modelFlopsPerToken(*large, 4096), 148.035e9, 148.035e6);
  EXPECT_NEAR(*modelFlopsPerToken(*large, 131072), 734.701e9, 734.701e6);
}

// FLOP per token depend neither on the layout nor on its sequence, but for
// the given one.
TEST_F(CountsTest, FlopsOfLayouts) {
  auto one = import(tinyConfig()),
       other = import(tinyConfig(), "ep=4,micro_batch=3,seq=16");
  EXPECT_DOUBLE_EQ(*modelFlopsPerToken(*one, 512),
                   *modelFlopsPerToken(*other, 512));
  EXPECT_LT(*modelFlopsPerToken(*one, 512), *modelFlopsPerToken(*one, 513));
}

// What a change of the configuration adds, by hand.
TEST_F(CountsTest, ChangedConfigs) {
  const int64_t base = parameters(tinyConfig());
  const int64_t layer =
      32 * (32 + 16 + 16 + 32) + 2 * 32 + 2 * 8 + 8 * (32 + 3 * 16 * 32);
  EXPECT_EQ(base, 2 * layer + 2 * 64 * 32 + 32);
  auto change = [](const char *key, const ordered_json &value) {
    ordered_json config = tinyConfig();
    config[key] = value;
    return config;
  };
  EXPECT_EQ(parameters(change("num_hidden_layers", 3)) - base, layer);
  EXPECT_EQ(parameters(change("vocab_size", 65)) - base, 2 * 32);
  EXPECT_EQ(parameters(change("num_experts", 9)) - base,
            2 * (32 + 3 * 16 * 32));
  EXPECT_EQ(parameters(change("tie_word_embeddings", true)) - base, -64 * 32);
  EXPECT_EQ(parameters(change("num_experts_per_tok", 3)), base);
  auto flops = [&](const ordered_json &config) {
    return *modelFlopsPerToken(*import(config), 4096);
  };
  EXPECT_DOUBLE_EQ(flops(change("num_experts_per_tok", 3)) -
                       flops(tinyConfig()),
                   6.0 * 2 * 3 * 16 * 32);
  EXPECT_DOUBLE_EQ(flops(change("num_experts", 9)), flops(tinyConfig()));
}

OwningOpRef<ModuleOp> parse(MLIRContext *context, const std::string &body) {
  context->loadDialect<MoeDialect>();
  return parseSourceString<ModuleOp>(
      "module attributes {moe.layout = #moe.layout<dp = 8, ep = 4, pp = 1, "
      "micro_batch = 1, global_batch = 8, seq = 16, capacity = 2.0, layers = "
      "[2]>} {" +
          body + "}",
      context);
}

// A sharded parameter counts once per shard, and equal ones once.
TEST_F(CountsTest, ShardsAndRanges) {
  auto module = parse(&context, R"(
    moe.layer @a(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
      %w = moe.param ["layers.{i}.w"] dims [experts, hidden, hidden] init ones
        : tensor<2x3x5xf32, #moe.dist<experts, ep = sharded(0), edp = invariant>>
      %v = moe.param ["shared"] dims [hidden] init ones : tensor<7xf32>
      moe.return %x : tensor<4x4xf32>
    }
    moe.model @m(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
      %a = moe.apply @a [0 to 2] (%x) : (tensor<4x4xf32>) -> tensor<4x4xf32>
      %b = moe.apply @a [1 to 5] (%a) : (tensor<4x4xf32>) -> tensor<4x4xf32>
      moe.return %b : tensor<4x4xf32>
    })");
  ASSERT_TRUE(module);
  EXPECT_EQ(*parameterCount(*module), 4 * 2 * 3 * 5 * 5 + 7);
}

TEST_F(CountsTest, Errors) {
  auto twoShapes = parse(&context, R"(
    moe.layer @a(%x: tensor<4xf32>) -> tensor<4xf32> {
      %w = moe.param ["w"] dims [hidden] init ones : tensor<3xf32>
      %v = moe.param ["w"] dims [hidden] init ones : tensor<4xf32>
      moe.return %x : tensor<4xf32>
    }
    moe.model @m(%x: tensor<4xf32>) -> tensor<4xf32> {
      %a = moe.apply @a [0 to 1] (%x) : (tensor<4xf32>) -> tensor<4xf32>
      moe.return %a : tensor<4xf32>
    })");
  auto huge = parse(&context, R"(
    moe.layer @a(%x: tensor<4xf32>) -> tensor<4xf32> {
      %w = moe.param ["{i}"] dims [hidden] init ones : tensor<4611686018427387904xf32>
      moe.return %x : tensor<4xf32>
    }
    moe.model @m(%x: tensor<4xf32>) -> tensor<4xf32> {
      %a = moe.apply @a [0 to 4] (%x) : (tensor<4xf32>) -> tensor<4xf32>
      moe.return %a : tensor<4xf32>
    })");
  ASSERT_TRUE(twoShapes);
  ASSERT_TRUE(huge);
  Messages messages(&context);
  EXPECT_TRUE(failed(parameterCount(*twoShapes)));
  EXPECT_TRUE(failed(parameterCount(*huge)));
  ASSERT_EQ(messages.errors.size(), 2u);
  EXPECT_NE(messages.errors[0].find("a parameter of the same name"),
            std::string::npos);
  EXPECT_NE(messages.errors[1].find("too large to be counted"),
            std::string::npos);
}

} // namespace
