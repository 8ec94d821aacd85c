// Calls, collectives and saved routing pass.
// RUN: moe-opt --moe-verify-kernels %s | FileCheck %s

// CHECK: moe.phase = "kernels"
module attributes {moe.phase = "kernels"} {
moe.kernel @route op "route" {bytes = 1.0 : f64, flops = 1.0 : f64, numbers = {normalize = 1.0 : f64}, numeric_class = #moe<numeric_class row_invariant>} : (tensor<4x8xf32>) -> (tensor<4x2xf32>, tensor<4x2xi32>)
moe.kernel @permutation op "permutation" {bytes = 1.0 : f64, flops = 1.0 : f64, numbers = {}, numeric_class = #moe<numeric_class row_invariant>} : (tensor<4x2xi32>) -> (tensor<4x2xi32>, !moe.rows<8, mean = 8>)
moe.kernel @permute op "permute" {bytes = 1.0 : f64, flops = 1.0 : f64, numbers = {}, numeric_class = #moe<numeric_class row_invariant>} : (tensor<4x8xf32>, tensor<4x2xi32>) -> tensor<8x8xf32>
moe.kernel @unpermute op "unpermute" {bytes = 1.0 : f64, flops = 1.0 : f64, numbers = {}, numeric_class = #moe<numeric_class row_invariant>} : (tensor<8x8xf32>, tensor<4x2xi32>) -> tensor<4x8xf32>
// CHECK-LABEL: moe.layer @l
moe.layer @l(%x: tensor<4x8xf32>) -> tensor<8x8xf32> {
  %p, %e = moe.call @route(%x) module(moe_router) : (tensor<4x8xf32>) -> (tensor<4x2xf32>, tensor<4x2xi32>)
  %map, %rows = moe.call @permutation(%e) module(moe_preprocess) : (tensor<4x2xi32>) -> (tensor<4x2xi32>, !moe.rows<8, mean = 8>)
  %received = moe.exchange_counts %rows over "ep" module(moe_dispatch) : (!moe.rows<8, mean = 8>) -> !moe.rows<8, mean = 8>
  %y = moe.call @permute(%x, %map) module(moe_dispatch) : (tensor<4x8xf32>, tensor<4x2xi32>) -> tensor<8x8xf32>
  // CHECK: moe.backward saved
  moe.backward saved(%x, %map : tensor<4x8xf32>, tensor<4x2xi32>) {
  ^bb0(%dy: tensor<8x8xf32>, %sx: tensor<4x8xf32>, %smap: tensor<4x2xi32>):
    // CHECK: moe.call @permute
    %again = moe.call @permute(%sx, %smap) module(moe_dispatch) : (tensor<4x8xf32>, tensor<4x2xi32>) -> tensor<8x8xf32>
    %dx = moe.call @unpermute(%again, %smap) module(moe_dispatch) : (tensor<8x8xf32>, tensor<4x2xi32>) -> tensor<4x8xf32>
    moe.backward_return %dx : tensor<4x8xf32>
  }
  moe.return %y : tensor<8x8xf32>
}
}
