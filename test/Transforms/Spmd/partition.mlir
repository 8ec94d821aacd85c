// A model is divided over dp, ep and pp; what comes out is well-formed spmd IR.
// RUN: moe-opt --split-input-file --moe-partition --moe-verify-spmd %s | FileCheck %s

// Each of four ranks holds two of eight experts: rows and probabilities are
// exchanged into 2 * 8 rows, computed on in expert-major order and brought back;
// the router and the norm stay where the tokens are.
// CHECK-LABEL: moe.layer @embed(%{{.*}}: tensor<4xi32, #attention_dp_varying>)
// CHECK:         tensor<16x8xf32, #attention_dp_invariant>
// CHECK-LABEL: moe.layer @decoder
// CHECK:         moe.rms_norm {{.*}} -> tensor<4x8xf32, #attention_dp_varying>
// CHECK:         %[[MAP:.*]], %[[COUNTS:.*]] = moe.permutation
// CHECK-SAME:      !moe.rows<8, mean = 8>
// CHECK-NEXT:    %[[RECEIVED:.*]] = moe.exchange_counts %[[COUNTS]] over "ep" module(moe_dispatch)
// CHECK-NEXT:    %[[LOCAL:.*]] = moe.local_rows %[[RECEIVED]] {{.*}} -> !moe.rows<2, mean = 8>
// CHECK-NEXT:    %[[PX:.*]] = moe.permute
// CHECK-NEXT:    %[[PP:.*]] = moe.permute_probs
// CHECK-NEXT:    %[[AX:.*]] = moe.all_to_all %[[PX]], %[[COUNTS]], %[[RECEIVED]] over "ep" module(moe_dispatch)
// CHECK-SAME:      -> tensor<16x8xf32, #experts_ep_varying>
// CHECK-NEXT:    %[[AP:.*]] = moe.all_to_all %[[PP]], %[[COUNTS]], %[[RECEIVED]]
// CHECK-SAME:      -> tensor<16xf32, #experts_ep_varying>
// CHECK-NEXT:    %[[SX:.*]] = moe.sort_chunks %[[AX]], %[[RECEIVED]] module(moe_dispatch) {ranks = 4 : i64}
// CHECK-NEXT:    %[[SP:.*]] = moe.sort_chunks %[[AP]], %[[RECEIVED]]
// CHECK-NEXT:    %[[W1:.*]] = moe.param {{.*}} : tensor<2x6x8xf32, #experts_ep_sharded0>
// CHECK-NEXT:    %[[Y1:.*]] = moe.grouped_linear %[[SX]], %[[W1]], %[[LOCAL]]
// CHECK-SAME:      -> tensor<16x6xf32, #experts_ep_varying>
// CHECK-NEXT:    %[[A:.*]] = moe.swiglu %[[Y1]], %[[SP]], %[[LOCAL]]
// CHECK-NEXT:    moe.param {{.*}} : tensor<2x8x3xf32, #experts_ep_sharded0>
// CHECK-NEXT:    %[[Y2:.*]] = moe.grouped_linear %[[A]]
// CHECK-NEXT:    %[[S2:.*]] = moe.sort_chunks %[[Y2]], %[[RECEIVED]] module(moe_combine) {inverse, ranks = 4 : i64}
// CHECK-NEXT:    %[[B:.*]] = moe.all_to_all %[[S2]], %[[RECEIVED]], %[[COUNTS]] over "ep" module(moe_combine)
// CHECK-SAME:      -> tensor<8x8xf32, #attention_dp_varying>
// CHECK-NEXT:    moe.unpermute %[[B]], %[[MAP]]
// CHECK-LABEL: moe.layer @head
// CHECK:         moe.cross_entropy {{.*}} -> tensor<1xf32, #attention_dp_partial_sum>
// CHECK-LABEL: moe.model @m
// CHECK-SAME:    -> tensor<1xf32, #attention_dp_partial_sum>
// CHECK-NEXT:    moe.apply @embed [0 to 1] stage 0
// CHECK-NEXT:    moe.apply @decoder [0 to 2] stage 0
// CHECK-NEXT:    moe.apply @head [0 to 1] stage 0
module attributes {
  moe.phase = "model",
  moe.layout = #moe.layout<dp = 4, ep = 4, pp = 1, micro_batch = 1, global_batch = 4, seq = 4, capacity = 2.0, layers = [2]>} {
moe.layer @embed(%ids: tensor<4xi32>) -> tensor<4x8xf32> {
  %table = moe.param ["model.embed_tokens.weight"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
  %x = moe.embedding %table, %ids module(embedding) : (tensor<16x8xf32>, tensor<4xi32>) -> tensor<4x8xf32>
  moe.return %x : tensor<4x8xf32>
}
moe.layer @decoder(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %wn = moe.param ["layers.{i}.norm.weight"] dims [hidden] init ones : tensor<8xf32>
  %n = moe.rms_norm %x, %wn module(norm) {eps = 1.0e-06 : f64} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %wg = moe.param ["layers.{i}.mlp.gate.weight"] dims [experts, hidden] init normal : tensor<8x8xf32>
  %logits = moe.linear %n, %wg module(moe_router) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %p, %e = moe.route %logits module(moe_router) {normalize} : (tensor<4x8xf32>) -> (tensor<4x2xf32>, tensor<4x2xi32>)
  %map, %counts = moe.permutation %e module(moe_preprocess) : (tensor<4x2xi32>) -> (tensor<4x2xi32>, !moe.rows<8, mean = 8>)
  %px = moe.permute %n, %map module(moe_dispatch) : (tensor<4x8xf32>, tensor<4x2xi32>) -> tensor<8x8xf32>
  %pp = moe.permute_probs %p, %map module(moe_dispatch) : (tensor<4x2xf32>, tensor<4x2xi32>) -> tensor<8xf32>
  %w1 = moe.param ["layers.{i}.experts.{e}.gate.weight", "layers.{i}.experts.{e}.up.weight"] dims [experts, gate_up_width, hidden] init normal : tensor<8x6x8xf32>
  %y1 = moe.grouped_linear %px, %w1, %counts module(moe_experts) : (tensor<8x8xf32>, tensor<8x6x8xf32>, !moe.rows<8, mean = 8>) -> tensor<8x6xf32>
  %a = moe.swiglu %y1, %pp, %counts module(moe_act) : (tensor<8x6xf32>, tensor<8xf32>, !moe.rows<8, mean = 8>) -> tensor<8x3xf32>
  %w2 = moe.param ["layers.{i}.experts.{e}.down.weight"] dims [experts, hidden, expert_width] init normal : tensor<8x8x3xf32>
  %y2 = moe.grouped_linear %a, %w2, %counts module(moe_experts) : (tensor<8x3xf32>, tensor<8x8x3xf32>, !moe.rows<8, mean = 8>) -> tensor<8x8xf32>
  %y = moe.unpermute %y2, %map module(moe_combine) : (tensor<8x8xf32>, tensor<4x2xi32>) -> tensor<4x8xf32>
  %out = moe.add %x, %y module(residual) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  moe.return %out : tensor<4x8xf32>
}
moe.layer @head(%h: tensor<4x8xf32>, %labels: tensor<4xi32>) -> tensor<1xf32> {
  %w = moe.param ["lm_head.weight"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
  %z = moe.linear %h, %w module(head) : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  %loss = moe.cross_entropy %z, %labels module(head) {scale = 0.0625 : f64} : (tensor<4x16xf32>, tensor<4xi32>) -> tensor<1xf32>
  moe.return %loss : tensor<1xf32>
}
moe.model @m(%ids: tensor<4xi32>, %labels: tensor<4xi32>) -> tensor<1xf32> {
  %h0 = moe.apply @embed [0 to 1] (%ids) : (tensor<4xi32>) -> tensor<4x8xf32>
  %h = moe.apply @decoder [0 to 2] (%h0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %loss = moe.apply @head [0 to 1] (%h, %labels) : (tensor<4x8xf32>, tensor<4xi32>) -> tensor<1xf32>
  moe.return %loss : tensor<1xf32>
}
}

// -----

// With one local expert, what arrives is in expert-major order as it is. The
// factor 2 is over the worst case here: 4 ranks * 4 tokens * min(2, 1) = 16.
// CHECK-LABEL: moe.layer @decoder
// CHECK-NOT:     moe.sort_chunks
// CHECK:         moe.grouped_linear {{.*}} tensor<1x6x8xf32, #experts_ep_sharded0>, !moe.rows<1, mean = 8>) -> tensor<16x6xf32, #experts_ep_varying>
// CHECK-NOT:     moe.sort_chunks
// CHECK-LABEL: moe.layer @head
module attributes {
  moe.phase = "model",
  moe.layout = #moe.layout<dp = 4, ep = 4, pp = 1, micro_batch = 1, global_batch = 4, seq = 4, capacity = 2.0, layers = [2]>} {
moe.layer @embed(%ids: tensor<4xi32>) -> tensor<4x8xf32> {
  %table = moe.param ["model.embed_tokens.weight"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
  %x = moe.embedding %table, %ids module(embedding) : (tensor<16x8xf32>, tensor<4xi32>) -> tensor<4x8xf32>
  moe.return %x : tensor<4x8xf32>
}
moe.layer @decoder(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %wn = moe.param ["layers.{i}.norm.weight"] dims [hidden] init ones : tensor<8xf32>
  %n = moe.rms_norm %x, %wn module(norm) {eps = 1.0e-06 : f64} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %wg = moe.param ["layers.{i}.mlp.gate.weight"] dims [experts, hidden] init normal : tensor<4x8xf32>
  %logits = moe.linear %n, %wg module(moe_router) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x4xf32>
  %p, %e = moe.route %logits module(moe_router) {normalize} : (tensor<4x4xf32>) -> (tensor<4x2xf32>, tensor<4x2xi32>)
  %map, %counts = moe.permutation %e module(moe_preprocess) : (tensor<4x2xi32>) -> (tensor<4x2xi32>, !moe.rows<4, mean = 8>)
  %px = moe.permute %n, %map module(moe_dispatch) : (tensor<4x8xf32>, tensor<4x2xi32>) -> tensor<8x8xf32>
  %pp = moe.permute_probs %p, %map module(moe_dispatch) : (tensor<4x2xf32>, tensor<4x2xi32>) -> tensor<8xf32>
  %w1 = moe.param ["layers.{i}.experts.{e}.gate.weight", "layers.{i}.experts.{e}.up.weight"] dims [experts, gate_up_width, hidden] init normal : tensor<4x6x8xf32>
  %y1 = moe.grouped_linear %px, %w1, %counts module(moe_experts) : (tensor<8x8xf32>, tensor<4x6x8xf32>, !moe.rows<4, mean = 8>) -> tensor<8x6xf32>
  %a = moe.swiglu %y1, %pp, %counts module(moe_act) : (tensor<8x6xf32>, tensor<8xf32>, !moe.rows<4, mean = 8>) -> tensor<8x3xf32>
  %w2 = moe.param ["layers.{i}.experts.{e}.down.weight"] dims [experts, hidden, expert_width] init normal : tensor<4x8x3xf32>
  %y2 = moe.grouped_linear %a, %w2, %counts module(moe_experts) : (tensor<8x3xf32>, tensor<4x8x3xf32>, !moe.rows<4, mean = 8>) -> tensor<8x8xf32>
  %y = moe.unpermute %y2, %map module(moe_combine) : (tensor<8x8xf32>, tensor<4x2xi32>) -> tensor<4x8xf32>
  %out = moe.add %x, %y module(residual) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  moe.return %out : tensor<4x8xf32>
}
moe.layer @head(%h: tensor<4x8xf32>, %labels: tensor<4xi32>) -> tensor<1xf32> {
  %w = moe.param ["lm_head.weight"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
  %z = moe.linear %h, %w module(head) : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  %loss = moe.cross_entropy %z, %labels module(head) {scale = 0.0625 : f64} : (tensor<4x16xf32>, tensor<4xi32>) -> tensor<1xf32>
  moe.return %loss : tensor<1xf32>
}
moe.model @m(%ids: tensor<4xi32>, %labels: tensor<4xi32>) -> tensor<1xf32> {
  %h0 = moe.apply @embed [0 to 1] (%ids) : (tensor<4xi32>) -> tensor<4x8xf32>
  %h = moe.apply @decoder [0 to 2] (%h0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %loss = moe.apply @head [0 to 1] (%h, %labels) : (tensor<4x8xf32>, tensor<4xi32>) -> tensor<1xf32>
  moe.return %loss : tensor<1xf32>
}
}

// -----

// Data parallelism changes distributions only: no collective, no capacity.
// CHECK-LABEL: moe.layer @decoder
// CHECK-NOT:     over "
// CHECK:         moe.grouped_linear {{.*}} (tensor<8x8xf32, #attention_dp_varying>, tensor<4x6x8xf32, #attention_dp_invariant>, !moe.rows<4, mean = 8>)
// CHECK-NOT:     over "
// CHECK-LABEL: moe.layer @head
module attributes {
  moe.phase = "model",
  moe.layout = #moe.layout<dp = 2, ep = 1, pp = 1, micro_batch = 1, global_batch = 4, seq = 4, capacity = 2.0, layers = [2]>} {
moe.layer @embed(%ids: tensor<4xi32>) -> tensor<4x8xf32> {
  %table = moe.param ["model.embed_tokens.weight"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
  %x = moe.embedding %table, %ids module(embedding) : (tensor<16x8xf32>, tensor<4xi32>) -> tensor<4x8xf32>
  moe.return %x : tensor<4x8xf32>
}
moe.layer @decoder(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %wn = moe.param ["layers.{i}.norm.weight"] dims [hidden] init ones : tensor<8xf32>
  %n = moe.rms_norm %x, %wn module(norm) {eps = 1.0e-06 : f64} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %wg = moe.param ["layers.{i}.mlp.gate.weight"] dims [experts, hidden] init normal : tensor<4x8xf32>
  %logits = moe.linear %n, %wg module(moe_router) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x4xf32>
  %p, %e = moe.route %logits module(moe_router) {normalize} : (tensor<4x4xf32>) -> (tensor<4x2xf32>, tensor<4x2xi32>)
  %map, %counts = moe.permutation %e module(moe_preprocess) : (tensor<4x2xi32>) -> (tensor<4x2xi32>, !moe.rows<4, mean = 8>)
  %px = moe.permute %n, %map module(moe_dispatch) : (tensor<4x8xf32>, tensor<4x2xi32>) -> tensor<8x8xf32>
  %pp = moe.permute_probs %p, %map module(moe_dispatch) : (tensor<4x2xf32>, tensor<4x2xi32>) -> tensor<8xf32>
  %w1 = moe.param ["layers.{i}.experts.{e}.gate.weight", "layers.{i}.experts.{e}.up.weight"] dims [experts, gate_up_width, hidden] init normal : tensor<4x6x8xf32>
  %y1 = moe.grouped_linear %px, %w1, %counts module(moe_experts) : (tensor<8x8xf32>, tensor<4x6x8xf32>, !moe.rows<4, mean = 8>) -> tensor<8x6xf32>
  %a = moe.swiglu %y1, %pp, %counts module(moe_act) : (tensor<8x6xf32>, tensor<8xf32>, !moe.rows<4, mean = 8>) -> tensor<8x3xf32>
  %w2 = moe.param ["layers.{i}.experts.{e}.down.weight"] dims [experts, hidden, expert_width] init normal : tensor<4x8x3xf32>
  %y2 = moe.grouped_linear %a, %w2, %counts module(moe_experts) : (tensor<8x3xf32>, tensor<4x8x3xf32>, !moe.rows<4, mean = 8>) -> tensor<8x8xf32>
  %y = moe.unpermute %y2, %map module(moe_combine) : (tensor<8x8xf32>, tensor<4x2xi32>) -> tensor<4x8xf32>
  %out = moe.add %x, %y module(residual) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  moe.return %out : tensor<4x8xf32>
}
moe.layer @head(%h: tensor<4x8xf32>, %labels: tensor<4xi32>) -> tensor<1xf32> {
  %w = moe.param ["lm_head.weight"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
  %z = moe.linear %h, %w module(head) : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  %loss = moe.cross_entropy %z, %labels module(head) {scale = 0.0625 : f64} : (tensor<4x16xf32>, tensor<4xi32>) -> tensor<1xf32>
  moe.return %loss : tensor<1xf32>
}
moe.model @m(%ids: tensor<4xi32>, %labels: tensor<4xi32>) -> tensor<1xf32> {
  %h0 = moe.apply @embed [0 to 1] (%ids) : (tensor<4xi32>) -> tensor<4x8xf32>
  %h = moe.apply @decoder [0 to 2] (%h0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %loss = moe.apply @head [0 to 1] (%h, %labels) : (tensor<4x8xf32>, tensor<4xi32>) -> tensor<1xf32>
  moe.return %loss : tensor<1xf32>
}
}

// -----

// Five layers over two stages. On one rank per stage, no axis is named.
// CHECK-LABEL: moe.layer @decoder(%{{.*}}: tensor<4x8xf32, #attention>)
// CHECK-LABEL: moe.model @m
// CHECK-NEXT:    %[[H0:.*]] = moe.apply @embed [0 to 1] stage 0
// CHECK-NEXT:    %[[H1:.*]] = moe.apply @decoder [0 to 3] stage 0(%[[H0]])
// CHECK-NEXT:    %[[H2:.*]] = moe.apply @decoder [3 to 5] stage 1(%[[H1]])
// CHECK-NEXT:    moe.apply @head [0 to 1] stage 1(%[[H2]]
module attributes {
  moe.phase = "model",
  moe.layout = #moe.layout<dp = 1, ep = 1, pp = 2, micro_batch = 1, global_batch = 4, seq = 4, capacity = 2.0, layers = [3, 2]>} {
moe.layer @embed(%ids: tensor<4xi32>) -> tensor<4x8xf32> {
  %table = moe.param ["model.embed_tokens.weight"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
  %x = moe.embedding %table, %ids module(embedding) : (tensor<16x8xf32>, tensor<4xi32>) -> tensor<4x8xf32>
  moe.return %x : tensor<4x8xf32>
}
moe.layer @decoder(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %wn = moe.param ["layers.{i}.norm.weight"] dims [hidden] init ones : tensor<8xf32>
  %n = moe.rms_norm %x, %wn module(norm) {eps = 1.0e-06 : f64} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %wg = moe.param ["layers.{i}.mlp.gate.weight"] dims [experts, hidden] init normal : tensor<4x8xf32>
  %logits = moe.linear %n, %wg module(moe_router) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x4xf32>
  %p, %e = moe.route %logits module(moe_router) {normalize} : (tensor<4x4xf32>) -> (tensor<4x2xf32>, tensor<4x2xi32>)
  %map, %counts = moe.permutation %e module(moe_preprocess) : (tensor<4x2xi32>) -> (tensor<4x2xi32>, !moe.rows<4, mean = 8>)
  %px = moe.permute %n, %map module(moe_dispatch) : (tensor<4x8xf32>, tensor<4x2xi32>) -> tensor<8x8xf32>
  %pp = moe.permute_probs %p, %map module(moe_dispatch) : (tensor<4x2xf32>, tensor<4x2xi32>) -> tensor<8xf32>
  %w1 = moe.param ["layers.{i}.experts.{e}.gate.weight", "layers.{i}.experts.{e}.up.weight"] dims [experts, gate_up_width, hidden] init normal : tensor<4x6x8xf32>
  %y1 = moe.grouped_linear %px, %w1, %counts module(moe_experts) : (tensor<8x8xf32>, tensor<4x6x8xf32>, !moe.rows<4, mean = 8>) -> tensor<8x6xf32>
  %a = moe.swiglu %y1, %pp, %counts module(moe_act) : (tensor<8x6xf32>, tensor<8xf32>, !moe.rows<4, mean = 8>) -> tensor<8x3xf32>
  %w2 = moe.param ["layers.{i}.experts.{e}.down.weight"] dims [experts, hidden, expert_width] init normal : tensor<4x8x3xf32>
  %y2 = moe.grouped_linear %a, %w2, %counts module(moe_experts) : (tensor<8x3xf32>, tensor<4x8x3xf32>, !moe.rows<4, mean = 8>) -> tensor<8x8xf32>
  %y = moe.unpermute %y2, %map module(moe_combine) : (tensor<8x8xf32>, tensor<4x2xi32>) -> tensor<4x8xf32>
  %out = moe.add %x, %y module(residual) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  moe.return %out : tensor<4x8xf32>
}
moe.layer @head(%h: tensor<4x8xf32>, %labels: tensor<4xi32>) -> tensor<1xf32> {
  %w = moe.param ["lm_head.weight"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
  %z = moe.linear %h, %w module(head) : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  %loss = moe.cross_entropy %z, %labels module(head) {scale = 0.0625 : f64} : (tensor<4x16xf32>, tensor<4xi32>) -> tensor<1xf32>
  moe.return %loss : tensor<1xf32>
}
moe.model @m(%ids: tensor<4xi32>, %labels: tensor<4xi32>) -> tensor<1xf32> {
  %h0 = moe.apply @embed [0 to 1] (%ids) : (tensor<4xi32>) -> tensor<4x8xf32>
  %h = moe.apply @decoder [0 to 5] (%h0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %loss = moe.apply @head [0 to 1] (%h, %labels) : (tensor<4x8xf32>, tensor<4xi32>) -> tensor<1xf32>
  moe.return %loss : tensor<1xf32>
}
}

// -----

// Everything at once, a stage without layers, and the worst case's capacity:
// 2 ranks * 4 tokens * min(2, 2).
// CHECK-LABEL: moe.layer @decoder
// CHECK:         moe.all_to_all {{.*}} -> tensor<16x8xf32, #experts_ep_varying_edp_varying>
// CHECK:         moe.param {{.*}} : tensor<2x6x8xf32, #experts_ep_sharded0_edp_invariant>
// CHECK-LABEL: moe.model @m
// CHECK-NEXT:    moe.apply @embed [0 to 1] stage 0
// CHECK-NEXT:    moe.apply @decoder [0 to 2] stage 0
// CHECK-NEXT:    moe.apply @decoder [2 to 3] stage 2
// CHECK-NEXT:    moe.apply @head [0 to 1] stage 2
module attributes {
  moe.phase = "model",
  moe.layout = #moe.layout<dp = 4, ep = 2, pp = 3, micro_batch = 1, global_batch = 4, seq = 4, capacity = 0.0, layers = [2, 0, 1]>} {
moe.layer @embed(%ids: tensor<4xi32>) -> tensor<4x8xf32> {
  %table = moe.param ["model.embed_tokens.weight"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
  %x = moe.embedding %table, %ids module(embedding) : (tensor<16x8xf32>, tensor<4xi32>) -> tensor<4x8xf32>
  moe.return %x : tensor<4x8xf32>
}
moe.layer @decoder(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %wn = moe.param ["layers.{i}.norm.weight"] dims [hidden] init ones : tensor<8xf32>
  %n = moe.rms_norm %x, %wn module(norm) {eps = 1.0e-06 : f64} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %wg = moe.param ["layers.{i}.mlp.gate.weight"] dims [experts, hidden] init normal : tensor<4x8xf32>
  %logits = moe.linear %n, %wg module(moe_router) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x4xf32>
  %p, %e = moe.route %logits module(moe_router) {normalize} : (tensor<4x4xf32>) -> (tensor<4x2xf32>, tensor<4x2xi32>)
  %map, %counts = moe.permutation %e module(moe_preprocess) : (tensor<4x2xi32>) -> (tensor<4x2xi32>, !moe.rows<4, mean = 8>)
  %px = moe.permute %n, %map module(moe_dispatch) : (tensor<4x8xf32>, tensor<4x2xi32>) -> tensor<8x8xf32>
  %pp = moe.permute_probs %p, %map module(moe_dispatch) : (tensor<4x2xf32>, tensor<4x2xi32>) -> tensor<8xf32>
  %w1 = moe.param ["layers.{i}.experts.{e}.gate.weight", "layers.{i}.experts.{e}.up.weight"] dims [experts, gate_up_width, hidden] init normal : tensor<4x6x8xf32>
  %y1 = moe.grouped_linear %px, %w1, %counts module(moe_experts) : (tensor<8x8xf32>, tensor<4x6x8xf32>, !moe.rows<4, mean = 8>) -> tensor<8x6xf32>
  %a = moe.swiglu %y1, %pp, %counts module(moe_act) : (tensor<8x6xf32>, tensor<8xf32>, !moe.rows<4, mean = 8>) -> tensor<8x3xf32>
  %w2 = moe.param ["layers.{i}.experts.{e}.down.weight"] dims [experts, hidden, expert_width] init normal : tensor<4x8x3xf32>
  %y2 = moe.grouped_linear %a, %w2, %counts module(moe_experts) : (tensor<8x3xf32>, tensor<4x8x3xf32>, !moe.rows<4, mean = 8>) -> tensor<8x8xf32>
  %y = moe.unpermute %y2, %map module(moe_combine) : (tensor<8x8xf32>, tensor<4x2xi32>) -> tensor<4x8xf32>
  %out = moe.add %x, %y module(residual) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  moe.return %out : tensor<4x8xf32>
}
moe.layer @head(%h: tensor<4x8xf32>, %labels: tensor<4xi32>) -> tensor<1xf32> {
  %w = moe.param ["lm_head.weight"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
  %z = moe.linear %h, %w module(head) : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  %loss = moe.cross_entropy %z, %labels module(head) {scale = 0.0625 : f64} : (tensor<4x16xf32>, tensor<4xi32>) -> tensor<1xf32>
  moe.return %loss : tensor<1xf32>
}
moe.model @m(%ids: tensor<4xi32>, %labels: tensor<4xi32>) -> tensor<1xf32> {
  %h0 = moe.apply @embed [0 to 1] (%ids) : (tensor<4xi32>) -> tensor<4x8xf32>
  %h = moe.apply @decoder [0 to 3] (%h0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %loss = moe.apply @head [0 to 1] (%h, %labels) : (tensor<4x8xf32>, tensor<4xi32>) -> tensor<1xf32>
  moe.return %loss : tensor<1xf32>
}
}
