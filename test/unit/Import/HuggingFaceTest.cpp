#include "ImportTesting.h"

#include "dialects/Moe/MoeOps.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace mlir::moe;
using nlohmann::json;
using nlohmann::ordered_json;

namespace {

struct HuggingFaceTest : testing::Test {
  MLIRContext context;
  ImportOptions options{"h100x8", "", std::nullopt};

  OwningOpRef<ModuleOp> import(const std::string &text) {
    return importHuggingFace(&context, text, "config.json", options);
  }
};

/// One key set to a JSON value (empty: removed), and a part of the one error.
struct BadKey {
  const char *key, *value, *error;
};

const BadKey badKeys[] = {
    // Sizes: absent, of a wrong type, out of range.
    {"hidden_size", "", "'hidden_size' is missing"},
    {"hidden_size", "null", "'hidden_size' is missing"},
    {"hidden_size", "0", "'hidden_size' must be an integer from 1"},
    {"hidden_size", "-32", "'hidden_size' must be an integer from 1"},
    {"hidden_size", "32.0", "'hidden_size' must be an integer from 1"},
    {"hidden_size", "\"32\"", "'hidden_size' must be an integer from 1"},
    {"hidden_size", "[32]", "'hidden_size' must be an integer from 1"},
    {"hidden_size", "true", "'hidden_size' must be an integer from 1"},
    {"hidden_size", "16777217", "but is 16777217"},
    {"hidden_size", "9223372036854775808", "but is 9223372036854775808"},
    {"hidden_size", "18446744073709551616", "must be an integer"},
    {"hidden_size", "-9223372036854775808", "must be an integer"},
    {"num_hidden_layers", "", "'num_hidden_layers' is missing"},
    {"num_attention_heads", "", "'num_attention_heads' is missing"},
    {"num_key_value_heads", "", "'num_key_value_heads' is missing"},
    {"num_experts", "", "'num_experts' is missing"},
    {"num_experts_per_tok", "", "'num_experts_per_tok' is missing"},
    {"moe_intermediate_size", "", "'moe_intermediate_size' is missing"},
    {"vocab_size", "", "'vocab_size' is missing"},
    {"max_position_embeddings", "", "'max_position_embeddings' is missing"},
    {"head_dim", "-8", "'head_dim' must be an integer from 1"},
    {"rms_norm_eps", "0", "'rms_norm_eps' must be a number larger than 0"},
    {"rms_norm_eps", "\"1e-6\"", "'rms_norm_eps' must be a number"},
    {"initializer_range", "-1", "'initializer_range' must be a number"},
    {"rope_theta", "-1e4", "'rope_theta' must be a number"},
    {"norm_topk_prob", "1", "'norm_topk_prob' must be true or false"},
    {"tie_word_embeddings", "\"no\"", "'tie_word_embeddings' must be true"},
    // Sizes that don't fit each other.
    {"head_dim", "7", "'head_dim' = 7 must be even"},
    {"num_key_value_heads", "3", "must divide 'num_attention_heads' = 4"},
    {"num_experts_per_tok", "9", "is more than 'num_experts' = 8"},
    {"max_position_embeddings", "4095", "less than the layout's seq=4096"},
    // Families.
    {"model_type", "", "supported: \"qwen3_moe\""},
    {"model_type", "\"mixtral\"", "\"mixtral\" is not supported yet"},
    {"model_type", "3", "'model_type' must be a string"},
    {"architectures", "[\"Qwen3MoeForSequenceClassification\"]",
     "'architectures' must be [\"Qwen3MoeForCausalLM\"]"},
    {"architectures", "\"Qwen3MoeForCausalLM\"", "'architectures' must be"},
    // What is not supported yet.
    {"hidden_act", "\"gelu\"", "'hidden_act' must be \"silu\""},
    {"attention_bias", "true", "biases are not supported yet"},
    {"qkv_bias", "true", "biases are not supported yet"},
    {"attention_dropout", "0.1", "dropout is not supported yet"},
    {"use_qk_norm", "false", "'use_qk_norm' must be true"},
    {"use_sliding_window", "true", "sliding-window attention"},
    {"decoder_sparse_step", "2", "dense layers are not supported yet"},
    {"mlp_only_layers", "[0]", "dense layers are not supported yet"},
    {"shared_expert_intermediate_size", "64", "shared experts"},
    {"output_router_logits", "true", "auxiliary loss is not supported yet"},
    {"quantization_config", "{\"bits\": 8}", "quantized weights"},
    {"is_encoder_decoder", "true", "the family is a decoder"},
    {"rope_scaling", "{\"rope_type\": \"yarn\"}", "'rope_scaling.rope_type'"},
    {"rope_scaling", "{\"factor\": 4.0}", "has a key 'factor'"},
    {"rope_scaling", "\"yarn\"", "'rope_scaling' must be null or an object"},
    {"rope_parameters", "{\"rope_theta\": 0}", "'rope_parameters.rope_theta'"},
    {"torch_dtype", "\"float16\"", "but is \"float16\"; --dtype overrides"},
    {"dtype", "\"auto\"", "but is \"auto\"; --dtype overrides"},
    {"dtype", "32", "'dtype' must be a string"},
};

// Each bad value gives one error, which names the key, and no module.
TEST_F(HuggingFaceTest, BadKeys) {
  for (const BadKey &bad : badKeys) {
    ordered_json config = tinyConfig();
    if (*bad.value)
      config[bad.key] = ordered_json::parse(bad.value);
    else
      config.erase(bad.key);
    Messages messages(&context);
    OwningOpRef<ModuleOp> module = import(config.dump());
    SCOPED_TRACE(std::string(bad.key) + " = " + bad.value);
    EXPECT_FALSE(module);
    ASSERT_EQ(messages.errors.size(), 1u);
    EXPECT_NE(messages.errors[0].find(bad.error), std::string::npos)
        << messages.errors[0];
    EXPECT_TRUE(messages.warnings.empty());
  }
}

// Sizes in range whose products are not.
TEST_F(HuggingFaceTest, HugeModels) {
  const std::pair<std::vector<const char *>, const char *> cases[] = {
      {{"hidden_size", "num_experts", "moe_intermediate_size"},
       "too many parameters"},
      {{"num_hidden_layers", "num_experts", "hidden_size"},
       "too many parameters"},
      {{"num_attention_heads", "head_dim", "hidden_size"},
       "too many parameters"},
      {{"num_experts", "num_experts_per_tok"}, "too many rows"},
  };
  for (const auto &[keys, error] : cases) {
    ordered_json config = tinyConfig();
    for (const char *key : keys)
      config[key] = 1 << 24;
    Messages messages(&context);
    EXPECT_FALSE(import(config.dump()));
    ASSERT_EQ(messages.errors.size(), 1u) << keys[0];
    EXPECT_NE(messages.errors[0].find(error), std::string::npos)
        << messages.errors[0];
  }
}

// Values that change nothing are accepted in silence.
TEST_F(HuggingFaceTest, InertKeys) {
  const std::pair<const char *, const char *> inert[] = {
      {"architectures", "[\"Qwen3MoeForCausalLM\"]"},
      {"hidden_act", "\"silu\""},
      {"attention_bias", "false"},
      {"attention_dropout", "0.0"},
      {"decoder_sparse_step", "1"},
      {"mlp_only_layers", "[]"},
      {"mlp_only_layers", "null"},
      {"use_sliding_window", "false"},
      {"sliding_window", "4096"},
      {"max_window_layers", "28"},
      {"intermediate_size", "96"},
      {"router_aux_loss_coef", "0.001"},
      {"output_router_logits", "false"},
      {"rope_scaling", "null"},
      {"rope_parameters", "{\"rope_type\": \"default\"}"},
      {"shared_expert_intermediate_size", "0"},
      {"use_qk_norm", "true"},
      {"use_cache", "true"},
      {"bos_token_id", "1"},
      {"eos_token_id", "[1, 2]"},
      {"pad_token_id", "null"},
      {"transformers_version", "\"4.51.0\""},
  };
  auto print = [](ModuleOp module) {
    std::string text;
    llvm::raw_string_ostream(text) << module;
    return text;
  };
  Messages messages(&context);
  OwningOpRef<ModuleOp> plain = import(tinyConfig().dump());
  ASSERT_TRUE(plain);
  for (auto [key, value] : inert) {
    ordered_json config = tinyConfig();
    config[key] = ordered_json::parse(value);
    OwningOpRef<ModuleOp> module = import(config.dump());
    ASSERT_TRUE(module) << key;
    EXPECT_EQ(print(*module), print(*plain)) << key;
  }
  EXPECT_TRUE(messages.errors.empty());
  EXPECT_TRUE(messages.warnings.empty());
}

TEST_F(HuggingFaceTest, UnknownKeysAreWarnings) {
  ordered_json config = tinyConfig();
  config["novel_trick"] = true;
  config["line\nbreak"] = 1;
  Messages messages(&context);
  EXPECT_TRUE(import(config.dump()));
  EXPECT_TRUE(messages.errors.empty());
  EXPECT_EQ(messages.warnings, (std::vector<std::string>{
                                   "unknown key \"novel_trick\" is ignored",
                                   "unknown key \"line\\nbreak\" is ignored"}));
}

// Keys with an effect have it.
TEST_F(HuggingFaceTest, Effects) {
  Messages messages(&context);
  auto find = [&](const ordered_json &config) {
    OwningOpRef<ModuleOp> module = import(config.dump());
    EXPECT_TRUE(module);
    return module;
  };
  auto first = [](ModuleOp module, auto tag) {
    decltype(tag) found;
    module.walk([&](decltype(tag) op) {
      if (!found)
        found = op;
    });
    return found;
  };
  ordered_json config = tinyConfig();
  auto module = find(config);
  EXPECT_EQ(first(*module, RopeOp()).getBase().convertToDouble(), 10000);
  EXPECT_EQ(first(*module, RmsNormOp()).getEps().convertToDouble(), 1e-6);
  EXPECT_FALSE(first(*module, RouteOp()).getNormalize());
  EXPECT_TRUE(first(*module, ParamOp()).getType().getElementType().isF32());

  config["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 5e5}};
  config["rms_norm_eps"] = 1e-5;
  config["norm_topk_prob"] = true;
  config["dtype"] = "bfloat16";
  config["head_dim"] = nullptr;
  config["num_attention_heads"] = 8;
  config["num_key_value_heads"] = nullptr;
  module = find(config);
  EXPECT_EQ(first(*module, RopeOp()).getBase().convertToDouble(), 5e5);
  EXPECT_EQ(first(*module, RmsNormOp()).getEps().convertToDouble(), 1e-5);
  EXPECT_TRUE(first(*module, RouteOp()).getNormalize());
  EXPECT_TRUE(first(*module, ParamOp()).getType().getElementType().isBF16());
  EXPECT_EQ(first(*module, AttentionOp()).getHeadDim(), 4u);
  EXPECT_EQ(first(*module, AttentionOp()).getKvHeads(), 8u);

  options.elementKind = ElementKind::F32;
  module = find(config);
  EXPECT_TRUE(first(*module, ParamOp()).getType().getElementType().isF32());
  EXPECT_TRUE(messages.errors.empty());
  EXPECT_TRUE(messages.warnings.empty());
}

// Keys that say one thing twice must agree.
TEST_F(HuggingFaceTest, Conflicts) {
  ordered_json theta = tinyConfig(), dtype = tinyConfig();
  theta["rope_theta"] = 1e6;
  theta["rope_parameters"] = {{"rope_theta", 1e4}};
  dtype["torch_dtype"] = "float32";
  dtype["dtype"] = "bfloat16";
  for (const ordered_json &config : {theta, dtype}) {
    Messages messages(&context);
    EXPECT_FALSE(import(config.dump()));
    ASSERT_EQ(messages.errors.size(), 1u);
    EXPECT_NE(messages.errors[0].find("differ"), std::string::npos);
  }
}

TEST_F(HuggingFaceTest, WrongSyntax) {
  const std::pair<const char *, const char *> cases[] = {
      {"", "not JSON"},
      {"[]", "expected a JSON object"},
      {"null", "expected a JSON object"},
      {"{\"a\": 1,}", "not JSON"},
      {"{\"a\": 1} x", "not JSON"},
      {"{\"a\": NaN}", "not JSON"},
      {"{\"a\": 1e999}", "not JSON"},
      {"{\"a\": \"\xff\"}", "not JSON"},
      {"{\"a\": 1, \"a\": 1}", "key \"a\" is given twice"},
      {"{\"a\": {\"b\": 1, \"b\": 2}}", "key \"b\" is given twice"},
      {"{\"\\u0061\": 1, \"a\": 2}", "key \"a\" is given twice"},
  };
  for (auto [text, error] : cases) {
    Messages messages(&context);
    EXPECT_FALSE(import(text)) << text;
    ASSERT_EQ(messages.errors.size(), 1u) << text;
    EXPECT_NE(messages.errors[0].find(error), std::string::npos)
        << messages.errors[0];
  }
  Messages messages(&context);
  EXPECT_FALSE(import(std::string(1000000, '[')));
  EXPECT_EQ(messages.errors,
            std::vector<std::string>{"nested deeper than 64 levels"});
}

// Errors point at the key, whatever its spelling.
TEST_F(HuggingFaceTest, Places) {
  std::vector<std::pair<unsigned, unsigned>> places;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diag) {
    auto loc = dyn_cast<FileLineColLoc>(diag.getLocation());
    ASSERT_TRUE(loc);
    EXPECT_EQ(loc.getFilename(), "config.json");
    places.emplace_back(loc.getLine(), loc.getColumn());
  });
  std::string text = "{\n  \"a\\\"b\\\\\": 1,\n \"model_type\": 3 }";
  EXPECT_FALSE(import(text));
  EXPECT_EQ(places, (std::vector<std::pair<unsigned, unsigned>>{{3, 2}}));
  places.clear();
  text = "{\n  \"a\\\"b\\\\\": 1,\n \"a\\\"b\\\\\": 3 }";
  EXPECT_FALSE(import(text));
  EXPECT_EQ(places, (std::vector<std::pair<unsigned, unsigned>>{{3, 2}}));
}

