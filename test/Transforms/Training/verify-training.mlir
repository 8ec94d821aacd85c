// A training step written by hand passes and is left as it is.
// RUN: moe-opt --moe-verify-training %s | FileCheck %s

// CHECK: moe.train @model
// CHECK: moe.apply_backward @e
#a = #moe.dist<attention>
module attributes {moe.phase = "training",
  moe.layout = #moe.layout<dp = 1, ep = 1, pp = 1, micro_batch = 1, global_batch = 2, seq = 4, capacity = 0.0, layers = [1]>} {
moe.layer @l(%x: tensor<4x8xf32, #a>, %labels: tensor<4xi32, #a>) -> tensor<1xf32, #a> {
  %w = moe.param ["w"] dims [vocabulary, hidden] init normal : tensor<16x8xf32, #a>
  %z = moe.linear %x, %w module(head) : (tensor<4x8xf32, #a>, tensor<16x8xf32, #a>) -> tensor<4x16xf32, #a>
  %loss = moe.cross_entropy %z, %labels module(head) {scale = 0.125 : f64} : (tensor<4x16xf32, #a>, tensor<4xi32, #a>) -> tensor<1xf32, #a>
  moe.backward saved(%z, %labels, %x : tensor<4x16xf32, #a>, tensor<4xi32, #a>, tensor<4x8xf32, #a>) {
  ^bb0(%sz: tensor<4x16xf32, #a>, %sl: tensor<4xi32, #a>, %sx: tensor<4x8xf32, #a>):
    %bw = moe.param ["w"] dims [vocabulary, hidden] init normal : tensor<16x8xf32, #a>
    %g = moe.grad ["w"] : tensor<16x8xf32, #a>
    %dz = moe.cross_entropy_grad %sz, %sl module(head) {scale = 0.125 : f64} : (tensor<4x16xf32, #a>, tensor<4xi32, #a>) -> tensor<4x16xf32, #a>
    %dx = moe.linear_dgrad %dz, %bw module(head) : (tensor<4x16xf32, #a>, tensor<16x8xf32, #a>) -> tensor<4x8xf32, #a>
    %g1 = moe.linear_wgrad %sx, %dz, %g module(head) : (tensor<4x8xf32, #a>, tensor<4x16xf32, #a>, tensor<16x8xf32, #a>) -> tensor<16x8xf32, #a>
    moe.backward_return %dx : tensor<4x8xf32, #a> grads(%g1 : tensor<16x8xf32, #a>)
  }
  moe.return %loss : tensor<1xf32, #a>
}
moe.layer @e(%ids: tensor<4xi32, #a>) -> tensor<4x8xf32, #a> {
  %t = moe.param ["t"] dims [vocabulary, hidden] init normal : tensor<16x8xf32, #a>
  %y = moe.embedding %t, %ids module(embedding) : (tensor<16x8xf32, #a>, tensor<4xi32, #a>) -> tensor<4x8xf32, #a>
  moe.backward saved(%ids : tensor<4xi32, #a>) {
  ^bb0(%dy: tensor<4x8xf32, #a>, %si: tensor<4xi32, #a>):
    %g = moe.grad ["t"] : tensor<16x8xf32, #a>
    %g1 = moe.embedding_wgrad %si, %dy, %g module(embedding) : (tensor<4xi32, #a>, tensor<4x8xf32, #a>, tensor<16x8xf32, #a>) -> tensor<16x8xf32, #a>
    moe.backward_return grads(%g1 : tensor<16x8xf32, #a>)
  }
  moe.return %y : tensor<4x8xf32, #a>
}
moe.train @model {
  %z0 = moe.zero_grads [0 to 1] : <@e>
  %z1 = moe.zero_grads [0 to 1] : <@l>
  %loss, %s0, %s1 = moe.micro_batches 2 init(%z0, %z1 : !moe.grads<@e>, !moe.grads<@l>) {
  ^bb0(%ids: tensor<4xi32, #a>, %labels: tensor<4xi32, #a>, %g0: !moe.grads<@e>, %g1: !moe.grads<@l>):
    %h, %se = moe.apply @e [0 to 1] (%ids) : (tensor<4xi32, #a>) -> (tensor<4x8xf32, #a>, !moe.saved<@e>)
    %part, %sl = moe.apply @l [0 to 1] (%h, %labels) : (tensor<4x8xf32, #a>, tensor<4xi32, #a>) -> (tensor<1xf32, #a>, !moe.saved<@l>)
    %dh, %n1 = moe.apply_backward @l [0 to 1] () saved(%sl : <@l>) grads(%g1 : <@l>) : () -> tensor<4x8xf32, #a>
    %n0 = moe.apply_backward @e [0 to 1] (%dh) saved(%se : <@e>) grads(%g0 : <@e>) : (tensor<4x8xf32, #a>) -> ()
    moe.yield %part : tensor<1xf32, #a> sums(%n0, %n1 : !moe.grads<@e>, !moe.grads<@l>)
  } : tensor<1xf32, #a>, !moe.grads<@e>, !moe.grads<@l>
  moe.optimizer %s0, %s1 : !moe.grads<@e>, !moe.grads<@l> {lr = 1.0e-3 : f64, beta1 = 0.9 : f64, beta2 = 0.999 : f64, eps = 1.0e-8 : f64, weight_decay = 0.0 : f64, clip = 0.0 : f64}
}
}
