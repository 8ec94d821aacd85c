// What can't be differentiated is an error that names the op and the reason.
// RUN: moe-opt --moe-differentiate -split-input-file -verify-diagnostics %s
// RUN: not moe-opt --moe-differentiate=beta2=1.0 %S/differentiate.mlir 2>&1 \
// RUN:   | FileCheck %s
// CHECK: moe-differentiate: beta2 must be in [0, 1), but is 1

// expected-error@+1 {{expected a module in phase spmd, but it is in phase model}}
module attributes {moe.phase = "model",
  moe.layout = #moe.layout<dp = 1, ep = 1, pp = 1, micro_batch = 1, global_batch = 2, seq = 4, capacity = 0.0, layers = [1]>} {
}

// -----

module attributes {moe.phase = "spmd",
  moe.layout = #moe.layout<dp = 1, ep = 1, pp = 1, micro_batch = 1, global_batch = 2, seq = 4, capacity = 0.0, layers = [1]>} {
moe.layer @bias(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %b = moe.param ["bias"] dims [hidden, hidden] init normal : tensor<4x8xf32>
  // expected-error@+1 {{operand #1 is a parameter, of which this op has no gradient}}
  %y = moe.add %x, %b module(residual) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  moe.return %y : tensor<4x8xf32>
}
moe.layer @none() -> tensor<1xf32> {
  %w = moe.param ["w"] dims [hidden] init normal : tensor<1xf32>
  moe.return %w : tensor<1xf32>
}
moe.model @model(%ids: tensor<4xi32>, %labels: tensor<4xi32>) -> tensor<1xf32> {
  %loss = moe.apply @none [0 to 0] () : () -> tensor<1xf32>
  moe.return %loss : tensor<1xf32>
}
}

// -----

