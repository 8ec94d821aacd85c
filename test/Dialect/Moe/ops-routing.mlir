// Routing and experts: every op parses, verifies and prints as it is written,
// from the generic form, too. test/Layout/dialects.test sees to it that no op
// and no example of the documentation is missing.
// RUN: moe-opt %s | moe-opt | FileCheck %s
// RUN: moe-opt %s --mlir-print-op-generic | moe-opt | FileCheck %s

// CHECK-LABEL: func.func @route
func.func @route(%logits: tensor<16x8xf32>, %dp: tensor<16x2xf32>) {
  // CHECK: %{{.*}}, %{{.*}} = moe.route %{{.*}} module(moe_router) {normalize} : (tensor<16x8xf32>) -> (tensor<16x2xf32>, tensor<16x2xi32>)
  %p, %e = moe.route %logits module(moe_router) {normalize}
      : (tensor<16x8xf32>) -> (tensor<16x2xf32>, tensor<16x2xi32>)
  // CHECK: moe.route_grad %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} module(moe_router) {normalize} : (tensor<16x8xf32>, tensor<16x2xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
  %dlogits = moe.route_grad %logits, %p, %e, %dp module(moe_router) {normalize}
      : (tensor<16x8xf32>, tensor<16x2xf32>, tensor<16x2xi32>, tensor<16x2xf32>) -> tensor<16x8xf32>
  // CHECK: moe.permutation %{{.*}} module(moe_preprocess) : (tensor<16x2xi32>) -> (tensor<16x2xi32>, !moe.rows<8, mean = 32>)
  %map, %counts = moe.permutation %e module(moe_preprocess)
      : (tensor<16x2xi32>) -> (tensor<16x2xi32>, !moe.rows<8, mean = 32>)
  return
}

// CHECK-LABEL: func.func @permute
func.func @permute(%x: tensor<16x32xf32>, %p: tensor<16x2xf32>, %map: tensor<16x2xi32>) {
  // CHECK: moe.permute %{{.*}}, %{{.*}} module(moe_dispatch) : (tensor<16x32xf32>, tensor<16x2xi32>) -> tensor<32x32xf32>
  %y = moe.permute %x, %map module(moe_dispatch)
      : (tensor<16x32xf32>, tensor<16x2xi32>) -> tensor<32x32xf32>
  // CHECK: moe.unpermute %{{.*}}, %{{.*}} module(moe_combine) : (tensor<32x32xf32>, tensor<16x2xi32>) -> tensor<16x32xf32>
  %z = moe.unpermute %y, %map module(moe_combine)
      : (tensor<32x32xf32>, tensor<16x2xi32>) -> tensor<16x32xf32>
  // CHECK: moe.permute_probs %{{.*}}, %{{.*}} module(moe_dispatch) : (tensor<16x2xf32>, tensor<16x2xi32>) -> tensor<32xf32>
  %pp = moe.permute_probs %p, %map module(moe_dispatch)
      : (tensor<16x2xf32>, tensor<16x2xi32>) -> tensor<32xf32>
  // CHECK: moe.unpermute_probs %{{.*}}, %{{.*}} module(moe_dispatch) : (tensor<32xf32>, tensor<16x2xi32>) -> tensor<16x2xf32>
  %up = moe.unpermute_probs %pp, %map module(moe_dispatch)
      : (tensor<32xf32>, tensor<16x2xi32>) -> tensor<16x2xf32>
  return
}

