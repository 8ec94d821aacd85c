// Every layer gets a backward that saves each value once, in order of first
// use, and re-declares parameters; cotangents of values with several uses are
// summed; the model becomes a training step.
// RUN: moe-opt --moe-differentiate --moe-verify-training %s \
// RUN:   | moe-opt --moe-verify-training | FileCheck %s

#v = #moe.dist<attention, dp = varying>
#i = #moe.dist<attention, dp = invariant>
#p = #moe.dist<attention, dp = partial_sum>
#ev = #moe.dist<experts, ep = varying>
#es = #moe.dist<experts, ep = sharded(0)>

// CHECK: moe.phase = "training"
module attributes {
  moe.phase = "spmd",
  moe.layout = #moe.layout<dp = 2, ep = 2, pp = 1, micro_batch = 1, global_batch = 8, seq = 4, capacity = 0.0, layers = [3]>} {

// Ids have no cotangent; the table's gradient is partial along dp.
// CHECK-LABEL: moe.layer @embed
moe.layer @embed(%ids: tensor<4xi32, #v>) -> tensor<4x8xf32, #v> {
  %table = moe.param ["embed"] dims [vocabulary, hidden] init normal : tensor<16x8xf32, #i>
  %x = moe.embedding %table, %ids module(embedding) : (tensor<16x8xf32, #i>, tensor<4xi32, #v>) -> tensor<4x8xf32, #v>
  // CHECK: moe.backward saved(%{{.*}} : tensor<4xi32, #attention_dp_varying>) {
  // CHECK-NEXT: ^bb0(%[[D:.*]]: tensor<4x8xf32, #attention_dp_varying>, %[[S:.*]]: tensor<4xi32, #attention_dp_varying>):
  // CHECK-NEXT: %[[G:.*]] = moe.grad ["embed"] : tensor<16x8xf32, #attention_dp_partial_sum>
  // CHECK-NEXT: %[[W:.*]] = moe.embedding_wgrad %[[S]], %[[D]], %[[G]] module(embedding)
  // CHECK-NEXT: moe.backward_return grads(%[[W]] : tensor<16x8xf32, #attention_dp_partial_sum>)
  moe.return %x : tensor<4x8xf32, #v>
}

// CHECK-LABEL: moe.layer @attn
moe.layer @attn(%x: tensor<4x8xf32, #v>) -> tensor<4x8xf32, #v> {
  %wn = moe.param ["{i}.norm"] dims [hidden] init ones : tensor<8xf32, #i>
  // CHECK: %[[N:.*]] = moe.rms_norm
  %n = moe.rms_norm %x, %wn module(norm) {eps = 1.0e-06 : f64} : (tensor<4x8xf32, #v>, tensor<8xf32, #i>) -> tensor<4x8xf32, #v>
  %wq = moe.param ["{i}.q"] dims [heads, hidden] init normal : tensor<8x8xf32, #i>
  %q0 = moe.linear %n, %wq module(attn) : (tensor<4x8xf32, #v>, tensor<8x8xf32, #i>) -> tensor<4x8xf32, #v>
  %wk = moe.param ["{i}.k"] dims [kv_heads, hidden] init normal : tensor<4x8xf32, #i>
  // CHECK: %[[K:.*]] = moe.linear %[[N]], %{{.*}} -> tensor<4x4xf32, #attention_dp_varying>
  %k = moe.linear %n, %wk module(attn) : (tensor<4x8xf32, #v>, tensor<4x8xf32, #i>) -> tensor<4x4xf32, #v>
  // CHECK: %[[Q:.*]] = moe.rope
  %q = moe.rope %q0 module(attn) {base = 1.0e+06 : f64, head_dim = 4 : i64, sequence = 4 : i64} : (tensor<4x8xf32, #v>) -> tensor<4x8xf32, #v>
  // CHECK: %[[O:.*]], %[[LSE:.*]] = moe.attention %[[Q]], %[[K]], %[[K]]
  %o, %lse = moe.attention %q, %k, %k module(core_attn) {heads = 2 : i64, kv_heads = 1 : i64, head_dim = 4 : i64, sequence = 4 : i64, scale = 0.5 : f64} : (tensor<4x8xf32, #v>, tensor<4x4xf32, #v>, tensor<4x4xf32, #v>) -> (tensor<4x8xf32, #v>, tensor<4x2xf32, #v>)
  // The output weight is the query's, used a second time.
  %wo = moe.param ["{i}.q"] dims [heads, hidden] init normal : tensor<8x8xf32, #i>
  %a = moe.linear %o, %wo module(attn) : (tensor<4x8xf32, #v>, tensor<8x8xf32, #i>) -> tensor<4x8xf32, #v>
  %y = moe.add %x, %a module(residual) : (tensor<4x8xf32, #v>, tensor<4x8xf32, #v>) -> tensor<4x8xf32, #v>
  // CHECK: moe.backward saved(%[[O]], %[[Q]], %[[K]], %[[LSE]], %[[N]], %arg0 :
  // CHECK-NEXT: ^bb0(%[[D:[^:]*]]: {{[^%]*}}%[[SO:[^:]*]]: {{[^%]*}}%[[SQ:[^:]*]]: {{[^%]*}}%[[SK:[^:]*]]: {{[^%]*}}%[[SL:[^:]*]]: {{[^%]*}}%[[SN:[^:]*]]: {{[^%]*}}%[[SX:[^:]*]]:
  // CHECK-NEXT: %[[WQ:.*]] = moe.param ["{i}.q"]
  // CHECK-NEXT: %[[WK:.*]] = moe.param ["{i}.k"]
  // CHECK-NEXT: %[[WN:.*]] = moe.param ["{i}.norm"]
  // CHECK-NEXT: %[[GQ:.*]] = moe.grad ["{i}.q"]
  // CHECK-NEXT: %[[GK:.*]] = moe.grad ["{i}.k"]
  // CHECK-NEXT: %[[GN:.*]] = moe.grad ["{i}.norm"]
  // CHECK-NEXT: %[[DO:.*]] = moe.linear_dgrad %[[D]], %[[WQ]] module(attn)
  // CHECK-NEXT: %[[GQ1:.*]] = moe.linear_wgrad %[[SO]], %[[D]], %[[GQ]] module(attn)
  // CHECK-NEXT: %[[DQ:.*]], %[[DK0:.*]], %[[DV:.*]] = moe.attention_grad %[[SQ]], %[[SK]], %[[SK]], %[[SO]], %[[SL]], %[[DO]] module(core_attn)
  // CHECK-NEXT: %[[DK:.*]] = moe.add %[[DK0]], %[[DV]] module(attn)
  // CHECK-NEXT: %[[DQ0:.*]] = moe.rope %[[DQ]] module(attn) {{.*}}inverse
  // CHECK-NEXT: %[[DN1:.*]] = moe.linear_dgrad %[[DK]], %[[WK]]
  // CHECK-NEXT: %[[GK1:.*]] = moe.linear_wgrad %[[SN]], %[[DK]], %[[GK]]
  // CHECK-NEXT: %[[DN2:.*]] = moe.linear_dgrad %[[DQ0]], %[[WQ]]
  // CHECK-NEXT: %[[DN:.*]] = moe.add %[[DN1]], %[[DN2]] module(norm)
  // CHECK-NEXT: %[[GQ2:.*]] = moe.linear_wgrad %[[SN]], %[[DQ0]], %[[GQ1]]
  // CHECK-NEXT: %[[DX1:.*]] = moe.rms_norm_dgrad %[[SX]], %[[WN]], %[[DN]] module(norm)
  // CHECK-NEXT: %[[DX:.*]] = moe.add %[[D]], %[[DX1]] module(residual)
  // CHECK-NEXT: %[[GN1:.*]] = moe.rms_norm_wgrad %[[SX]], %[[DN]], %[[GN]]
  // CHECK-NEXT: moe.backward_return %[[DX]] : {{.*}} grads(%[[GQ2]], %[[GK1]], %[[GN1]] :
  moe.return %y : tensor<4x8xf32, #v>
}

// Routing is saved; exchanges go back; expert weights stay sharded.
// CHECK-LABEL: moe.layer @moe
moe.layer @moe(%x: tensor<4x8xf32, #v>) -> tensor<4x8xf32, #v> {
  %wg = moe.param ["{i}.gate"] dims [experts, hidden] init normal : tensor<4x8xf32, #i>
  // CHECK: %[[LOGITS:.*]] = moe.linear
  %logits = moe.linear %x, %wg module(moe_router) : (tensor<4x8xf32, #v>, tensor<4x8xf32, #i>) -> tensor<4x4xf32, #v>
  // CHECK: %[[PROBS:.*]], %[[E:.*]] = moe.route
  %probs, %experts = moe.route %logits module(moe_router) {normalize} : (tensor<4x4xf32, #v>) -> (tensor<4x2xf32, #v>, tensor<4x2xi32, #v>)
  // CHECK: %[[MAP:.*]], %[[SEND:.*]] = moe.permutation
  %map, %send = moe.permutation %experts module(moe_preprocess) : (tensor<4x2xi32, #v>) -> (tensor<4x2xi32, #v>, !moe.rows<4, mean = 8>)
  // CHECK: %[[RECV:.*]] = moe.exchange_counts
  %recv = moe.exchange_counts %send over "ep" module(moe_preprocess) : (!moe.rows<4, mean = 8>) -> !moe.rows<4, mean = 8>
  // CHECK: %[[ROWS:.*]] = moe.local_rows
  %rows = moe.local_rows %recv module(moe_preprocess) : (!moe.rows<4, mean = 8>) -> !moe.rows<2, mean = 8>
  %px = moe.permute %x, %map module(moe_dispatch) : (tensor<4x8xf32, #v>, tensor<4x2xi32, #v>) -> tensor<8x8xf32, #v>
  %pp = moe.permute_probs %probs, %map module(moe_dispatch) : (tensor<4x2xf32, #v>, tensor<4x2xi32, #v>) -> tensor<8xf32, #v>
  %rx = moe.all_to_all %px, %send, %recv over "ep" module(moe_dispatch) : (tensor<8x8xf32, #v>, !moe.rows<4, mean = 8>, !moe.rows<4, mean = 8>) -> tensor<16x8xf32, #ev>
  %rp = moe.all_to_all %pp, %send, %recv over "ep" module(moe_dispatch) : (tensor<8xf32, #v>, !moe.rows<4, mean = 8>, !moe.rows<4, mean = 8>) -> tensor<16xf32, #ev>
  // CHECK: %[[SX:.*]] = moe.sort_chunks {{.*}}16x8
  %sx = moe.sort_chunks %rx, %recv module(moe_dispatch) {ranks = 2 : i64} : (tensor<16x8xf32, #ev>, !moe.rows<4, mean = 8>) -> tensor<16x8xf32, #ev>
  // CHECK: %[[SP:.*]] = moe.sort_chunks
  %sp = moe.sort_chunks %rp, %recv module(moe_dispatch) {ranks = 2 : i64} : (tensor<16xf32, #ev>, !moe.rows<4, mean = 8>) -> tensor<16xf32, #ev>
  %w1 = moe.param ["{i}.{e}.gate", "{i}.{e}.up"] dims [experts, gate_up_width, hidden] init normal : tensor<2x8x8xf32, #es>
  // CHECK: %[[Y1:.*]] = moe.grouped_linear
  %y1 = moe.grouped_linear %sx, %w1, %rows module(moe_experts) : (tensor<16x8xf32, #ev>, tensor<2x8x8xf32, #es>, !moe.rows<2, mean = 8>) -> tensor<16x8xf32, #ev>
  // CHECK: %[[A:.*]] = moe.swiglu
  %a = moe.swiglu %y1, %sp, %rows module(moe_act) : (tensor<16x8xf32, #ev>, tensor<16xf32, #ev>, !moe.rows<2, mean = 8>) -> tensor<16x4xf32, #ev>
  %w2 = moe.param ["{i}.{e}.down"] dims [experts, hidden, expert_width] init normal : tensor<2x8x4xf32, #es>
  %y2 = moe.grouped_linear %a, %w2, %rows module(moe_experts) : (tensor<16x4xf32, #ev>, tensor<2x8x4xf32, #es>, !moe.rows<2, mean = 8>) -> tensor<16x8xf32, #ev>
  %u = moe.sort_chunks %y2, %recv module(moe_combine) {inverse, ranks = 2 : i64} : (tensor<16x8xf32, #ev>, !moe.rows<4, mean = 8>) -> tensor<16x8xf32, #ev>
  %b = moe.all_to_all %u, %recv, %send over "ep" module(moe_combine) : (tensor<16x8xf32, #ev>, !moe.rows<4, mean = 8>, !moe.rows<4, mean = 8>) -> tensor<8x8xf32, #v>
  %y = moe.unpermute %b, %map module(moe_combine) : (tensor<8x8xf32, #v>, tensor<4x2xi32, #v>) -> tensor<4x8xf32, #v>
  // CHECK: moe.backward saved(%[[MAP]], %[[SEND]], %[[RECV]], %[[ROWS]], %[[A]], %[[Y1]], %[[SP]], %[[SX]], %[[LOGITS]], %[[PROBS]], %[[E]], %arg0 :
  // CHECK: moe.grad ["{i}.{e}.down"] : tensor<2x8x4xf32, #experts_ep_sharded0>
  // CHECK: moe.permute
  // CHECK-NEXT: moe.all_to_all
  // CHECK-NEXT: moe.sort_chunks %{{.*}}, %{{.*}} module(moe_combine) {ranks
  // CHECK-NEXT: moe.grouped_linear_dgrad
  // CHECK-NEXT: moe.grouped_linear_wgrad
  // CHECK-NEXT: moe.swiglu_grad
  // CHECK-NEXT: moe.grouped_linear_dgrad
  // CHECK-NEXT: moe.grouped_linear_wgrad
  // CHECK-NEXT: moe.sort_chunks {{.*}} module(moe_dispatch) {inverse
  // CHECK-NEXT: moe.sort_chunks {{.*}} module(moe_dispatch) {inverse
  // CHECK-NEXT: moe.all_to_all
  // CHECK-NEXT: moe.all_to_all
  // CHECK-NEXT: moe.unpermute_probs
  // CHECK-NEXT: moe.unpermute
  // CHECK-NEXT: moe.route_grad
  // CHECK-NEXT: moe.linear_dgrad
  // CHECK-NEXT: moe.add {{.*}} module(residual)
  // CHECK-NEXT: moe.linear_wgrad
  // CHECK-NEXT: moe.backward_return
  moe.return %y : tensor<4x8xf32, #v>
}

// The loss has no cotangent argument; labels are saved.
// CHECK-LABEL: moe.layer @head
moe.layer @head(%h: tensor<4x8xf32, #v>, %labels: tensor<4xi32, #v>) -> tensor<1xf32, #p> {
  %w = moe.param ["head"] dims [vocabulary, hidden] init normal : tensor<16x8xf32, #i>
  // CHECK: %[[Z:.*]] = moe.linear
  %z = moe.linear %h, %w module(head) : (tensor<4x8xf32, #v>, tensor<16x8xf32, #i>) -> tensor<4x16xf32, #v>
  %loss = moe.cross_entropy %z, %labels module(head) {scale = 0.03125 : f64} : (tensor<4x16xf32, #v>, tensor<4xi32, #v>) -> tensor<1xf32, #p>
  // CHECK: moe.backward saved(%[[Z]], %arg1, %arg0 :
  // CHECK-NEXT: ^bb0(%[[SZ:[^:]*]]: {{[^%]*}}%[[SL:[^:]*]]: {{[^%]*}}%[[SH:[^:]*]]:
  // CHECK: moe.cross_entropy_grad %[[SZ]], %[[SL]]
  moe.return %loss : tensor<1xf32, #p>
}

// CHECK-LABEL: moe.train @model {
// CHECK-NEXT: %[[Z0:.*]] = moe.zero_grads[0 to 1] stage 0 : <@embed>
// CHECK-NEXT: %[[Z1:.*]] = moe.zero_grads[0 to 2] stage 0 : <@attn>
// CHECK-NEXT: %[[Z2:.*]] = moe.zero_grads[2 to 3] stage 0 : <@moe>
// CHECK-NEXT: %[[Z3:.*]] = moe.zero_grads[0 to 1] stage 0 : <@head>
// CHECK-NEXT: %{{.*}}, %[[SUMS:.*]]:4 = moe.micro_batches 4 init(%[[Z0]], %[[Z1]], %[[Z2]], %[[Z3]] :
// CHECK-NEXT: ^bb0(%[[IDS:.*]]: tensor<4xi32, #attention_dp_varying>, %[[LABELS:.*]]: tensor<4xi32, #attention_dp_varying>, %[[G0:.*]]: !moe.grads<@embed>, %[[G1:.*]]: !moe.grads<@attn>, %[[G2:.*]]: !moe.grads<@moe>, %[[G3:.*]]: !moe.grads<@head>):
// CHECK-NEXT: %[[H0:.*]]:2 = moe.apply @embed [0 to 1] stage 0(%[[IDS]])
// CHECK-NEXT: %[[H1:.*]]:2 = moe.apply @attn [0 to 2] stage 0(%[[H0]]#0)
// CHECK-NEXT: %[[H2:.*]]:2 = moe.apply @moe [2 to 3] stage 0(%[[H1]]#0)
// CHECK-NEXT: %[[H3:.*]]:2 = moe.apply @head [0 to 1] stage 0(%[[H2]]#0, %[[LABELS]])
// CHECK-NEXT: %[[D3:.*]], %[[S3:.*]] = moe.apply_backward @head [0 to 1] stage 0() saved(%[[H3]]#1 : <@head>) grads(%[[G3]] :
// CHECK-NEXT: %[[D2:.*]], %[[S2:.*]] = moe.apply_backward @moe [2 to 3] stage 0(%[[D3]]) saved(%[[H2]]#1 : <@moe>) grads(%[[G2]] :
// CHECK-NEXT: %[[D1:.*]], %[[S1:.*]] = moe.apply_backward @attn [0 to 2] stage 0(%[[D2]]) saved(%[[H1]]#1 : <@attn>) grads(%[[G1]] :
// CHECK-NEXT: %[[S0:.*]] = moe.apply_backward @embed [0 to 1] stage 0(%[[D1]]) saved(%[[H0]]#1 : <@embed>) grads(%[[G0]] :
// CHECK-NEXT: moe.yield %[[H3]]#0 : {{.*}} sums(%[[S0]], %[[S1]], %[[S2]], %[[S3]] :
// CHECK-NEXT: } : tensor<1xf32, #attention_dp_invariant>, !moe.grads<@embed>, !moe.grads<@attn>, !moe.grads<@moe>, !moe.grads<@head>
// CHECK-NEXT: moe.optimizer %[[SUMS]]#0, %[[SUMS]]#1, %[[SUMS]]#2, %[[SUMS]]#3
// CHECK-SAME: beta1 = 9.000000e-01 : f64, beta2 = 0.998999{{[0-9]*}} : f64, clip = 0.000000e+00 : f64, eps = 1.000000e-08 : f64, lr = 1.000000e-03 : f64, weight_decay = 0.000000e+00 : f64
moe.model @model(%ids: tensor<4xi32, #v>, %labels: tensor<4xi32, #v>) -> tensor<1xf32, #p> {
  %h0 = moe.apply @embed [0 to 1] stage 0 (%ids) : (tensor<4xi32, #v>) -> tensor<4x8xf32, #v>
  %h1 = moe.apply @attn [0 to 2] stage 0 (%h0) : (tensor<4x8xf32, #v>) -> tensor<4x8xf32, #v>
  %h2 = moe.apply @moe [2 to 3] stage 0 (%h1) : (tensor<4x8xf32, #v>) -> tensor<4x8xf32, #v>
  %loss = moe.apply @head [0 to 1] stage 0 (%h2, %labels) : (tensor<4x8xf32, #v>, tensor<4xi32, #v>) -> tensor<1xf32, #p>
  moe.return %loss : tensor<1xf32, #p>
}
}
