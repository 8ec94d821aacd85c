// Dense math: every op parses, verifies and prints as it is written,
// from the generic form, too. test/Layout/dialects.test sees to it that no op
// and no example of the documentation is missing.
// RUN: moe-opt %s | moe-opt | FileCheck %s
// RUN: moe-opt %s --mlir-print-op-generic | moe-opt | FileCheck %s

// CHECK-LABEL: func.func @embedding
func.func @embedding(%table: tensor<64x32xf32>, %ids: tensor<16xi32>, %dy: tensor<16x32xf32>, %acc: tensor<64x32xf32>) {
  // CHECK: moe.embedding %{{.*}}, %{{.*}} module(embedding) : (tensor<64x32xf32>, tensor<16xi32>) -> tensor<16x32xf32>
  %y = moe.embedding %table, %ids module(embedding)
      : (tensor<64x32xf32>, tensor<16xi32>) -> tensor<16x32xf32>
  // CHECK: moe.embedding_wgrad %{{.*}}, %{{.*}}, %{{.*}} module(embedding) : (tensor<16xi32>, tensor<16x32xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
  %sum = moe.embedding_wgrad %ids, %dy, %acc module(embedding)
      : (tensor<16xi32>, tensor<16x32xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
  return
}

// CHECK-LABEL: func.func @rms_norm
func.func @rms_norm(%x: tensor<16x32xf32>, %w: tensor<32xf32>, %dy: tensor<16x32xf32>, %acc: tensor<32xf32>) {
  // CHECK: moe.rms_norm %{{.*}}, %{{.*}} module(norm) {eps = 9.9999999999999995E-7 : f64} : (tensor<16x32xf32>, tensor<32xf32>) -> tensor<16x32xf32>
  %y = moe.rms_norm %x, %w module(norm) {eps = 1.0e-06 : f64}
      : (tensor<16x32xf32>, tensor<32xf32>) -> tensor<16x32xf32>
  // CHECK: moe.rms_norm_dgrad %{{.*}}, %{{.*}}, %{{.*}} module(norm) {eps = {{.*}} : f64} : (tensor<16x32xf32>, tensor<32xf32>, tensor<16x32xf32>) -> tensor<16x32xf32>
  %dx = moe.rms_norm_dgrad %x, %w, %dy module(norm) {eps = 1.0e-06 : f64}
      : (tensor<16x32xf32>, tensor<32xf32>, tensor<16x32xf32>) -> tensor<16x32xf32>
  // CHECK: moe.rms_norm_wgrad %{{.*}}, %{{.*}}, %{{.*}} module(norm) {eps = {{.*}} : f64} : (tensor<16x32xf32>, tensor<16x32xf32>, tensor<32xf32>) -> tensor<32xf32>
  %sum = moe.rms_norm_wgrad %x, %dy, %acc module(norm) {eps = 1.0e-06 : f64}
      : (tensor<16x32xf32>, tensor<16x32xf32>, tensor<32xf32>) -> tensor<32xf32>
  return
}

// Several runs of a row: the norm of the heads.
// CHECK-LABEL: func.func @rms_norm_of_heads
func.func @rms_norm_of_heads(%x: tensor<16x32xf32>, %w: tensor<8xf32>) {
  // CHECK: moe.rms_norm {{.*}} : (tensor<16x32xf32>, tensor<8xf32>) -> tensor<16x32xf32>
  %y = moe.rms_norm %x, %w module(attn) {eps = 1.0e-06 : f64}
      : (tensor<16x32xf32>, tensor<8xf32>) -> tensor<16x32xf32>
  return
}

// CHECK-LABEL: func.func @linear
func.func @linear(%x: tensor<16x32xf32>, %w: tensor<64x32xf32>, %dy: tensor<16x64xf32>, %acc: tensor<64x32xf32>) {
  // CHECK: moe.linear %{{.*}}, %{{.*}} module(attn) : (tensor<16x32xf32>, tensor<64x32xf32>) -> tensor<16x64xf32>
  %y = moe.linear %x, %w module(attn)
      : (tensor<16x32xf32>, tensor<64x32xf32>) -> tensor<16x64xf32>
  // CHECK: moe.linear_dgrad %{{.*}}, %{{.*}} module(attn) : (tensor<16x64xf32>, tensor<64x32xf32>) -> tensor<16x32xf32>
  %dx = moe.linear_dgrad %dy, %w module(attn)
      : (tensor<16x64xf32>, tensor<64x32xf32>) -> tensor<16x32xf32>
  // CHECK: moe.linear_wgrad %{{.*}}, %{{.*}}, %{{.*}} module(attn) : (tensor<16x32xf32>, tensor<16x64xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
  %sum = moe.linear_wgrad %x, %dy, %acc module(attn)
      : (tensor<16x32xf32>, tensor<16x64xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
  return
}

// CHECK-LABEL: func.func @rope
func.func @rope(%x: tensor<16x32xf32>) {
  // CHECK: moe.rope %{{.*}} module(attn) {base = 1.000000e+06 : f64, head_dim = 8 : i64, sequence = 16 : i64} : (tensor<16x32xf32>) -> tensor<16x32xf32>
  %y = moe.rope %x module(attn)
      {base = 1.0e+06 : f64, head_dim = 8 : i64, sequence = 16 : i64}
      : (tensor<16x32xf32>) -> tensor<16x32xf32>
  // CHECK: moe.rope %{{.*}} module(attn) {base = 1.000000e+06 : f64, head_dim = 8 : i64, inverse, sequence = 16 : i64}
  %dx = moe.rope %y module(attn)
      {base = 1.0e+06 : f64, head_dim = 8 : i64, sequence = 16 : i64, inverse}
      : (tensor<16x32xf32>) -> tensor<16x32xf32>
  return
}

// CHECK-LABEL: func.func @attention
func.func @attention(%q: tensor<16x32xf32>, %k: tensor<16x16xf32>, %v: tensor<16x16xf32>, %do: tensor<16x32xf32>) {
  // CHECK: %{{.*}}, %{{.*}} = moe.attention %{{.*}}, %{{.*}}, %{{.*}} module(core_attn) {head_dim = 8 : i64, heads = 4 : i64, kv_heads = 2 : i64, scale = 2.500000e-01 : f64, sequence = 16 : i64} : (tensor<16x32xf32>, tensor<16x16xf32>, tensor<16x16xf32>) -> (tensor<16x32xf32>, tensor<16x4xf32>)
  %o, %lse = moe.attention %q, %k, %v module(core_attn)
      {heads = 4 : i64, kv_heads = 2 : i64, head_dim = 8 : i64, sequence = 16 : i64, scale = 0.25 : f64}
      : (tensor<16x32xf32>, tensor<16x16xf32>, tensor<16x16xf32>) -> (tensor<16x32xf32>, tensor<16x4xf32>)
  // CHECK: %{{.*}}, %{{.*}}, %{{.*}} = moe.attention_grad {{.*}} module(core_attn) {{.*}} -> (tensor<16x32xf32>, tensor<16x16xf32>, tensor<16x16xf32>)
  %dq, %dk, %dv = moe.attention_grad %q, %k, %v, %o, %lse, %do module(core_attn)
      {heads = 4 : i64, kv_heads = 2 : i64, head_dim = 8 : i64, sequence = 16 : i64, scale = 0.25 : f64}
      : (tensor<16x32xf32>, tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x32xf32>, tensor<16x4xf32>, tensor<16x32xf32>)
      -> (tensor<16x32xf32>, tensor<16x16xf32>, tensor<16x16xf32>)
  return
}

// CHECK-LABEL: func.func @add
func.func @add(%a: tensor<16x32xbf16>, %b: tensor<16x32xbf16>) {
  // CHECK: moe.add %{{.*}}, %{{.*}} module(residual) : (tensor<16x32xbf16>, tensor<16x32xbf16>) -> tensor<16x32xbf16>
  %c = moe.add %a, %b module(residual)
      : (tensor<16x32xbf16>, tensor<16x32xbf16>) -> tensor<16x32xbf16>
  return
}

// CHECK-LABEL: func.func @cross_entropy
func.func @cross_entropy(%z: tensor<16x64xf32>, %labels: tensor<16xi32>) {
  // CHECK: moe.cross_entropy %{{.*}}, %{{.*}} module(head) {scale = 6.250000e-02 : f64} : (tensor<16x64xf32>, tensor<16xi32>) -> tensor<1xf32>
  %loss = moe.cross_entropy %z, %labels module(head) {scale = 6.25e-02 : f64}
      : (tensor<16x64xf32>, tensor<16xi32>) -> tensor<1xf32>
  // CHECK: moe.cross_entropy_grad %{{.*}}, %{{.*}} module(head) {scale = 6.250000e-02 : f64} : (tensor<16x64xf32>, tensor<16xi32>) -> tensor<16x64xf32>
  %dz = moe.cross_entropy_grad %z, %labels module(head) {scale = 6.25e-02 : f64}
      : (tensor<16x64xf32>, tensor<16xi32>) -> tensor<16x64xf32>
  return
}
