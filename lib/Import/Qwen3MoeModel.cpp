//===- Qwen3MoeModel.cpp - Model IR of the qwen3_moe family ---------------===//
//
// Grouped-query attention with norms on query and key heads, then a dropless
// softmax top-k router over gated experts.
//
//===----------------------------------------------------------------------===//

#include "Qwen3Moe.h"

#include "dialects/Moe/MoeOps.h"

#include <cmath>

using namespace mlir;
using namespace mlir::moe;

namespace {

/// Builds ops inside one layer; each gets the location `<prefix><name>`.
struct LayerBuilder {
  const Qwen3MoeConfig &config;
  LayoutAttr layout;
  OpBuilder b;
  std::string prefix;
  Type element;

  LayerBuilder(ModuleOp module, const Qwen3MoeConfig &config, LayoutAttr layout)
      : config(config), layout(layout), b(module.getBodyRegion()) {
    b.setInsertionPointToEnd(module.getBody());
    if (config.elementKind == ElementKind::BF16)
      element = b.getBF16Type();
    else
      element = b.getF32Type();
  }

  Location at(const Twine &name) {
    return NameLoc::get(b.getStringAttr(prefix + name));
  }
  RankedTensorType floats(ArrayRef<int64_t> shape) {
    return RankedTensorType::get(shape, element);
  }
  RankedTensorType integers(ArrayRef<int64_t> shape) {
    return RankedTensorType::get(shape, b.getI32Type());
  }
  int64_t tokens() { return layout.getTokens(); }
  RankedTensorType stream() { return floats({tokens(), config.hiddenSize}); }
  RankedTensorType tokenIds() { return integers({tokens()}); }
  static int64_t columns(Value value) {
    return cast<RankedTensorType>(value.getType()).getDimSize(1);
  }

  /// Opens a layer after the module's other ops.
  LayerOp layer(StringRef name, TypeRange arguments, Type result) {
    auto op =
        LayerOp::create(b, at(""), name, b.getFunctionType(arguments, result));
    b.setInsertionPointToStart(&op.getBody().front());
    return op;
  }
  void close(Value result) {
    ReturnOp::create(b, at(""), result);
    b.setInsertionPointAfter(b.getBlock()->getParentOp());
  }

  Value param(const Twine &at, ArrayRef<StringRef> patterns,
              ArrayRef<DimRole> roles, ArrayRef<int64_t> shape, Init init) {
    SmallVector<Attribute> dims;
    for (DimRole role : roles)
      dims.push_back(DimRoleAttr::get(b.getContext(), role));
    return ParamOp::create(b, this->at(at), floats(shape),
                           b.getStrArrayAttr(patterns), b.getArrayAttr(dims),
                           init);
  }
  /// Norm of each run of `width` columns.
  Value norm(const Twine &at, StringRef pattern, Value x, int64_t width,
             DimRole role, Module module) {
    Value w = param(at, pattern, role, width, Init::Ones);
    return RmsNormOp::create(b, this->at(at), x.getType(), x, w,
                             APFloat(config.normEps), module);
  }
  Value linear(const Twine &at, StringRef pattern, Value x, int64_t rows,
               DimRole rowRole, DimRole columnRole, Module module) {
    Value w = param(at, pattern, {rowRole, columnRole}, {rows, columns(x)},
                    Init::Normal);
    return LinearOp::create(b, this->at(at), floats({tokens(), rows}), x, w,
                            module);
  }
  Value rope(const Twine &at, Value x) {
    return RopeOp::create(b, this->at(at), x.getType(), x, config.headDim,
                          APFloat(config.ropeTheta), layout.getSequence(),
                          /*inverse=*/false, Module::Attn);
  }
  Value add(const Twine &at, Value x, Value y) {
    return AddOp::create(b, this->at(at), x.getType(), x, y, Module::Residual);
  }