// No cut and no changed character crashes, and no module comes with an error.
TEST_F(HuggingFaceTest, DamagedText) {
  ordered_json config = tinyConfig();
  config["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 1e6}};
  config["mlp_only_layers"] = ordered_json::array();
  const std::string text = config.dump(1);
  for (size_t cut = 0; cut < text.size(); ++cut) {
    Messages messages(&context);
    EXPECT_FALSE(import(text.substr(0, cut)));
    EXPECT_EQ(messages.errors.size(), 1u) << text.substr(0, cut);
  }
  for (size_t at = 0; at < text.size(); ++at)
    for (char c : {'\0', '"', '\\', '{', ']', ',', '9', '-', '\xc3'}) {
      std::string damaged = text;
      damaged[at] = c;
      Messages messages(&context);
      bool imported = static_cast<bool>(import(damaged));
      EXPECT_EQ(imported, messages.errors.empty()) << damaged;
    }
}

TEST_F(HuggingFaceTest, Targets) {
  for (const char *bad :
       {"", "h100", "h100x", "h100x0", "h100x-1", "h100x8 ", "H100x8", "a100x8",
        "h100x99999999999999999999", "gb200x1.5"}) {
    options.target = bad;
    Messages messages(&context);
    EXPECT_FALSE(import(tinyConfig().dump())) << bad;
    EXPECT_EQ(messages.errors.size(), 1u) << bad;
  }
  for (const char *good : {"h100x1", "h100x3", "gb200x72"}) {
    options.target = good;
    EXPECT_TRUE(import(tinyConfig().dump())) << good;
  }
}

} // namespace