module attributes {moe.phase = "spmd",
  moe.layout = #moe.layout<dp = 1, ep = 1, pp = 1, micro_batch = 1, global_batch = 2, seq = 4, capacity = 0.0, layers = [1]>} {
moe.layer @weight(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32> {
  // expected-error@+1 {{operand #1 must be a moe.param, to have a gradient}}
  %y = moe.linear %x, %w module(attn) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  moe.return %y : tensor<4x8xf32>
}
moe.model @model(%ids: tensor<4xi32>, %labels: tensor<4xi32>) -> tensor<1xf32> {
  %loss = moe.apply @none [0 to 0] () : () -> tensor<1xf32>
  moe.return %loss : tensor<1xf32>
}
moe.layer @none() -> tensor<1xf32> {
  %w = moe.param ["w"] dims [hidden] init normal : tensor<1xf32>
  moe.return %w : tensor<1xf32>
}
}

// -----

module attributes {moe.phase = "spmd",
  moe.layout = #moe.layout<dp = 1, ep = 1, pp = 1, micro_batch = 1, global_batch = 2, seq = 4, capacity = 0.0, layers = [1]>} {
// expected-error@+1 {{no result depends on argument #1}}
moe.layer @unused(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> tensor<4x8xf32> {
  moe.return %x : tensor<4x8xf32>
}
moe.layer @none() -> tensor<1xf32> {
  %w = moe.param ["w"] dims [hidden] init normal : tensor<1xf32>
  moe.return %w : tensor<1xf32>
}
moe.model @model(%ids: tensor<4xi32>, %labels: tensor<4xi32>) -> tensor<1xf32> {
  %loss = moe.apply @none [0 to 0] () : () -> tensor<1xf32>
  moe.return %loss : tensor<1xf32>
}
}

// -----

module attributes {moe.phase = "spmd",
  moe.layout = #moe.layout<dp = 1, ep = 1, pp = 1, micro_batch = 1, global_batch = 2, seq = 4, capacity = 0.0, layers = [1]>} {
moe.layer @lse(%q: tensor<4x8xf32>) -> tensor<4x2xf32> {
  // expected-error@+1 {{gives no cotangent of operand #0}}
  %o, %lse = moe.attention %q, %q, %q module(core_attn) {heads = 2 : i64, kv_heads = 2 : i64, head_dim = 4 : i64, sequence = 4 : i64, scale = 0.5 : f64} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x2xf32>)
  moe.return %lse : tensor<4x2xf32>
}
moe.layer @none() -> tensor<1xf32> {
  %w = moe.param ["w"] dims [hidden] init normal : tensor<1xf32>
  moe.return %w : tensor<1xf32>
}
moe.model @model(%ids: tensor<4xi32>, %labels: tensor<4xi32>) -> tensor<1xf32> {
  %loss = moe.apply @none [0 to 0] () : () -> tensor<1xf32>
  moe.return %loss : tensor<1xf32>
}
}

// -----

module attributes {moe.phase = "spmd",
  moe.layout = #moe.layout<dp = 1, ep = 1, pp = 1, micro_batch = 1, global_batch = 2, seq = 4, capacity = 0.0, layers = [1]>} {
moe.layer @loss(%z: tensor<4x8xf32>, %labels: tensor<4xi32>) -> tensor<1xf32> {
  // expected-error@+1 {{the loss must only be returned: its cotangent is one}}
  %loss = moe.cross_entropy %z, %labels module(head) {scale = 0.125 : f64} : (tensor<4x8xf32>, tensor<4xi32>) -> tensor<1xf32>
  %twice = moe.add %loss, %loss module(head) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
  moe.return %loss : tensor<1xf32>
}
moe.model @model(%ids: tensor<4xi32>, %labels: tensor<4xi32>) -> tensor<1xf32> {
  %loss = moe.apply @none [0 to 0] () : () -> tensor<1xf32>
  moe.return %loss : tensor<1xf32>
}
moe.layer @none() -> tensor<1xf32> {
  %w = moe.param ["w"] dims [hidden] init normal : tensor<1xf32>
  moe.return %w : tensor<1xf32>
}
}

// -----

module attributes {moe.phase = "spmd",
  moe.layout = #moe.layout<dp = 1, ep = 1, pp = 1, micro_batch = 1, global_batch = 2, seq = 4, capacity = 0.0, layers = [1]>} {
moe.layer @embed(%ids: tensor<4xi32>) -> tensor<4x8xf32> {
  %t = moe.param ["table"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
  %e = moe.embedding %t, %ids module(embedding) : (tensor<16x8xf32>, tensor<4xi32>) -> tensor<4x8xf32>
  moe.return %e : tensor<4x8xf32>
}
moe.model @model(%ids: tensor<4xi32>, %labels: tensor<4xi32>) -> tensor<4x8xf32> {
  // expected-error@+1 {{result #0 is returned, but is no loss}}
  %h = moe.apply @embed [0 to 1] (%ids) : (tensor<4xi32>) -> tensor<4x8xf32>
  moe.return %h : tensor<4x8xf32>
}
}

// -----

module attributes {moe.phase = "spmd",
  moe.layout = #moe.layout<dp = 1, ep = 1, pp = 1, micro_batch = 1, global_batch = 2, seq = 4, capacity = 0.0, layers = [1]>} {
moe.layer @embed(%ids: tensor<4xi32>) -> tensor<4x8xf32> {
  %t = moe.param ["table"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
  %e = moe.embedding %t, %ids module(embedding) : (tensor<16x8xf32>, tensor<4xi32>) -> tensor<4x8xf32>
  moe.return %e : tensor<4x8xf32>
}
moe.layer @sum(%a: tensor<4x8xf32>, %b: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %y = moe.add %a, %b module(residual) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  moe.return %y : tensor<4x8xf32>
}
moe.model @model(%ids: tensor<4xi32>, %labels: tensor<4xi32>) -> tensor<4x8xf32> {
  // expected-error@+1 {{result #0 must be used exactly once, but is used 2 times}}
  %h = moe.apply @embed [0 to 1] (%ids) : (tensor<4xi32>) -> tensor<4x8xf32>
  %y = moe.apply @sum [0 to 1] (%h, %h) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  moe.return %y : tensor<4x8xf32>
}
}
