// Collectives and distributions: every op parses, verifies and prints as it is written,
// from the generic form, too. test/Layout/dialects.test sees to it that no op
// and no example of the documentation is missing.
// RUN: moe-opt %s | moe-opt | FileCheck %s
// RUN: moe-opt %s --mlir-print-op-generic | moe-opt | FileCheck %s

// Distributions print by alias: the grid, and how a value lies on each axis.
// CHECK-DAG: #attention_dp_varying = #moe.dist<attention, dp = varying>
// CHECK-DAG: #attention_dp_sharded0 = #moe.dist<attention, dp = sharded(0)>
// CHECK-DAG: #attention_dp_flat = #moe.dist<attention, dp = flat>
// CHECK-DAG: #attention_dp_partial_max = #moe.dist<attention, dp = partial_max>
// CHECK-DAG: #attention = #moe.dist<attention>
// CHECK-DAG: #experts_ep_varying_edp_varying = #moe.dist<experts, ep = varying, edp = varying>
#varying = #moe.dist<attention, dp = varying>
#sum = #moe.dist<attention, dp = partial_sum>
#invariant = #moe.dist<attention, dp = invariant>
#shard = #moe.dist<attention, dp = sharded(0)>
#experts = #moe.dist<experts, ep = varying, edp = varying>

// CHECK-LABEL: func.func @exchange
func.func @exchange(%c: !moe.rows<8, mean = 32>, %x: tensor<32x16xf32, #varying>) {
  // CHECK: moe.exchange_counts %{{.*}} over "ep" module(moe_dispatch) : (!moe.rows<8, mean = 32>) -> !moe.rows<8, mean = 32>
  %r = moe.exchange_counts %c over "ep" module(moe_dispatch)
      : (!moe.rows<8, mean = 32>) -> !moe.rows<8, mean = 32>
  // CHECK: moe.all_to_all %{{.*}}, %{{.*}}, %{{.*}} over "ep" module(moe_dispatch) : (tensor<32x16xf32, #attention_dp_varying>, !moe.rows<8, mean = 32>, !moe.rows<8, mean = 32>) -> tensor<64x16xf32, #experts_ep_varying_edp_varying>
  %y = moe.all_to_all %x, %c, %r over "ep" module(moe_dispatch)
      : (tensor<32x16xf32, #varying>, !moe.rows<8, mean = 32>, !moe.rows<8, mean = 32>) -> tensor<64x16xf32, #experts>
  return
}

// CHECK-LABEL: func.func @reduce
func.func @reduce(%x: tensor<8x4xf32, #sum>, %m: tensor<8xf32, #moe.dist<attention, dp = partial_max>>) {
  // CHECK: moe.all_reduce %{{.*}} over "dp" module(head) {reduction = #moe<reduction sum>} : (tensor<8x4xf32, #attention_dp_partial_sum>) -> tensor<8x4xf32, #attention_dp_invariant>
  %y = moe.all_reduce %x over "dp" module(head) {reduction = #moe<reduction sum>}
      : (tensor<8x4xf32, #sum>) -> tensor<8x4xf32, #invariant>
  // CHECK: moe.all_reduce %{{.*}} over "dp" module(head) {reduction = #moe<reduction max>}
  %z = moe.all_reduce %m over "dp" module(head) {reduction = #moe<reduction max>}
      : (tensor<8xf32, #moe.dist<attention, dp = partial_max>>) -> tensor<8xf32, #invariant>
  // CHECK: moe.reduce_scatter %{{.*}} over "dp" module(head) : (tensor<8x4xf32, #attention_dp_partial_sum>) -> tensor<4x4xf32, #attention_dp_sharded0>
  %s = moe.reduce_scatter %x over "dp" module(head)
      : (tensor<8x4xf32, #sum>) -> tensor<4x4xf32, #shard>
  return
}

// CHECK-LABEL: func.func @gather
func.func @gather(%x: tensor<4x4xf32, #shard>, %w: tensor<8x4xf32, #invariant>) {
  // CHECK: moe.all_gather %{{.*}} over "dp" module(attn) : (tensor<4x4xf32, #attention_dp_sharded0>) -> tensor<8x4xf32, #attention_dp_invariant>
  %y = moe.all_gather %x over "dp" module(attn)
      : (tensor<4x4xf32, #shard>) -> tensor<8x4xf32, #invariant>
  // CHECK: moe.all_gather %{{.*}} over "dp" module(attn) {varying} : (tensor<4x4xf32, #attention_dp_sharded0>) -> tensor<8x4xf32, #attention_dp_varying>
  %z = moe.all_gather %x over "dp" module(attn) {varying}
      : (tensor<4x4xf32, #shard>) -> tensor<8x4xf32, #varying>
  // CHECK: moe.slice %{{.*}} over "dp" module(attn) : (tensor<8x4xf32, #attention_dp_invariant>) -> tensor<4x4xf32, #attention_dp_sharded0>
  %s = moe.slice %w over "dp" module(attn)
      : (tensor<8x4xf32, #invariant>) -> tensor<4x4xf32, #shard>
  // CHECK: moe.vary %{{.*}} over "dp" module(attn) : (tensor<8x4xf32, #attention_dp_invariant>) -> tensor<8x4xf32, #attention_dp_varying>
  %v = moe.vary %w over "dp" module(attn)
      : (tensor<8x4xf32, #invariant>) -> tensor<8x4xf32, #varying>
  return
}

// CHECK-LABEL: func.func @flat_bucket
// CHECK-SAME: tensor<128xf32, #attention_dp_flat>
// CHECK-SAME: tensor<4xf32, #attention>
func.func @flat_bucket(%shard: tensor<128xf32, #moe.dist<attention, dp = flat>>, %alone: tensor<4xf32, #moe.dist<attention>>) {
  return
}