  Value attention(Value n);
  Value experts(Value n);
  void embed();
  void decoder();
  void head();
  void model();
};

Value LayerBuilder::attention(Value n) {
  int64_t d = config.headDim, width = config.heads * d,
          kvWidth = config.kvHeads * d;
  const std::string weights = "model." + prefix + "self_attn.";
  auto name = [&](StringRef part) { return weights + part.str() + ".weight"; };
  Value q0 = linear("self_attn.q_proj", name("q_proj"), n, width,
                    DimRole::Heads, DimRole::Hidden, Module::Attn);
  Value k0 = linear("self_attn.k_proj", name("k_proj"), n, kvWidth,
                    DimRole::KvHeads, DimRole::Hidden, Module::Attn);
  Value v = linear("self_attn.v_proj", name("v_proj"), n, kvWidth,
                   DimRole::KvHeads, DimRole::Hidden, Module::Attn);
  Value q1 = norm("self_attn.q_norm", name("q_norm"), q0, d, DimRole::HeadDim,
                  Module::Attn);
  Value k1 = norm("self_attn.k_norm", name("k_norm"), k0, d, DimRole::HeadDim,
                  Module::Attn);
  Value q = rope("self_attn.q_rope", q1), k = rope("self_attn.k_rope", k1);
  auto lse = RankedTensorType::get({tokens(), config.heads}, b.getF32Type());
  auto core = AttentionOp::create(
      b, at("self_attn.core"), floats({tokens(), width}), lse, q, k, v,
      config.heads, config.kvHeads, d, layout.getSequence(),
      APFloat(std::pow(double(d), -0.5)), Module::CoreAttn);
  return linear("self_attn.o_proj", name("o_proj"), core.getOutput(),
                config.hiddenSize, DimRole::Hidden, DimRole::Heads,
                Module::Attn);
}

Value LayerBuilder::experts(Value n) {
  int64_t e = config.experts, k = config.expertsPerToken,
          f = config.expertWidth, h = config.hiddenSize, rows = tokens() * k;
  const std::string weights = "model." + prefix + "mlp.";
  Value logits = linear("mlp.gate", weights + "gate.weight", n, e,
                        DimRole::Experts, DimRole::Hidden, Module::MoeRouter);
  auto route = RouteOp::create(b, at("mlp.route"), floats({tokens(), k}),
                               integers({tokens(), k}), logits,
                               config.normalizeTopK, Module::MoeRouter);
  auto permutation = PermutationOp::create(
      b, at("mlp.permutation"), route.getExperts().getType(),
      RowsType::get(b.getContext(), e, rows), route.getExperts(),
      Module::MoePreprocess);
  Value map = permutation.getMap(), counts = permutation.getCounts();
  Value x = PermuteOp::create(b, at("mlp.dispatch"), floats({rows, h}), n, map,
                              Module::MoeDispatch);
  Value p = PermuteProbsOp::create(b, at("mlp.dispatch_probs"), floats(rows),
                                   route.getProbabilities(), map,
                                   Module::MoeDispatch);
  const std::string stacked = weights + "experts.{e}.";
  const std::string gate = stacked + "gate_proj.weight",
                    up = stacked + "up_proj.weight",
                    down = stacked + "down_proj.weight";
  Value w1 = param("mlp.experts.gate_up_proj", {gate, up},
                   {DimRole::Experts, DimRole::GateUpWidth, DimRole::Hidden},
                   {e, 2 * f, h}, Init::Normal);
  Value y1 = GroupedLinearOp::create(b, at("mlp.experts.gate_up_proj"),
                                     floats({rows, 2 * f}), x, w1, counts,
                                     Module::MoeExperts);
  Value act = SwigluOp::create(b, at("mlp.experts.act"), floats({rows, f}), y1,
                               p, counts, Module::MoeAct);
  Value w2 = param("mlp.experts.down_proj", StringRef(down),
                   {DimRole::Experts, DimRole::Hidden, DimRole::ExpertWidth},
                   {e, h, f}, Init::Normal);
  Value y2 =
      GroupedLinearOp::create(b, at("mlp.experts.down_proj"), floats({rows, h}),
                              act, w2, counts, Module::MoeExperts);
  return UnpermuteOp::create(b, at("mlp.combine"), stream(), y2, map,
                             Module::MoeCombine);
}

constexpr StringLiteral kEmbedding = "model.embed_tokens.weight";

void LayerBuilder::embed() {
  prefix = "embed_tokens";
  LayerOp op = layer("embed", tokenIds(), stream());
  Value table = param("", kEmbedding, {DimRole::Vocabulary, DimRole::Hidden},
                      {config.vocabulary, config.hiddenSize}, Init::Normal);
  close(EmbeddingOp::create(b, at(""), stream(), table, op.getArgument(0),
                            Module::Embedding));
}

void LayerBuilder::decoder() {
  prefix = "layers.{i}";
  LayerOp op = layer("decoder", stream(), stream());
  prefix += ".";
  Value x = op.getArgument(0);
  Value n1 = norm("input_layernorm", "model.layers.{i}.input_layernorm.weight",
                  x, config.hiddenSize, DimRole::Hidden, Module::Norm);
  Value h = add("self_attn.residual", x, attention(n1));
  Value n2 = norm("post_attention_layernorm",
                  "model.layers.{i}.post_attention_layernorm.weight", h,
                  config.hiddenSize, DimRole::Hidden, Module::Norm);
  Value out = add("mlp.residual", h, experts(n2));
  prefix = "layers.{i}";
  close(out);
}

void LayerBuilder::head() {
  prefix = "lm_head";
  auto scalar = RankedTensorType::get(1, b.getF32Type());
  LayerOp op = layer("head", {stream(), tokenIds()}, scalar);
  prefix = "";
  Value n = norm("norm", "model.norm.weight", op.getArgument(0),
                 config.hiddenSize, DimRole::Hidden, Module::Head);
  Value z = linear(
      "lm_head", config.tiedEmbeddings ? kEmbedding : "lm_head.weight", n,
      config.vocabulary, DimRole::Vocabulary, DimRole::Hidden, Module::Head);
  // The loss is the mean over the tokens of the global batch.
  double scale =
      1.0 / (double(layout.getGlobalBatch()) * double(layout.getSequence()));
  Value loss =
      CrossEntropyOp::create(b, at("loss"), scalar, z, op.getArgument(1),
                             APFloat(scale), Module::Head);
  prefix = "lm_head";
  close(loss);
}

void LayerBuilder::model() {
  prefix = "";
  auto scalar = RankedTensorType::get(1, b.getF32Type());
  auto op =
      ModelOp::create(b, at("model"), "qwen3_moe",
                      b.getFunctionType({tokenIds(), tokenIds()}, scalar));
  b.setInsertionPointToStart(&op.getBody().front());
  auto apply = [&](StringRef name, StringRef layer, int64_t count, Type result,
                   ValueRange inputs) {
    return ApplyOp::create(b, at(name), result, layer, 0, count,
                           /*stage=*/IntegerAttr(), inputs)
        .getResult(0);
  };
  Value h0 = apply("embed_tokens", "embed", 1, stream(), op.getArgument(0));
  Value h = apply("layers", "decoder", config.layers, stream(), h0);
  Value loss = apply("lm_head", "head", 1, scalar, {h, op.getArgument(1)});
  ReturnOp::create(b, at("model"), loss);
}

} // namespace

void mlir::moe::buildQwen3Moe(ModuleOp module, const Qwen3MoeConfig &config,
                              LayoutAttr layout) {
  LayerBuilder builder(module, config, layout);
  builder.embed();
  builder.decoder();
  builder.head();
  builder.model();
}
