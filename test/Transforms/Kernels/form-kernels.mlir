// Compute ops become calls of kernels that carry cost, numeric class and
// numbers; equal ops share one kernel; distributions are erased; collectives,
// parameters and module membership stay.
// RUN: moe-opt --moe-form-kernels --moe-verify-kernels %s | FileCheck %s

#own = #moe.dist<attention, dp = varying>
#all = #moe.dist<attention, dp = invariant>
#part = #moe.dist<attention, dp = partial_sum>

// CHECK-NOT: #moe.dist
// CHECK: module attributes {moe.phase = "kernels"}
module attributes {moe.phase = "training"} {
// 2 * 4 * 8 * 8 FLOP; (4 * 8 + 8 * 8 + 4 * 8) * 4 bytes.
// CHECK-DAG: moe.kernel @[[$LINEAR:linear_[0-9]+]] op "linear" {bytes = 5.120000e+02 : f64, flops = 5.120000e+02 : f64, numbers = {}, numeric_class = #moe<numeric_class row_invariant>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
// CHECK-DAG: moe.kernel @[[$TALL:linear_[0-9]+]] op "linear" {{.*}} : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
// CHECK-DAG: moe.kernel @[[$NORM:rms_norm_[0-9]+]] op "rms_norm" {{.*}}numbers = {eps = 1.000000e-05 : f64}
// CHECK-DAG: moe.kernel @[[$LOOSE:rms_norm_[0-9]+]] op "rms_norm" {{.*}}numbers = {eps = 1.000000e-03 : f64}
// CHECK-DAG: moe.kernel @[[$WGRAD:linear_wgrad_[0-9]+]] op "linear_wgrad" {accumulates, {{.*}}numeric_class = #moe<numeric_class deterministic>}

// CHECK-LABEL: moe.layer @l(
// CHECK-SAME: %[[X:.*]]: tensor<4x8xf32>) -> tensor<4x8xf32>
moe.layer @l(%x: tensor<4x8xf32, #own>) -> tensor<4x8xf32, #own> {
  // CHECK: %[[W:.*]] = moe.param ["w"] dims [hidden, hidden] init normal : tensor<8x8xf32>
  %w = moe.param ["w"] dims [hidden, hidden] init normal : tensor<8x8xf32, #all>
  %v = moe.param ["v"] dims [vocabulary, hidden] init normal : tensor<16x8xf32, #all>
  %n = moe.param ["n"] dims [hidden] init ones : tensor<8xf32, #all>
  // CHECK: %[[A:.*]] = moe.call @[[$LINEAR]](%[[X]], %[[W]]) module(attn)
  %a = moe.linear %x, %w module(attn) : (tensor<4x8xf32, #own>, tensor<8x8xf32, #all>) -> tensor<4x8xf32, #own>
  // The same kernel in another module.
  // CHECK: %[[B:.*]] = moe.call @[[$LINEAR]](%[[A]], %[[W]]) module(moe_router)
  %b = moe.linear %a, %w module(moe_router) : (tensor<4x8xf32, #own>, tensor<8x8xf32, #all>) -> tensor<4x8xf32, #own>
  // Other shapes or numbers: another kernel.
  // CHECK: moe.call @[[$TALL]](%[[B]], %{{.*}}) module(attn)
  %c = moe.linear %b, %v module(attn) : (tensor<4x8xf32, #own>, tensor<16x8xf32, #all>) -> tensor<4x16xf32, #own>
  // CHECK: moe.call @[[$NORM]](%[[B]], %{{.*}}) module(norm)
  %d = moe.rms_norm %b, %n module(norm) {eps = 1.0e-5 : f64} : (tensor<4x8xf32, #own>, tensor<8xf32, #all>) -> tensor<4x8xf32, #own>
  // CHECK: moe.call @[[$LOOSE]](%{{.*}}, %{{.*}}) module(norm)
  %e = moe.rms_norm %d, %n module(norm) {eps = 1.0e-3 : f64} : (tensor<4x8xf32, #own>, tensor<8xf32, #all>) -> tensor<4x8xf32, #own>
  // CHECK: moe.backward saved(%[[X]] : tensor<4x8xf32>) {
  moe.backward saved(%x : tensor<4x8xf32, #own>) {
  ^bb0(%dy: tensor<4x8xf32, #own>, %sx: tensor<4x8xf32, #own>):
    // CHECK: %[[G:.*]] = moe.grad ["w"] : tensor<8x8xf32>
    %g = moe.grad ["w"] : tensor<8x8xf32, #part>
    %gv = moe.grad ["v"] : tensor<16x8xf32, #part>
    %gn = moe.grad ["n"] : tensor<8xf32, #part>
    // CHECK: moe.call @[[$WGRAD]](%{{.*}}, %{{.*}}, %[[G]]) module(attn)
    %g1 = moe.linear_wgrad %sx, %dy, %g module(attn) : (tensor<4x8xf32, #own>, tensor<4x8xf32, #own>, tensor<8x8xf32, #part>) -> tensor<8x8xf32, #part>
    moe.backward_return %dy : tensor<4x8xf32, #own> grads(%g1, %gv, %gn : tensor<8x8xf32, #part>, tensor<16x8xf32, #part>, tensor<8xf32, #part>)
  }
  moe.return %e : tensor<4x8xf32, #own>
}
// CHECK-LABEL: moe.layer @collective
moe.layer @collective(%c: !moe.rows<8, mean = 32>) -> !moe.rows<8, mean = 32> {
  // CHECK: moe.exchange_counts %{{.*}} over "ep" module(moe_dispatch)
  %r = moe.exchange_counts %c over "ep" module(moe_dispatch) : (!moe.rows<8, mean = 32>) -> !moe.rows<8, mean = 32>
  moe.return %r : !moe.rows<8, mean = 32>
}
}
