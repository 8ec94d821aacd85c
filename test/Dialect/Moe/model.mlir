// A small Qwen3-MoE as the importer writes it: hidden 32, 4 heads and 2
// key/value heads of width 8, 8 experts of width 16, top-2, vocabulary 64,
// sequence 16. It parses, verifies and round-trips.
// RUN: moe-opt --moe-verify-model %s | moe-opt | FileCheck %s

// CHECK: moe.phase = "model"
module attributes {
  moe.phase = "model", moe.target = "h100x1",
  moe.layout = #moe.layout<dp = 1, ep = 1, pp = 1, micro_batch = 1, global_batch = 4, seq = 16, capacity = 2.0, layers = [2]>} {

moe.layer @embed(%ids: tensor<16xi32>) -> tensor<16x32xf32> {
  %table = moe.param ["model.embed_tokens.weight"] dims [vocabulary, hidden] init normal : tensor<64x32xf32>
  %x = moe.embedding %table, %ids module(embedding) : (tensor<64x32xf32>, tensor<16xi32>) -> tensor<16x32xf32>
  moe.return %x : tensor<16x32xf32>
}

// CHECK-LABEL: moe.layer @decoder
moe.layer @decoder(%x: tensor<16x32xf32>) -> tensor<16x32xf32> {
  %w_norm1 = moe.param ["model.layers.{i}.input_layernorm.weight"] dims [hidden] init ones : tensor<32xf32>
  %n1 = moe.rms_norm %x, %w_norm1 module(norm) {eps = 1.0e-06 : f64} : (tensor<16x32xf32>, tensor<32xf32>) -> tensor<16x32xf32>
  %wq = moe.param ["model.layers.{i}.self_attn.q_proj.weight"] dims [heads, hidden] init normal : tensor<32x32xf32>
  %q0 = moe.linear %n1, %wq module(attn) : (tensor<16x32xf32>, tensor<32x32xf32>) -> tensor<16x32xf32>
  %wk = moe.param ["model.layers.{i}.self_attn.k_proj.weight"] dims [kv_heads, hidden] init normal : tensor<16x32xf32>
  %k0 = moe.linear %n1, %wk module(attn) : (tensor<16x32xf32>, tensor<16x32xf32>) -> tensor<16x16xf32>
  %wv = moe.param ["model.layers.{i}.self_attn.v_proj.weight"] dims [kv_heads, hidden] init normal : tensor<16x32xf32>
  %v = moe.linear %n1, %wv module(attn) : (tensor<16x32xf32>, tensor<16x32xf32>) -> tensor<16x16xf32>
  %wqn = moe.param ["model.layers.{i}.self_attn.q_norm.weight"] dims [head_dim] init ones : tensor<8xf32>
  %q1 = moe.rms_norm %q0, %wqn module(attn) {eps = 1.0e-06 : f64} : (tensor<16x32xf32>, tensor<8xf32>) -> tensor<16x32xf32>
  %wkn = moe.param ["model.layers.{i}.self_attn.k_norm.weight"] dims [head_dim] init ones : tensor<8xf32>
  %k1 = moe.rms_norm %k0, %wkn module(attn) {eps = 1.0e-06 : f64} : (tensor<16x16xf32>, tensor<8xf32>) -> tensor<16x16xf32>
  %q = moe.rope %q1 module(attn) {base = 1.0e+06 : f64, head_dim = 8 : i64, sequence = 16 : i64} : (tensor<16x32xf32>) -> tensor<16x32xf32>
  %k = moe.rope %k1 module(attn) {base = 1.0e+06 : f64, head_dim = 8 : i64, sequence = 16 : i64} : (tensor<16x16xf32>) -> tensor<16x16xf32>
  %o, %lse = moe.attention %q, %k, %v module(core_attn) {heads = 4 : i64, kv_heads = 2 : i64, head_dim = 8 : i64, sequence = 16 : i64, scale = 3.5355339059327378e-01 : f64} : (tensor<16x32xf32>, tensor<16x16xf32>, tensor<16x16xf32>) -> (tensor<16x32xf32>, tensor<16x4xf32>)
  %wo = moe.param ["model.layers.{i}.self_attn.o_proj.weight"] dims [hidden, heads] init normal : tensor<32x32xf32>
  %a = moe.linear %o, %wo module(attn) : (tensor<16x32xf32>, tensor<32x32xf32>) -> tensor<16x32xf32>
  %h = moe.add %x, %a module(residual) : (tensor<16x32xf32>, tensor<16x32xf32>) -> tensor<16x32xf32>

  %w_norm2 = moe.param ["model.layers.{i}.post_attention_layernorm.weight"] dims [hidden] init ones : tensor<32xf32>
  %n2 = moe.rms_norm %h, %w_norm2 module(norm) {eps = 1.0e-06 : f64} : (tensor<16x32xf32>, tensor<32xf32>) -> tensor<16x32xf32>
  %wg = moe.param ["model.layers.{i}.mlp.gate.weight"] dims [experts, hidden] init normal : tensor<8x32xf32>
  %logits = moe.linear %n2, %wg module(moe_router) : (tensor<16x32xf32>, tensor<8x32xf32>) -> tensor<16x8xf32>
  // CHECK: moe.route %{{.*}} module(moe_router) {normalize}
  %probs, %experts = moe.route %logits module(moe_router) {normalize} : (tensor<16x8xf32>) -> (tensor<16x2xf32>, tensor<16x2xi32>)
  %map, %counts = moe.permutation %experts module(moe_preprocess) : (tensor<16x2xi32>) -> (tensor<16x2xi32>, !moe.rows<8, mean = 32>)
  %px = moe.permute %n2, %map module(moe_dispatch) : (tensor<16x32xf32>, tensor<16x2xi32>) -> tensor<32x32xf32>
  %pp = moe.permute_probs %probs, %map module(moe_dispatch) : (tensor<16x2xf32>, tensor<16x2xi32>) -> tensor<32xf32>
  %w1 = moe.param ["model.layers.{i}.mlp.experts.{e}.gate_proj.weight", "model.layers.{i}.mlp.experts.{e}.up_proj.weight"] dims [experts, gate_up_width, hidden] init normal : tensor<8x32x32xf32>
  %y1 = moe.grouped_linear %px, %w1, %counts module(moe_experts) : (tensor<32x32xf32>, tensor<8x32x32xf32>, !moe.rows<8, mean = 32>) -> tensor<32x32xf32>
  %act = moe.swiglu %y1, %pp, %counts module(moe_act) : (tensor<32x32xf32>, tensor<32xf32>, !moe.rows<8, mean = 32>) -> tensor<32x16xf32>
  %w2 = moe.param ["model.layers.{i}.mlp.experts.{e}.down_proj.weight"] dims [experts, hidden, expert_width] init normal : tensor<8x32x16xf32>
  %y2 = moe.grouped_linear %act, %w2, %counts module(moe_experts) : (tensor<32x16xf32>, tensor<8x32x16xf32>, !moe.rows<8, mean = 32>) -> tensor<32x32xf32>
  %y = moe.unpermute %y2, %map module(moe_combine) : (tensor<32x32xf32>, tensor<16x2xi32>) -> tensor<16x32xf32>
  %out = moe.add %h, %y module(residual) : (tensor<16x32xf32>, tensor<16x32xf32>) -> tensor<16x32xf32>
  moe.return %out : tensor<16x32xf32>
}

moe.layer @head(%h: tensor<16x32xf32>, %labels: tensor<16xi32>) -> tensor<1xf32> {
  %wn = moe.param ["model.norm.weight"] dims [hidden] init ones : tensor<32xf32>
  %n = moe.rms_norm %h, %wn module(head) {eps = 1.0e-06 : f64} : (tensor<16x32xf32>, tensor<32xf32>) -> tensor<16x32xf32>
  %w = moe.param ["lm_head.weight"] dims [vocabulary, hidden] init normal : tensor<64x32xf32>
  %z = moe.linear %n, %w module(head) : (tensor<16x32xf32>, tensor<64x32xf32>) -> tensor<16x64xf32>
  %loss = moe.cross_entropy %z, %labels module(head) {scale = 1.5625e-02 : f64} : (tensor<16x64xf32>, tensor<16xi32>) -> tensor<1xf32>
  moe.return %loss : tensor<1xf32>
}

// CHECK: moe.apply @decoder [0 to 2](%{{.*}}) : (tensor<16x32xf32>) -> tensor<16x32xf32>
moe.model @qwen3_moe(%ids: tensor<16xi32>, %labels: tensor<16xi32>) -> tensor<1xf32> {
  %h0 = moe.apply @embed [0 to 1] (%ids) : (tensor<16xi32>) -> tensor<16x32xf32>
  %h = moe.apply @decoder [0 to 2] (%h0) : (tensor<16x32xf32>) -> tensor<16x32xf32>
  %loss = moe.apply @head [0 to 1] (%h, %labels) : (tensor<16x32xf32>, tensor<16xi32>) -> tensor<1xf32>
  moe.return %loss : tensor<1xf32>
}
}
