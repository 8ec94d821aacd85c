// Widths, vocabulary and sequence are divided by what they count, never by how
// large they are: in this model, 8 is the number of experts and the width of a
// head; 16 the tokens, the experts' width and that of two key heads; 32 the
// hidden size, the width of four heads, gate and up together, and the rows of
// permuted copies.
// RUN: moe-opt --moe-shrink=factor=8 --moe-verify-model %S/../../Dialect/Moe/model.mlir \
// RUN:   | FileCheck %s

// CHECK:       module attributes
// CHECK-SAME:    moe.layout = #moe.layout<dp = 1, ep = 1, pp = 1, micro_batch = 1, global_batch = 4, seq = 2,
// CHECK-SAME:    moe.original = {expert_width = 16 : i64, head_dim = 8 : i64, hidden = 32 : i64, sequence = 16 : i64, vocabulary = 64 : i64}
// CHECK-LABEL: moe.layer @embed(%{{.*}}: tensor<2xi32>) -> tensor<2x4xf32>
// CHECK:         moe.embedding {{.*}} : (tensor<8x4xf32>, tensor<2xi32>) -> tensor<2x4xf32>
// CHECK-LABEL: moe.layer @decoder(%{{.*}}: tensor<2x4xf32>) -> tensor<2x4xf32>
// Heads: 4 of width 2, though 8 / 8 is 1. Norms: of the hidden size, of heads.
// CHECK:         moe.rms_norm {{.*}} module(norm) {{.*}} : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
// CHECK:         moe.linear {{.*}} : (tensor<2x4xf32>, tensor<8x4xf32>) -> tensor<2x8xf32>
// CHECK:         moe.linear {{.*}} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
// CHECK:         moe.rms_norm {{.*}} module(attn) {{.*}} : (tensor<2x8xf32>, tensor<2xf32>) -> tensor<2x8xf32>
// CHECK:         moe.rope {{.*}} {base = 1.000000e+06 : f64, head_dim = 2 : i64, sequence = 2 : i64} : (tensor<2x8xf32>) -> tensor<2x8xf32>
// CHECK:         moe.attention
// CHECK-SAME:      {head_dim = 2 : i64, heads = 4 : i64, kv_heads = 2 : i64, scale = 0.707106781186547{{[0-9]+}} : f64, sequence = 2 : i64}
// CHECK-SAME:      (tensor<2x8xf32>, tensor<2x4xf32>, tensor<2x4xf32>) -> (tensor<2x8xf32>, tensor<2x4xf32>)
// CHECK:         moe.linear {{.*}} : (tensor<2x8xf32>, tensor<4x8xf32>) -> tensor<2x4xf32>
// Eight experts stay.
// CHECK:         moe.linear {{.*}} module(moe_router) : (tensor<2x4xf32>, tensor<8x4xf32>) -> tensor<2x8xf32>
// CHECK:         moe.route {{.*}} : (tensor<2x8xf32>) -> (tensor<2x2xf32>, tensor<2x2xi32>)
// CHECK:         moe.permutation {{.*}} -> (tensor<2x2xi32>, !moe.rows<8, mean = 4>)
// CHECK:         moe.permute {{.*}} -> tensor<4x4xf32>
// CHECK:         moe.permute_probs {{.*}} -> tensor<4xf32>
// CHECK:         moe.grouped_linear {{.*}} : (tensor<4x4xf32>, tensor<8x4x4xf32>, !moe.rows<8, mean = 4>) -> tensor<4x4xf32>
// CHECK:         moe.swiglu {{.*}} -> tensor<4x2xf32>
// CHECK:         moe.grouped_linear {{.*}} : (tensor<4x2xf32>, tensor<8x4x2xf32>, !moe.rows<8, mean = 4>) -> tensor<4x4xf32>
// CHECK-LABEL: moe.layer @head
// CHECK:         moe.cross_entropy {{.*}} {scale = 1.250000e-01 : f64} : (tensor<2x8xf32>, tensor<2xi32>) -> tensor<1xf32>
// CHECK-LABEL: moe.model @qwen3_moe(%{{.*}}: tensor<2xi32>, %{{.*}}: tensor<2xi32>) -> tensor<1xf32>
// CHECK:         moe.apply @decoder [0 to 2](%{{.*}}) : (tensor<2x4xf32>) -> tensor<2x4xf32>

// By one, nothing changes.
// RUN: moe-opt %S/../../Dialect/Moe/model.mlir -o %t.same.mlir
// RUN: moe-opt --moe-shrink=factor=1 %S/../../Dialect/Moe/model.mlir | diff - %t.same.mlir
