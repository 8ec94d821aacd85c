// Dense math: what each verifier rejects, once.
// RUN: moe-opt %s -split-input-file -verify-diagnostics

func.func @f(%t: tensor<64xf32>, %ids: tensor<16xi32>) {
  // expected-error @+1 {{'moe.embedding' op table must be [any, any], but got [64]}}
  %0 = moe.embedding %t, %ids module(embedding) : (tensor<64xf32>, tensor<16xi32>) -> tensor<16x32xf32>
  return
}

// -----

func.func @f(%t: tensor<64x32xf32>, %ids: tensor<16x1xi32>) {
  // expected-error @+1 {{'moe.embedding' op ids must be [any], but got [16, 1]}}
  %0 = moe.embedding %t, %ids module(embedding) : (tensor<64x32xf32>, tensor<16x1xi32>) -> tensor<16x32xf32>
  return
}

// -----

func.func @f(%t: tensor<64x32xf32>, %ids: tensor<16xi32>) {
  // expected-error @+1 {{'moe.embedding' op result must be [16, 32], but got [16, 64]}}
  %0 = moe.embedding %t, %ids module(embedding) : (tensor<64x32xf32>, tensor<16xi32>) -> tensor<16x64xf32>
  return
}

// -----

func.func @f(%t: tensor<64x32xf32>, %ids: tensor<16xi64>) {
  // expected-error @+1 {{'moe.embedding' op operand #1 must be ranked tensor of 32-bit signless integer values, but got 'tensor<16xi64>'}}
  %0 = moe.embedding %t, %ids module(embedding) : (tensor<64x32xf32>, tensor<16xi64>) -> tensor<16x32xf32>
  return
}

// -----

func.func @f(%t: tensor<64x32xf16>, %ids: tensor<16xi32>) {
  // expected-error @+1 {{'moe.embedding' op operand #0 must be ranked tensor of f32, bf16 or f64 values, but got 'tensor<64x32xf16>'}}
  %0 = moe.embedding %t, %ids module(embedding) : (tensor<64x32xf16>, tensor<16xi32>) -> tensor<16x32xf16>
  return
}

// -----

