#include "Qwen3Moe.h"

#include "llvm/Support/CheckedArithmetic.h"

using namespace mlir;
using namespace mlir::moe;
using nlohmann::json;

/// Largest number of elements: doubles count up to here exactly.
static constexpr int64_t kMostElements = int64_t(1) << 53;

/// The base of the rotary embedding, from either place that may hold it.
static double readRope(ConfigReader &reader) {
  double theta = reader.positive("rope_theta", 10000);
  for (StringRef key : {"rope_scaling", "rope_parameters"}) {
    const json *rope = reader.find(key);
    if (!rope)
      continue;
    if (!rope->is_object()) {
      reader.error(key) << "'" << key << "' must be null or an object";
      continue;
    }
    for (auto &[name, value] : rope->items()) {
      if (name == "rope_type" || name == "type") {
        if (value != "default")
          reader.error(key) << "'" << key << "." << name
                            << "' must be \"default\": scaled rotary "
                               "embeddings are not supported yet";
      } else if (name == "rope_theta") {
        double inner = value.is_number() ? value.get<double>() : 0;
        if (!(inner > 0))
          reader.error(key)
              << "'" << key << ".rope_theta' must be a number larger than 0";
        else if (reader.find("rope_theta") && inner != theta)
          reader.error(key) << "'" << key
                            << ".rope_theta' and 'rope_theta' "
                               "differ";
        theta = inner;
      } else {
        reader.error(key) << "'" << key << "' has a key '" << name
                          << "': scaled rotary embeddings are not supported "
                             "yet";
      }
    }
  }
  return theta;
}

static ElementKind readElementKind(ConfigReader &reader,
                                   std::optional<ElementKind> chosen) {
  std::string old = reader.string("torch_dtype", ""),
              name = reader.string("dtype", old);
  if (!old.empty() && old != name)
    reader.error("dtype") << "'dtype' and 'torch_dtype' differ";
  if (chosen)
    return *chosen;
  if (name == "bfloat16")
    return ElementKind::BF16;
  if (!name.empty() && name != "float32")
    reader.error(reader.find("dtype") ? "dtype" : "torch_dtype")
        << "the model's dtype must be \"float32\" or \"bfloat16\", but is "
        << json(name).dump() << "; --dtype overrides it";
  return ElementKind::F32;
}

/// Keys whose values other than the usual ones change the model, and keys that
/// change nothing here.
static void readFixed(ConfigReader &reader) {
  reader.require("hidden_act", "silu",
                 "other activations are not supported "
                 "yet");
  reader.require("attention_bias", false, "biases are not supported yet");
  reader.require("qkv_bias", false, "biases are not supported yet");
  reader.require("attention_dropout", 0, "dropout is not supported yet");
  reader.require("use_qk_norm", true, "the family norms queries and keys");
  reader.require("use_sliding_window", false,
                 "sliding-window attention is not supported yet");
  reader.require("decoder_sparse_step", 1,
                 "dense layers are not supported yet");
  reader.require("mlp_only_layers", json::array(),
                 "dense layers are not supported yet");
  reader.require("shared_expert_intermediate_size", 0,
                 "shared experts are not supported yet");
  reader.require("output_router_logits", false,
                 "the auxiliary loss is not supported yet");
  reader.require("is_encoder_decoder", false, "the family is a decoder");
  if (reader.find("quantization_config"))
    reader.error("quantization_config")
        << "'quantization_config': quantized weights are not supported yet";
  // Without output_router_logits, the loss has no auxiliary part; without
  // use_sliding_window, there is no window; without dense layers, their width
  // is not used. The others are about generation, files and versions.
  for (StringRef key :
       {"router_aux_loss_coef", "sliding_window", "max_window_layers",
        "intermediate_size", "use_cache", "bos_token_id", "eos_token_id",
        "pad_token_id", "transformers_version", "_name_or_path",
        "_attn_implementation", "return_dict", "output_attentions",
        "output_hidden_states"})
    reader.inert(key);
}

