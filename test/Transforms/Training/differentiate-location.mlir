// A backward op is named after its forward op.
// RUN: moe-opt --moe-differentiate --mlir-print-debuginfo --mlir-print-local-scope %s | FileCheck %s

module attributes {
  moe.phase = "spmd",
  moe.layout = #moe.layout<dp = 1, ep = 1, pp = 1, micro_batch = 1, global_batch = 2, seq = 4, capacity = 0.0, layers = [0]>} {
// CHECK: moe.linear_dgrad {{.*}}loc("lm_head/dgrad"
// CHECK: moe.linear_wgrad {{.*}}loc("lm_head/wgrad"
moe.layer @head(%ids: tensor<4xi32>, %h: tensor<4x8xf32>, %labels: tensor<4xi32>) -> tensor<1xf32> {
  %w = moe.param ["head"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
  %t = moe.param ["table"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
  %e = moe.embedding %t, %ids module(embedding) : (tensor<16x8xf32>, tensor<4xi32>) -> tensor<4x8xf32>
  %x = moe.add %e, %h module(residual) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %z = moe.linear %x, %w module(head) : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32> loc("lm_head")
  %loss = moe.cross_entropy %z, %labels module(head) {scale = 0.125 : f64} : (tensor<4x16xf32>, tensor<4xi32>) -> tensor<1xf32>
  moe.return %loss : tensor<1xf32>
}
moe.layer @embed(%ids: tensor<4xi32>) -> tensor<4x8xf32> {
  %t = moe.param ["table"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
  %e = moe.embedding %t, %ids module(embedding) : (tensor<16x8xf32>, tensor<4xi32>) -> tensor<4x8xf32>
  moe.return %e : tensor<4x8xf32>
}
moe.model @model(%ids: tensor<4xi32>, %labels: tensor<4xi32>) -> tensor<1xf32> {
  %h = moe.apply @embed [0 to 1] (%ids) : (tensor<4xi32>) -> tensor<4x8xf32>
  %loss = moe.apply @head [0 to 1] (%ids, %h, %labels) : (tensor<4xi32>, tensor<4x8xf32>, tensor<4xi32>) -> tensor<1xf32>
  moe.return %loss : tensor<1xf32>
}
}
