// Backward gets a copy of the calls of the named modules, fed from what is
// still saved; several modules are one closure, in either order; routing stays
// saved.
// RUN: moe-opt --moe-recompute=modules=norm %s | FileCheck %s --check-prefix=NORM
// RUN: moe-opt --moe-recompute=modules=moe_act %s | FileCheck %s --check-prefix=ACT
// RUN: moe-opt --moe-recompute=modules=norm,moe %s | FileCheck %s --check-prefix=BOTH
// RUN: moe-opt --moe-recompute=modules=norm,moe %s -o %t.1
// RUN: moe-opt --moe-recompute=modules=moe,layernorm %s | diff %t.1 -
// RUN: moe-opt --moe-recompute=modules=norm,moe %s --remarks-filter=moe 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

// Saved before: 128 + 128 + 32 bytes; then rows, x and map: 32 + 128 + 32.
// REMARK: remark: [Passed] Recompute
// REMARK-SAME: bytesPerMicroBatch=96, layer=l
module attributes {moe.phase = "kernels"} {
moe.kernel @norm op "rms_norm" {bytes = 1.0 : f64, flops = 1.0 : f64, numbers = {}, numeric_class = #moe<numeric_class row_invariant>} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
moe.kernel @gate op "linear" {bytes = 1.0 : f64, flops = 1.0 : f64, numbers = {}, numeric_class = #moe<numeric_class row_invariant>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
moe.kernel @route op "route" {bytes = 1.0 : f64, flops = 1.0 : f64, numbers = {}, numeric_class = #moe<numeric_class row_invariant>} : (tensor<4x8xf32>) -> (tensor<4x2xf32>, tensor<4x2xi32>)
moe.kernel @permutation op "permutation" {bytes = 1.0 : f64, flops = 1.0 : f64, numbers = {}, numeric_class = #moe<numeric_class row_invariant>} : (tensor<4x2xi32>) -> (tensor<4x2xi32>, !moe.rows<8, mean = 8>)
moe.kernel @permute op "permute" {bytes = 1.0 : f64, flops = 1.0 : f64, numbers = {}, numeric_class = #moe<numeric_class row_invariant>} : (tensor<4x8xf32>, tensor<4x2xi32>) -> tensor<8x8xf32>
moe.kernel @act op "swiglu" {bytes = 1.0 : f64, flops = 1.0 : f64, numbers = {}, numeric_class = #moe<numeric_class row_invariant>} : (tensor<8x8xf32>, !moe.rows<8, mean = 8>) -> tensor<8x4xf32>
moe.kernel @dgrad op "linear_dgrad" {bytes = 1.0 : f64, flops = 1.0 : f64, numbers = {}, numeric_class = #moe<numeric_class row_invariant>} : (tensor<8x4xf32>) -> tensor<4x8xf32>
moe.kernel @grad op "linear_wgrad" {accumulates, bytes = 1.0 : f64, flops = 1.0 : f64, numbers = {}, numeric_class = #moe<numeric_class row_invariant>} : (tensor<4x8xf32>, tensor<8x4xf32>, !moe.rows<8, mean = 8>, tensor<8x8xf32>) -> tensor<8x8xf32>
moe.layer @l(%x: tensor<4x8xf32>) -> tensor<8x4xf32> {
  %w = moe.param ["norm"] dims [hidden] init ones : tensor<8xf32>
  %g = moe.param ["gate"] dims [experts, hidden] init normal : tensor<8x8xf32>
  %n = moe.call @norm(%x, %w) module(norm) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %logits = moe.call @gate(%n, %g) module(moe_router) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %p, %e = moe.call @route(%logits) module(moe_router) : (tensor<4x8xf32>) -> (tensor<4x2xf32>, tensor<4x2xi32>)
  %map, %rows = moe.call @permutation(%e) module(moe_preprocess) : (tensor<4x2xi32>) -> (tensor<4x2xi32>, !moe.rows<8, mean = 8>)
  %px = moe.call @permute(%n, %map) module(moe_dispatch) : (tensor<4x8xf32>, tensor<4x2xi32>) -> tensor<8x8xf32>
  %a = moe.call @act(%px, %rows) module(moe_act) : (tensor<8x8xf32>, !moe.rows<8, mean = 8>) -> tensor<8x4xf32>
  // NORM: moe.backward saved(%{{.*}}, %{{.*}}, %[[X:.*]] : tensor<8x4xf32>, !moe.rows<8, mean = 8>, tensor<4x8xf32>)
  // NORM-NEXT: ^bb0(%{{.*}}: tensor<8x4xf32>, %[[A:.*]]: tensor<8x4xf32>, %[[ROWS:.*]]: !moe.rows<8, mean = 8>, %[[SX:.*]]: tensor<4x8xf32>):
  // NORM: %[[W:.*]] = moe.param ["norm"]
  // NORM: %[[N:.*]] = moe.call @norm(%[[SX]], %[[W]]) module(norm)
  // NORM-NEXT: moe.call @grad(%[[N]], %[[A]], %[[ROWS]], %{{.*}})

  // ACT: moe.backward saved(%{{.*}}, %{{.*}}, %{{.*}} : tensor<4x8xf32>, !moe.rows<8, mean = 8>, tensor<8x8xf32>)
  // ACT-NOT: moe.call @permute(
  // ACT: %[[A:.*]] = moe.call @act(%{{.*}}, %{{.*}}) module(moe_act)
  // ACT-NEXT: moe.call @grad(%{{.*}}, %[[A]], %{{.*}}, %{{.*}})

  // BOTH: moe.backward saved(%{{.*}}, %{{.*}}, %{{.*}} : !moe.rows<8, mean = 8>, tensor<4x8xf32>, tensor<4x2xi32>)
  // BOTH: %[[N:.*]] = moe.call @norm(
  // BOTH: %[[PX:.*]] = moe.call @permute(%[[N]], %{{.*}}) module(moe_dispatch)
  // BOTH: %[[A:.*]] = moe.call @act(%[[PX]], %{{.*}}) module(moe_act)
  // BOTH-NOT: moe.call @norm
  // BOTH: moe.call @grad(%[[N]], %[[A]], %{{.*}}, %{{.*}})
  moe.backward saved(%n, %a, %rows : tensor<4x8xf32>, tensor<8x4xf32>, !moe.rows<8, mean = 8>) {
  ^bb0(%dy: tensor<8x4xf32>, %sn: tensor<4x8xf32>, %sa: tensor<8x4xf32>, %srows: !moe.rows<8, mean = 8>):
    %acc = moe.grad ["gate"] : tensor<8x8xf32>
    %gn = moe.grad ["norm"] : tensor<8xf32>
    %dx = moe.call @dgrad(%dy) module(moe_router) : (tensor<8x4xf32>) -> tensor<4x8xf32>
    %sum = moe.call @grad(%sn, %sa, %srows, %acc) module(moe_router) : (tensor<4x8xf32>, tensor<8x4xf32>, !moe.rows<8, mean = 8>, tensor<8x8xf32>) -> tensor<8x8xf32>
    moe.backward_return %dx : tensor<4x8xf32> grads(%sum, %gn : tensor<8x8xf32>, tensor<8xf32>)
  }
  moe.return %a : tensor<8x4xf32>
}
}