Qwen3MoeConfig Qwen3MoeConfig::read(ConfigReader &reader,
                                    std::optional<ElementKind> elementKind) {
  if (const json *list = reader.find("architectures"))
    if (*list != json::array({"Qwen3MoeForCausalLM"}))
      reader.error("architectures")
          << "'architectures' must be [\"Qwen3MoeForCausalLM\"]: other heads "
             "are not supported";

  Qwen3MoeConfig c;
  c.hiddenSize = reader.size("hidden_size");
  c.layers = reader.size("num_hidden_layers");
  c.heads = reader.size("num_attention_heads");
  c.kvHeads = reader.isNull("num_key_value_heads")
                  ? c.heads
                  : reader.size("num_key_value_heads");
  bool hasHeadDim = reader.find("head_dim");
  c.headDim =
      reader.size("head_dim", std::max<int64_t>(1, c.hiddenSize / c.heads));
  c.experts = reader.size("num_experts");
  c.expertsPerToken = reader.size("num_experts_per_tok");
  c.expertWidth = reader.size("moe_intermediate_size");
  c.vocabulary = reader.size("vocab_size");
  c.maxPositions = reader.size("max_position_embeddings");
  c.normEps = reader.positive("rms_norm_eps", 1e-6);
  c.initializerRange = reader.positive("initializer_range", 0.02);
  c.normalizeTopK = reader.boolean("norm_topk_prob", false);
  c.tiedEmbeddings = reader.boolean("tie_word_embeddings", false);
  c.ropeTheta = readRope(reader);
  c.elementKind = readElementKind(reader, elementKind);
  readFixed(reader);
  reader.warnUnknown();
  if (reader.hasErrors())
    return c;

  if (!hasHeadDim && c.hiddenSize % c.heads != 0)
    reader.error("num_attention_heads")
        << "'num_attention_heads' = " << c.heads
        << " must divide 'hidden_size' = " << c.hiddenSize
        << ", as there is no 'head_dim'";
  else if (c.headDim % 2 != 0)
    reader.error(hasHeadDim ? "head_dim" : "num_attention_heads")
        << "'head_dim' = " << c.headDim
        << " must be even for rotary embeddings";
  if (c.heads % c.kvHeads != 0)
    reader.error("num_key_value_heads")
        << "'num_key_value_heads' = " << c.kvHeads
        << " must divide 'num_attention_heads' = " << c.heads;
  if (c.expertsPerToken > c.experts)
    reader.error("num_experts_per_tok")
        << "'num_experts_per_tok' = " << c.expertsPerToken
        << " is more than 'num_experts' = " << c.experts;
  return c;
}

DictionaryAttr Qwen3MoeConfig::toAttribute(Builder &b) const {
  auto integer = [&](StringRef name, int64_t value) {
    return b.getNamedAttr(name, b.getI64IntegerAttr(value));
  };
  auto number = [&](StringRef name, double value) {
    return b.getNamedAttr(name, b.getF64FloatAttr(value));
  };
  return b.getDictionaryAttr({
      b.getNamedAttr("model_type", b.getStringAttr("qwen3_moe")),
      integer("hidden_size", hiddenSize),
      integer("num_hidden_layers", layers),
      integer("num_attention_heads", heads),
      integer("num_key_value_heads", kvHeads),
      integer("head_dim", headDim),
      integer("num_experts", experts),
      integer("num_experts_per_tok", expertsPerToken),
      integer("moe_intermediate_size", expertWidth),
      integer("vocab_size", vocabulary),
      integer("max_position_embeddings", maxPositions),
      number("rms_norm_eps", normEps),
      number("rope_theta", ropeTheta),
      number("initializer_range", initializerRange),
      b.getNamedAttr("norm_topk_prob", b.getBoolAttr(normalizeTopK)),
      b.getNamedAttr("tie_word_embeddings", b.getBoolAttr(tiedEmbeddings)),
  });
}

LogicalResult mlir::moe::checkSizes(ConfigReader &reader,
                                    const Qwen3MoeConfig &c,
                                    LayoutAttr layout) {
  auto count = [](std::initializer_list<int64_t> factors) {
    int64_t product = 1;
    for (int64_t factor : factors) {
      std::optional<int64_t> next = llvm::checkedMul(product, factor);
      if (!next || *next > kMostElements)
        return false;
      product = *next;
    }
    return true;
  };
  if (layout.getSequence() > c.maxPositions)
    return reader.error("max_position_embeddings")
           << "'max_position_embeddings' = " << c.maxPositions
           << " is less than the layout's seq=" << layout.getSequence();
  int64_t tokens = layout.getTokens();
  if (tokens > std::numeric_limits<int32_t>::max() / c.expertsPerToken)
    return reader.error("num_experts_per_tok")
           << "'num_experts_per_tok' = " << c.expertsPerToken << " copies of "
           << tokens << " tokens of a micro-batch are too many rows";
  // With layers apart, so that the sum over all parameters is exact too.
  int64_t width = c.heads * c.headDim;
  if (!count({c.layers, c.experts, 4, c.hiddenSize, c.expertWidth}) ||
      !count({c.layers, 4, c.hiddenSize, width}) ||
      !count({4, c.hiddenSize, c.vocabulary}) ||
      !count({c.layers, 4, c.experts, c.hiddenSize}))
    return reader.error("hidden_size") << "the model has too many parameters";
  if (!count({tokens, c.vocabulary}) || !count({tokens, width}) ||
      !count({tokens, c.experts}) ||
      !count({tokens, c.expertsPerToken, c.hiddenSize}) ||
      !count({tokens, c.expertsPerToken, 2, c.expertWidth}))
    return reader.error("hidden_size")
           << "a micro-batch of " << tokens << " tokens has too many values";
  return success();
}
