// Well-formed spmd IR passes; partition.mlir shows the same of whole models.
// RUN: moe-opt --split-input-file --moe-verify-spmd %s | FileCheck %s

// Collectives along dp: an invariant value is used where each rank has its own,
// what is partial is reduced, shards are gathered.
#v = #moe.dist<attention, dp = varying>
#i = #moe.dist<attention, dp = invariant>
#s = #moe.dist<attention, dp = sharded(0)>
#p = #moe.dist<attention, dp = partial_sum>
module attributes {moe.phase = "spmd", moe.layout = #moe.layout<dp = 2, ep = 1, pp = 1, micro_batch = 1, global_batch = 4, seq = 4, capacity = 2.0, layers = [0]>} {
moe.layer @l(%x: tensor<4x8xf32, #v>) {
  %w = moe.param ["w"] dims [hidden] init ones : tensor<8xf32, #i>
  %y = moe.rms_norm %x, %w module(norm) {eps = 1.0e-06 : f64} : (tensor<4x8xf32, #v>, tensor<8xf32, #i>) -> tensor<4x8xf32, #v>
  %sum = moe.all_reduce %y over "dp" module(norm) {reduction = #moe<reduction sum>} : (tensor<4x8xf32, #v>) -> tensor<4x8xf32, #i>
  // CHECK: moe.vary {{.*}} -> tensor<4x8xf32, #attention_dp_varying>
  %own = moe.vary %sum over "dp" module(norm) : (tensor<4x8xf32, #i>) -> tensor<4x8xf32, #v>
  %z = moe.add %x, %own module(residual) : (tensor<4x8xf32, #v>, tensor<4x8xf32, #v>) -> tensor<4x8xf32, #v>
  %part = moe.slice %sum over "dp" module(norm) : (tensor<4x8xf32, #i>) -> tensor<2x8xf32, #s>
  %all = moe.all_gather %part over "dp" module(norm) : (tensor<2x8xf32, #s>) -> tensor<4x8xf32, #i>
  %each = moe.all_gather %part over "dp" module(norm) {varying} : (tensor<2x8xf32, #s>) -> tensor<4x8xf32, #v>
  %sums = moe.reduce_scatter %each over "dp" module(norm) : (tensor<4x8xf32, #v>) -> tensor<2x8xf32, #s>
  %both = moe.add %part, %sums module(residual) : (tensor<2x8xf32, #s>, tensor<2x8xf32, #s>) -> tensor<2x8xf32, #s>
  moe.return
}
moe.model @m(%ids: tensor<4xi32, #v>, %labels: tensor<4xi32, #v>) {
  moe.return
}
}

// -----

// A weight's gradient is a partial sum where the rows vary, whole where they
// don't; two partial sums may be added.
#v = #moe.dist<attention, dp = varying>
#i = #moe.dist<attention, dp = invariant>
#s = #moe.dist<attention, dp = sharded(0)>
#p = #moe.dist<attention, dp = partial_sum>
module attributes {moe.phase = "spmd", moe.layout = #moe.layout<dp = 2, ep = 1, pp = 1, micro_batch = 1, global_batch = 4, seq = 4, capacity = 2.0, layers = [0]>} {
moe.layer @l(%x: tensor<4x8xf32, #v>, %same: tensor<4x8xf32, #i>, %acc: tensor<8x8xf32, #p>, %whole: tensor<8x8xf32, #i>) {
  %a = moe.linear_wgrad %x, %x, %acc module(attn) : (tensor<4x8xf32, #v>, tensor<4x8xf32, #v>, tensor<8x8xf32, #p>) -> tensor<8x8xf32, #p>
  %b = moe.linear_wgrad %same, %same, %whole module(attn) : (tensor<4x8xf32, #i>, tensor<4x8xf32, #i>, tensor<8x8xf32, #i>) -> tensor<8x8xf32, #i>
  // CHECK: moe.add {{.*}} -> tensor<8x8xf32, #attention_dp_partial_sum>
  %c = moe.add %a, %acc module(attn) : (tensor<8x8xf32, #p>, tensor<8x8xf32, #p>) -> tensor<8x8xf32, #p>
  moe.return
}
moe.model @m(%ids: tensor<4xi32, #v>, %labels: tensor<4xi32, #v>) {
  moe.return
}
}