// CHECK-LABEL: func.func @received_rows
func.func @received_rows(%received: !moe.rows<8, mean = 32>, %x: tensor<64x32xf32>, %p: tensor<64xf32>) {
  // CHECK: moe.local_rows %{{.*}} module(moe_dispatch) : (!moe.rows<8, mean = 32>) -> !moe.rows<4, mean = 32>
  %rows = moe.local_rows %received module(moe_dispatch)
      : (!moe.rows<8, mean = 32>) -> !moe.rows<4, mean = 32>
  // CHECK: moe.sort_chunks %{{.*}}, %{{.*}} module(moe_dispatch) {ranks = 2 : i64} : (tensor<64x32xf32>, !moe.rows<8, mean = 32>) -> tensor<64x32xf32>
  %s = moe.sort_chunks %x, %received module(moe_dispatch) {ranks = 2 : i64}
      : (tensor<64x32xf32>, !moe.rows<8, mean = 32>) -> tensor<64x32xf32>
  // CHECK: moe.sort_chunks %{{.*}}, %{{.*}} module(moe_dispatch) {inverse, ranks = 2 : i64} : (tensor<64xf32>, !moe.rows<8, mean = 32>) -> tensor<64xf32>
  %t = moe.sort_chunks %p, %received module(moe_dispatch) {ranks = 2 : i64, inverse}
      : (tensor<64xf32>, !moe.rows<8, mean = 32>) -> tensor<64xf32>
  return
}

// CHECK-LABEL: func.func @grouped_linear
func.func @grouped_linear(%x: tensor<32x64xf32>, %w: tensor<8x128x64xf32>, %rows: !moe.rows<8, mean = 32>, %dy: tensor<32x128xf32>, %acc: tensor<8x128x64xf32>) {
  // CHECK: moe.grouped_linear %{{.*}}, %{{.*}}, %{{.*}} module(moe_experts) : (tensor<32x64xf32>, tensor<8x128x64xf32>, !moe.rows<8, mean = 32>) -> tensor<32x128xf32>
  %y = moe.grouped_linear %x, %w, %rows module(moe_experts)
      : (tensor<32x64xf32>, tensor<8x128x64xf32>, !moe.rows<8, mean = 32>)
      -> tensor<32x128xf32>
  // CHECK: moe.grouped_linear_dgrad %{{.*}}, %{{.*}}, %{{.*}} module(moe_experts) : (tensor<32x128xf32>, tensor<8x128x64xf32>, !moe.rows<8, mean = 32>) -> tensor<32x64xf32>
  %dx = moe.grouped_linear_dgrad %dy, %w, %rows module(moe_experts)
      : (tensor<32x128xf32>, tensor<8x128x64xf32>, !moe.rows<8, mean = 32>) -> tensor<32x64xf32>
  // CHECK: moe.grouped_linear_wgrad %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} module(moe_experts) : (tensor<32x64xf32>, tensor<32x128xf32>, !moe.rows<8, mean = 32>, tensor<8x128x64xf32>) -> tensor<8x128x64xf32>
  %sum = moe.grouped_linear_wgrad %x, %dy, %rows, %acc module(moe_experts)
      : (tensor<32x64xf32>, tensor<32x128xf32>, !moe.rows<8, mean = 32>, tensor<8x128x64xf32>) -> tensor<8x128x64xf32>
  return
}

// CHECK-LABEL: func.func @swiglu
func.func @swiglu(%x: tensor<32x64xf32>, %p: tensor<32xf32>, %rows: !moe.rows<8, mean = 32>, %dy: tensor<32x32xf32>) {
  // CHECK: moe.swiglu %{{.*}}, %{{.*}}, %{{.*}} module(moe_act) : (tensor<32x64xf32>, tensor<32xf32>, !moe.rows<8, mean = 32>) -> tensor<32x32xf32>
  %y = moe.swiglu %x, %p, %rows module(moe_act)
      : (tensor<32x64xf32>, tensor<32xf32>, !moe.rows<8, mean = 32>) -> tensor<32x32xf32>
  // CHECK: moe.swiglu_grad %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} module(moe_act) : (tensor<32x64xf32>, tensor<32xf32>, tensor<32x32xf32>, !moe.rows<8, mean = 32>) -> (tensor<32x64xf32>, tensor<32xf32>)
  %dx, %dp = moe.swiglu_grad %x, %p, %dy, %rows module(moe_act)
      : (tensor<32x64xf32>, tensor<32xf32>, tensor<32x32xf32>, !moe.rows<8, mean = 32>) -> (tensor<32x64xf32>, tensor<32xf32>)
  return
}
