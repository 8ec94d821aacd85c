// Routing, experts and ragged rows: what each verifier rejects, once.
// RUN: moe-opt %s -split-input-file -verify-diagnostics

func.func @f(%x: tensor<16x8xf32>) {
  // expected-error @+1 {{'moe.route' op can't choose 9 of 8 experts}}
  %0, %1 = moe.route %x module(moe_router) : (tensor<16x8xf32>) -> (tensor<16x9xf32>, tensor<16x9xi32>)
  return
}

// -----

func.func @f(%x: tensor<16x8xf32>) {
  // expected-error @+1 {{'moe.route' op experts must be [16, 2], but got [16, 3]}}
  %0, %1 = moe.route %x module(moe_router) : (tensor<16x8xf32>) -> (tensor<16x2xf32>, tensor<16x3xi32>)
  return
}

// -----

func.func @f(%x: tensor<16x8xf32>) {
  // expected-error @+1 {{'moe.route' op probabilities must be [16, any], but got [8, 2]}}
  %0, %1 = moe.route %x module(moe_router) : (tensor<16x8xf32>) -> (tensor<8x2xf32>, tensor<16x2xi32>)
  return
}

// -----

func.func @f(%x: tensor<16x8xf32>, %p: tensor<16x2xf32>, %e: tensor<16x2xi32>, %dp: tensor<16x8xf32>) {
  // expected-error @+1 {{'moe.route_grad' op cotangent must be [16, 2], but got [16, 8]}}
  %0 = moe.route_grad %x, %p, %e, %dp module(moe_router) : (tensor<16x8xf32>, tensor<16x2xf32>, tensor<16x2xi32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  return
}

// -----

func.func @f(%e: tensor<16x2xi32>) {
  // expected-error @+1 {{'moe.permutation' op map must be [16, 2], but got [32]}}
  %0, %1 = moe.permutation %e module(moe_preprocess) : (tensor<16x2xi32>) -> (tensor<32xi32>, !moe.rows<8, mean = 32>)
  return
}

// -----

func.func @f(%x: tensor<16x32xf32>, %m: tensor<8x2xi32>) {
  // expected-error @+1 {{'moe.permute' op map must be [16, any], but got [8, 2]}}
  %0 = moe.permute %x, %m module(moe_dispatch) : (tensor<16x32xf32>, tensor<8x2xi32>) -> tensor<32x32xf32>
  return
}

// -----

func.func @f(%x: tensor<16x32xf32>, %m: tensor<16x2xi32>) {
  // expected-error @+1 {{'moe.permute' op permuted rows must be [32, 32], but got [16, 32]}}
  %0 = moe.permute %x, %m module(moe_dispatch) : (tensor<16x32xf32>, tensor<16x2xi32>) -> tensor<16x32xf32>
  return
}

// -----

func.func @f(%y: tensor<16x32xf32>, %m: tensor<16x2xi32>) {
  // expected-error @+1 {{'moe.unpermute' op permuted rows must be [32, 32], but got [16, 32]}}
  %0 = moe.unpermute %y, %m module(moe_combine) : (tensor<16x32xf32>, tensor<16x2xi32>) -> tensor<16x32xf32>
  return
}

// -----

func.func @f(%p: tensor<16x2xf32>, %m: tensor<16x4xi32>) {
  // expected-error @+1 {{'moe.permute_probs' op map must be [16, 2], but got [16, 4]}}
  %0 = moe.permute_probs %p, %m module(moe_dispatch) : (tensor<16x2xf32>, tensor<16x4xi32>) -> tensor<32xf32>
  return
}

// -----

func.func @f(%p: tensor<16xf32>, %m: tensor<16x2xi32>) {
  // expected-error @+1 {{'moe.unpermute_probs' op input must be [32], but got [16]}}
  %0 = moe.unpermute_probs %p, %m module(moe_dispatch) : (tensor<16xf32>, tensor<16x2xi32>) -> tensor<16x2xf32>
  return
}

// -----

func.func @f(%received: !moe.rows<8, mean = 32>) {
  // expected-error @+1 {{'moe.local_rows' op result groups 3 must divide received groups 8}}
  %0 = moe.local_rows %received module(moe_dispatch) : (!moe.rows<8, mean = 32>) -> !moe.rows<3, mean = 32>
  return
}

// -----

func.func @f(%x: tensor<64x32xf32>, %received: !moe.rows<8, mean = 32>) {
  // expected-error @+1 {{'moe.sort_chunks' op ranks = 3 must divide received groups 8}}
  %0 = moe.sort_chunks %x, %received module(moe_dispatch) {ranks = 3 : i64} : (tensor<64x32xf32>, !moe.rows<8, mean = 32>) -> tensor<64x32xf32>
  return
}

// -----

func.func @f(%x: tensor<32x64xf32>, %w: tensor<4x128x64xf32>, %rows: !moe.rows<8, mean = 32>) {
  // expected-error @+1 {{'moe.grouped_linear' op weight must be [8, any, any], but got [4, 128, 64]}}
  %0 = moe.grouped_linear %x, %w, %rows module(moe_experts) : (tensor<32x64xf32>, tensor<4x128x64xf32>, !moe.rows<8, mean = 32>) -> tensor<32x128xf32>
  return
}

// -----

func.func @f(%x: tensor<32x32xf32>, %w: tensor<8x128x64xf32>, %rows: !moe.rows<8, mean = 32>) {
  // expected-error @+1 {{'moe.grouped_linear' op input rows must be [any, 64], but got [32, 32]}}
  %0 = moe.grouped_linear %x, %w, %rows module(moe_experts) : (tensor<32x32xf32>, tensor<8x128x64xf32>, !moe.rows<8, mean = 32>) -> tensor<32x128xf32>
  return
}

// -----

func.func @f(%dy: tensor<32x128xf32>, %w: tensor<8x128x64xf32>, %rows: !moe.rows<8, mean = 32>) {
  // expected-error @+1 {{'moe.grouped_linear_dgrad' op output rows must be [16, 128], but got [32, 128]}}
  %0 = moe.grouped_linear_dgrad %dy, %w, %rows module(moe_experts) : (tensor<32x128xf32>, tensor<8x128x64xf32>, !moe.rows<8, mean = 32>) -> tensor<16x64xf32>
  return
}

// -----

func.func @f(%x: tensor<32x64xf32>, %dy: tensor<32x128xf32>, %rows: !moe.rows<8, mean = 32>, %a: tensor<8x128x64xbf16>) {
  // expected-error @+1 {{'moe.grouped_linear_wgrad' op accumulator must be f32, but got 'bf16'}}
  %0 = moe.grouped_linear_wgrad %x, %dy, %rows, %a module(moe_experts) : (tensor<32x64xf32>, tensor<32x128xf32>, !moe.rows<8, mean = 32>, tensor<8x128x64xbf16>) -> tensor<8x128x64xbf16>
  return
}

// -----

func.func @f(%x: tensor<32x63xf32>, %p: tensor<32xf32>, %rows: !moe.rows<8, mean = 32>) {
  // expected-error @+1 {{'moe.swiglu' op width 63 must be even}}
  %0 = moe.swiglu %x, %p, %rows module(moe_act) : (tensor<32x63xf32>, tensor<32xf32>, !moe.rows<8, mean = 32>) -> tensor<32x31xf32>
  return
}

// -----

func.func @f(%x: tensor<32x64xf32>, %p: tensor<16xf32>, %rows: !moe.rows<8, mean = 32>) {
  // expected-error @+1 {{'moe.swiglu' op probabilities must be [32], but got [16]}}
  %0 = moe.swiglu %x, %p, %rows module(moe_act) : (tensor<32x64xf32>, tensor<16xf32>, !moe.rows<8, mean = 32>) -> tensor<32x32xf32>
  return
}

// -----

func.func @f(%x: tensor<32x64xf32>, %p: tensor<32xf32>, %dy: tensor<32x32xf32>, %rows: !moe.rows<8, mean = 32>) {
  // expected-error @+1 {{'moe.swiglu_grad' op dinput must be [32, 64], but got [32, 32]}}
  %0, %1 = moe.swiglu_grad %x, %p, %dy, %rows module(moe_act) : (tensor<32x64xf32>, tensor<32xf32>, tensor<32x32xf32>, !moe.rows<8, mean = 32>) -> (tensor<32x32xf32>, tensor<32xf32>)
  return
}

// -----

// expected-error @+1 {{rows need at least one group, but got 0}}
func.func private @f(!moe.rows<0, mean = 32>)

// -----

// expected-error @+1 {{mean must not be negative, but is -1}}
func.func private @f(!moe.rows<8, mean = -1>)