func.func @f(%ids: tensor<16xi32>, %dy: tensor<16x8xf32>, %a: tensor<64x32xf32>) {
  // expected-error @+1 {{'moe.embedding_wgrad' op cotangent must be [16, 32], but got [16, 8]}}
  %0 = moe.embedding_wgrad %ids, %dy, %a module(embedding) : (tensor<16xi32>, tensor<16x8xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
  return
}

// -----

func.func @f(%ids: tensor<16xi32>, %dy: tensor<16x32xf32>, %a: tensor<64x32xf32>) {
  // expected-error @+1 {{'moe.embedding_wgrad' op result must have the accumulator's type 'tensor<64x32xf32>'}}
  %0 = moe.embedding_wgrad %ids, %dy, %a module(embedding) : (tensor<16xi32>, tensor<16x32xf32>, tensor<64x32xf32>) -> tensor<64x32xf64>
  return
}

// -----

func.func @f(%ids: tensor<16xi32>, %dy: tensor<16x32xbf16>, %a: tensor<64x32xbf16>) {
  // expected-error @+1 {{'moe.embedding_wgrad' op accumulator must be f32, but got 'bf16'}}
  %0 = moe.embedding_wgrad %ids, %dy, %a module(embedding) : (tensor<16xi32>, tensor<16x32xbf16>, tensor<64x32xbf16>) -> tensor<64x32xbf16>
  return
}

// -----

func.func @f(%x: tensor<16x32xf32>, %w: tensor<24xf32>) {
  // expected-error @+1 {{'moe.rms_norm' op width of the weight, 24, must divide that of the input, 32}}
  %0 = moe.rms_norm %x, %w module(norm) {eps = 1.0e-06 : f64} : (tensor<16x32xf32>, tensor<24xf32>) -> tensor<16x32xf32>
  return
}

// -----

func.func @f(%x: tensor<16x32xf32>, %w: tensor<32xf32>) {
  // expected-error @+1 {{'moe.rms_norm' op result and cotangent must be [16, 32], but got [8, 32]}}
  %0 = moe.rms_norm %x, %w module(norm) {eps = 1.0e-06 : f64} : (tensor<16x32xf32>, tensor<32xf32>) -> tensor<8x32xf32>
  return
}

// -----

func.func @f(%x: tensor<16x32xf32>, %w: tensor<32xf32>) {
  // expected-error @+1 {{'moe.rms_norm' op requires attribute 'eps'}}
  %0 = moe.rms_norm %x, %w module(norm) : (tensor<16x32xf32>, tensor<32xf32>) -> tensor<16x32xf32>
  return
}

// -----

func.func @f(%x: tensor<16x32xf32>, %w: tensor<32xf32>, %dy: tensor<16x32xf32>) {
  // expected-error @+1 {{'moe.rms_norm_dgrad' op result must be [16, 32], but got [8, 32]}}
  %0 = moe.rms_norm_dgrad %x, %w, %dy module(norm) {eps = 1.0e-06 : f64} : (tensor<16x32xf32>, tensor<32xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
  return
}

// -----

func.func @f(%x: tensor<16x32xf32>, %dy: tensor<16x32xf32>, %a: tensor<1x32xf32>) {
  // expected-error @+1 {{'moe.rms_norm_wgrad' op weight must be [any], but got [1, 32]}}
  %0 = moe.rms_norm_wgrad %x, %dy, %a module(norm) {eps = 1.0e-06 : f64} : (tensor<16x32xf32>, tensor<16x32xf32>, tensor<1x32xf32>) -> tensor<1x32xf32>
  return
}

// -----

func.func @f(%x: tensor<16x32xf32>, %w: tensor<64x16xf32>) {
  // expected-error @+1 {{'moe.linear' op input must be [any, 16], but got [16, 32]}}
  %0 = moe.linear %x, %w module(attn) : (tensor<16x32xf32>, tensor<64x16xf32>) -> tensor<16x64xf32>
  return
}

// -----

func.func @f(%x: tensor<16x32xf32>, %w: tensor<64x32xf32>) {
  // expected-error @+1 {{'moe.linear' op result must be [16, 64], but got [16, 32]}}
  %0 = moe.linear %x, %w module(attn) : (tensor<16x32xf32>, tensor<64x32xf32>) -> tensor<16x32xf32>
  return
}

// -----

func.func @f(%dy: tensor<16x32xf32>, %w: tensor<64x32xf32>) {
  // expected-error @+1 {{'moe.linear_dgrad' op cotangent must be [any, 64], but got [16, 32]}}
  %0 = moe.linear_dgrad %dy, %w module(attn) : (tensor<16x32xf32>, tensor<64x32xf32>) -> tensor<16x32xf32>
  return
}

// -----

func.func @f(%x: tensor<16x32xf32>, %dy: tensor<8x64xf32>, %a: tensor<64x32xf32>) {
  // expected-error @+1 {{'moe.linear_wgrad' op cotangent must be [16, 64], but got [8, 64]}}
  %0 = moe.linear_wgrad %x, %dy, %a module(attn) : (tensor<16x32xf32>, tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
  return
}

// -----

func.func @f(%x: tensor<16x32xf32>) {
  // expected-error @+2 {{to be one of: embedding, norm, attn}}
  // expected-error @+1 {{failed to parse Moe_ModuleAttr}}
  %y = moe.add %x, %x module(elsewhere) : (tensor<16x32xf32>, tensor<16x32xf32>) -> tensor<16x32xf32>
  return
}

// -----

func.func @f(%x: tensor<16x30xf32>) {
  // expected-error @+1 {{'moe.rope' op head_dim = 5 must be even and divide the width 30}}
  %0 = moe.rope %x module(attn) {base = 1.0e+06 : f64, head_dim = 5 : i64, sequence = 16 : i64} : (tensor<16x30xf32>) -> tensor<16x30xf32>
  return
}

// -----

func.func @f(%x: tensor<16x30xf32>) {
  // expected-error @+1 {{'moe.rope' op head_dim = 4 must be even and divide the width 30}}
  %0 = moe.rope %x module(attn) {base = 1.0e+06 : f64, head_dim = 4 : i64, sequence = 16 : i64} : (tensor<16x30xf32>) -> tensor<16x30xf32>
  return
}

// -----

func.func @f(%x: tensor<16x30xf32>) {
  // expected-error @+1 {{'moe.rope' op sequence = 12 must divide the rows 16}}
  %0 = moe.rope %x module(attn) {base = 1.0e+06 : f64, head_dim = 6 : i64, sequence = 12 : i64} : (tensor<16x30xf32>) -> tensor<16x30xf32>
  return
}

// -----

func.func @f(%q: tensor<16x32xf32>, %k: tensor<16x16xf32>, %v: tensor<16x16xf32>) {
  // expected-error @+1 {{'moe.attention' op kv_heads = 3 must divide heads = 4}}
  %0, %1 = moe.attention %q, %k, %v module(core_attn) {heads = 4 : i64, kv_heads = 3 : i64, head_dim = 8 : i64, sequence = 16 : i64, scale = 0.25 : f64} : (tensor<16x32xf32>, tensor<16x16xf32>, tensor<16x16xf32>) -> (tensor<16x32xf32>, tensor<16x4xf32>)
  return
}

// -----

func.func @f(%q: tensor<16x32xf32>, %k: tensor<16x16xf32>, %v: tensor<16x16xf32>) {
  // expected-error @+1 {{'moe.attention' op sequence = 5 must divide the rows 16}}
  %0, %1 = moe.attention %q, %k, %v module(core_attn) {heads = 4 : i64, kv_heads = 2 : i64, head_dim = 8 : i64, sequence = 5 : i64, scale = 0.25 : f64} : (tensor<16x32xf32>, tensor<16x16xf32>, tensor<16x16xf32>) -> (tensor<16x32xf32>, tensor<16x4xf32>)
  return
}

// -----

func.func @f(%q: tensor<16x16xf32>, %k: tensor<16x16xf32>, %v: tensor<16x16xf32>) {
  // expected-error @+1 {{'moe.attention' op query must be [16, 32], but got [16, 16]}}
  %0, %1 = moe.attention %q, %k, %v module(core_attn) {heads = 4 : i64, kv_heads = 2 : i64, head_dim = 8 : i64, sequence = 16 : i64, scale = 0.25 : f64} : (tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32>) -> (tensor<16x32xf32>, tensor<16x4xf32>)
  return
}

// -----

func.func @f(%q: tensor<16x32xf32>, %k: tensor<16x32xf32>, %v: tensor<16x16xf32>) {
  // expected-error @+1 {{'moe.attention' op key must be [16, 16], but got [16, 32]}}
  %0, %1 = moe.attention %q, %k, %v module(core_attn) {heads = 4 : i64, kv_heads = 2 : i64, head_dim = 8 : i64, sequence = 16 : i64, scale = 0.25 : f64} : (tensor<16x32xf32>, tensor<16x32xf32>, tensor<16x16xf32>) -> (tensor<16x32xf32>, tensor<16x4xf32>)
  return
}

// -----

func.func @f(%q: tensor<16x32xf32>, %k: tensor<16x16xf32>, %v: tensor<8x16xf32>) {
  // expected-error @+1 {{'moe.attention' op value must be [16, 16], but got [8, 16]}}
  %0, %1 = moe.attention %q, %k, %v module(core_attn) {heads = 4 : i64, kv_heads = 2 : i64, head_dim = 8 : i64, sequence = 16 : i64, scale = 0.25 : f64} : (tensor<16x32xf32>, tensor<16x16xf32>, tensor<8x16xf32>) -> (tensor<16x32xf32>, tensor<16x4xf32>)
  return
}

// -----

func.func @f(%q: tensor<16x32xf32>, %k: tensor<16x16xf32>, %v: tensor<16x16xf32>) {
  // expected-error @+1 {{'moe.attention' op output must be [16, 32], but got [16, 16]}}
  %0, %1 = moe.attention %q, %k, %v module(core_attn) {heads = 4 : i64, kv_heads = 2 : i64, head_dim = 8 : i64, sequence = 16 : i64, scale = 0.25 : f64} : (tensor<16x32xf32>, tensor<16x16xf32>, tensor<16x16xf32>) -> (tensor<16x16xf32>, tensor<16x4xf32>)
  return
}

// -----

func.func @f(%q: tensor<16x32xf32>, %k: tensor<16x16xf32>, %v: tensor<16x16xf32>) {
  // expected-error @+1 {{'moe.attention' op lse must be [16, 4], but got [16, 2]}}
  %0, %1 = moe.attention %q, %k, %v module(core_attn) {heads = 4 : i64, kv_heads = 2 : i64, head_dim = 8 : i64, sequence = 16 : i64, scale = 0.25 : f64} : (tensor<16x32xf32>, tensor<16x16xf32>, tensor<16x16xf32>) -> (tensor<16x32xf32>, tensor<16x2xf32>)
  return
}

// -----

func.func @f(%q: tensor<16x32xf32>, %k: tensor<16x16xf32>, %v: tensor<16x16xf32>) {
  // expected-error @+1 {{'moe.attention' op lse must be f32, but got 'bf16'}}
  %0, %1 = moe.attention %q, %k, %v module(core_attn) {heads = 4 : i64, kv_heads = 2 : i64, head_dim = 8 : i64, sequence = 16 : i64, scale = 0.25 : f64} : (tensor<16x32xf32>, tensor<16x16xf32>, tensor<16x16xf32>) -> (tensor<16x32xf32>, tensor<16x4xbf16>)
  return
}

// -----

func.func @f(%q: tensor<16x32xf32>, %k: tensor<16x16xf32>, %v: tensor<16x16xf32>, %o: tensor<16x32xf32>, %l: tensor<16x4xf32>, %do: tensor<16x16xf32>) {
  // expected-error @+1 {{'moe.attention_grad' op cotangent must be [16, 32], but got [16, 16]}}
  %0, %1, %2 = moe.attention_grad %q, %k, %v, %o, %l, %do module(core_attn) {heads = 4 : i64, kv_heads = 2 : i64, head_dim = 8 : i64, sequence = 16 : i64, scale = 0.25 : f64} : (tensor<16x32xf32>, tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x32xf32>, tensor<16x4xf32>, tensor<16x16xf32>) -> (tensor<16x32xf32>, tensor<16x16xf32>, tensor<16x16xf32>)
  return
}

// -----

func.func @f(%q: tensor<16x32xf32>, %k: tensor<16x16xf32>, %v: tensor<16x16xf32>, %o: tensor<16x32xf32>, %l: tensor<16x4xf32>, %do: tensor<16x32xf32>) {
  // expected-error @+1 {{'moe.attention_grad' op dkey must be [16, 16], but got [16, 32]}}
  %0, %1, %2 = moe.attention_grad %q, %k, %v, %o, %l, %do module(core_attn) {heads = 4 : i64, kv_heads = 2 : i64, head_dim = 8 : i64, sequence = 16 : i64, scale = 0.25 : f64} : (tensor<16x32xf32>, tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x32xf32>, tensor<16x4xf32>, tensor<16x32xf32>) -> (tensor<16x32xf32>, tensor<16x32xf32>, tensor<16x16xf32>)
  return
}

// -----

func.func @f(%a: tensor<16x32xf32>, %b: tensor<8x32xf32>) {
  // expected-error @+1 {{'moe.add' op rhs must be [16, 32], but got [8, 32]}}
  %0 = moe.add %a, %b module(residual) : (tensor<16x32xf32>, tensor<8x32xf32>) -> tensor<16x32xf32>
  return
}

// -----

func.func @f(%z: tensor<16x64xf32>, %l: tensor<8xi32>) {
  // expected-error @+1 {{'moe.cross_entropy' op labels must be [16], but got [8]}}
  %0 = moe.cross_entropy %z, %l module(head) {scale = 1.0 : f64} : (tensor<16x64xf32>, tensor<8xi32>) -> tensor<1xf32>
  return
}

// -----

func.func @f(%z: tensor<16x64xbf16>, %l: tensor<16xi32>) {
  // expected-error @+1 {{'moe.cross_entropy' op loss must be f32, but got 'bf16'}}
  %0 = moe.cross_entropy %z, %l module(head) {scale = 1.0 : f64} : (tensor<16x64xbf16>, tensor<16xi32>) -> tensor<1xbf16>
  return
}

// -----

func.func @f(%z: tensor<16x64xf32>, %l: tensor<16xi32>) {
  // expected-error @+1 {{'moe.cross_entropy' op loss must be [1], but got [16]}}
  %0 = moe.cross_entropy %z, %l module(head) {scale = 1.0 : f64} : (tensor<16x64xf32>, tensor<16xi32>) -> tensor<16xf32>
  return
}

// -----

func.func @f(%z: tensor<16x64xf32>, %l: tensor<16xi32>) {
  // expected-error @+1 {{'moe.cross_entropy_grad' op result must be [16, 64], but got [16, 32]}}
  %0 = moe.cross_entropy_grad %z, %l module(head) {scale = 1.0 : f64} : (tensor<16x64xf32>, tensor<16xi32>) -> tensor<16x32xf32>
  return
}
