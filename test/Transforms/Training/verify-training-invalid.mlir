// Each way to break the training phase is found.
// RUN: moe-opt --moe-verify-training -split-input-file -verify-diagnostics %s

// Another phase.
// expected-error@+1 {{expected a module in phase training, but it is in phase spmd}}
module attributes {moe.phase = "spmd",
  moe.layout = #moe.layout<dp = 1, ep = 1, pp = 1, micro_batch = 1, global_batch = 2, seq = 4, capacity = 0.0, layers = [1]>} {}

// -----

// A value that is saved twice.
module attributes {moe.phase = "training",
  moe.layout = #moe.layout<dp = 1, ep = 1, pp = 1, micro_batch = 1, global_batch = 2, seq = 4, capacity = 0.0, layers = [1]>} {
moe.layer @l(%x: tensor<4x8xf32>, %labels: tensor<4xi32>) -> tensor<1xf32> {
  %w = moe.param ["w"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
  %z = moe.linear %x, %w module(head) : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  %loss = moe.cross_entropy %z, %labels module(head) {scale = 0.125 : f64} : (tensor<4x16xf32>, tensor<4xi32>) -> tensor<1xf32>
  // expected-error@+1 {{saved value #3 is saved value #0 again}}
  moe.backward saved(%z, %labels, %x, %z : tensor<4x16xf32>, tensor<4xi32>, tensor<4x8xf32>, tensor<4x16xf32>) {
  ^bb0(%sz: tensor<4x16xf32>, %sl: tensor<4xi32>, %sx: tensor<4x8xf32>, %again: tensor<4x16xf32>):
    %bw = moe.param ["w"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
    %g = moe.grad ["w"] : tensor<16x8xf32>
    %dz = moe.cross_entropy_grad %sz, %sl module(head) {scale = 0.125 : f64} : (tensor<4x16xf32>, tensor<4xi32>) -> tensor<4x16xf32>
    %dx = moe.linear_dgrad %dz, %bw module(head) : (tensor<4x16xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
    %g1 = moe.linear_wgrad %sx, %dz, %g module(head) : (tensor<4x8xf32>, tensor<4x16xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
    moe.backward_return %dx : tensor<4x8xf32> grads(%g1 : tensor<16x8xf32>)
  }
  moe.return %loss : tensor<1xf32>
}
moe.layer @e(%ids: tensor<4xi32>) -> tensor<4x8xf32> {
  %t = moe.param ["t"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
  %y = moe.embedding %t, %ids module(embedding) : (tensor<16x8xf32>, tensor<4xi32>) -> tensor<4x8xf32>
  moe.backward saved(%ids : tensor<4xi32>) {
  ^bb0(%dy: tensor<4x8xf32>, %si: tensor<4xi32>):
    %g = moe.grad ["t"] : tensor<16x8xf32>
    %g1 = moe.embedding_wgrad %si, %dy, %g module(embedding) : (tensor<4xi32>, tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
    moe.backward_return grads(%g1 : tensor<16x8xf32>)
  }
  moe.return %y : tensor<4x8xf32>
}
moe.train @model {
  %z0 = moe.zero_grads [0 to 1] : <@e>
  %z1 = moe.zero_grads [0 to 1] : <@l>
  %loss, %s0, %s1 = moe.micro_batches 2 init(%z0, %z1 : !moe.grads<@e>, !moe.grads<@l>) {
  ^bb0(%ids: tensor<4xi32>, %labels: tensor<4xi32>, %g0: !moe.grads<@e>, %g1: !moe.grads<@l>):
    %h, %se = moe.apply @e [0 to 1] (%ids) : (tensor<4xi32>) -> (tensor<4x8xf32>, !moe.saved<@e>)
    %part, %sl = moe.apply @l [0 to 1] (%h, %labels) : (tensor<4x8xf32>, tensor<4xi32>) -> (tensor<1xf32>, !moe.saved<@l>)
    %dh, %n1 = moe.apply_backward @l [0 to 1] () saved(%sl : <@l>) grads(%g1 : <@l>) : () -> tensor<4x8xf32>
    %n0 = moe.apply_backward @e [0 to 1] (%dh) saved(%se : <@e>) grads(%g0 : <@e>) : (tensor<4x8xf32>) -> ()
    moe.yield %part : tensor<1xf32> sums(%n0, %n1 : !moe.grads<@e>, !moe.grads<@l>)
  } : tensor<1xf32>, !moe.grads<@e>, !moe.grads<@l>
  moe.optimizer %s0, %s1 : !moe.grads<@e>, !moe.grads<@l> {lr = 1.0e-3 : f64, beta1 = 0.9 : f64, beta2 = 0.999 : f64, eps = 1.0e-8 : f64, weight_decay = 0.0 : f64, clip = 0.0 : f64}
}
}

// -----

// A saved value that nothing reads.
module attributes {moe.phase = "training",
  moe.layout = #moe.layout<dp = 1, ep = 1, pp = 1, micro_batch = 1, global_batch = 2, seq = 4, capacity = 0.0, layers = [1]>} {
moe.layer @l(%x: tensor<4x8xf32>, %labels: tensor<4xi32>) -> tensor<1xf32> {
  %w = moe.param ["w"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
  %z = moe.linear %x, %w module(head) : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  %loss = moe.cross_entropy %z, %labels module(head) {scale = 0.125 : f64} : (tensor<4x16xf32>, tensor<4xi32>) -> tensor<1xf32>
  // expected-error@+1 {{saved value #2 is not used}}
  moe.backward saved(%z, %labels, %x : tensor<4x16xf32>, tensor<4xi32>, tensor<4x8xf32>) {
  ^bb0(%sz: tensor<4x16xf32>, %sl: tensor<4xi32>, %sx: tensor<4x8xf32>):
    %bw = moe.param ["w"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
    %g = moe.grad ["w"] : tensor<16x8xf32>
    %dz = moe.cross_entropy_grad %sz, %sl module(head) {scale = 0.125 : f64} : (tensor<4x16xf32>, tensor<4xi32>) -> tensor<4x16xf32>
    %dx = moe.linear_dgrad %dz, %bw module(head) : (tensor<4x16xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
    %g1 = moe.linear_wgrad %dx, %dz, %g module(head) : (tensor<4x8xf32>, tensor<4x16xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
    moe.backward_return %dx : tensor<4x8xf32> grads(%g1 : tensor<16x8xf32>)
  }
  moe.return %loss : tensor<1xf32>
}
moe.layer @e(%ids: tensor<4xi32>) -> tensor<4x8xf32> {
  %t = moe.param ["t"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
  %y = moe.embedding %t, %ids module(embedding) : (tensor<16x8xf32>, tensor<4xi32>) -> tensor<4x8xf32>
  moe.backward saved(%ids : tensor<4xi32>) {
  ^bb0(%dy: tensor<4x8xf32>, %si: tensor<4xi32>):
    %g = moe.grad ["t"] : tensor<16x8xf32>
    %g1 = moe.embedding_wgrad %si, %dy, %g module(embedding) : (tensor<4xi32>, tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
    moe.backward_return grads(%g1 : tensor<16x8xf32>)
  }
  moe.return %y : tensor<4x8xf32>
}
moe.train @model {
  %z0 = moe.zero_grads [0 to 1] : <@e>
  %z1 = moe.zero_grads [0 to 1] : <@l>
  %loss, %s0, %s1 = moe.micro_batches 2 init(%z0, %z1 : !moe.grads<@e>, !moe.grads<@l>) {
  ^bb0(%ids: tensor<4xi32>, %labels: tensor<4xi32>, %g0: !moe.grads<@e>, %g1: !moe.grads<@l>):
    %h, %se = moe.apply @e [0 to 1] (%ids) : (tensor<4xi32>) -> (tensor<4x8xf32>, !moe.saved<@e>)
    %part, %sl = moe.apply @l [0 to 1] (%h, %labels) : (tensor<4x8xf32>, tensor<4xi32>) -> (tensor<1xf32>, !moe.saved<@l>)
    %dh, %n1 = moe.apply_backward @l [0 to 1] () saved(%sl : <@l>) grads(%g1 : <@l>) : () -> tensor<4x8xf32>
    %n0 = moe.apply_backward @e [0 to 1] (%dh) saved(%se : <@e>) grads(%g0 : <@e>) : (tensor<4x8xf32>) -> ()
    moe.yield %part : tensor<1xf32> sums(%n0, %n1 : !moe.grads<@e>, !moe.grads<@l>)
  } : tensor<1xf32>, !moe.grads<@e>, !moe.grads<@l>
  moe.optimizer %s0, %s1 : !moe.grads<@e>, !moe.grads<@l> {lr = 1.0e-3 : f64, beta1 = 0.9 : f64, beta2 = 0.999 : f64, eps = 1.0e-8 : f64, weight_decay = 0.0 : f64, clip = 0.0 : f64}
}
}

// -----

// A parameter that is saved.
module attributes {moe.phase = "training",
  moe.layout = #moe.layout<dp = 1, ep = 1, pp = 1, micro_batch = 1, global_batch = 2, seq = 4, capacity = 0.0, layers = [1]>} {
moe.layer @l(%x: tensor<4x8xf32>, %labels: tensor<4xi32>) -> tensor<1xf32> {
  %w = moe.param ["w"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
  %z = moe.linear %x, %w module(head) : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  %loss = moe.cross_entropy %z, %labels module(head) {scale = 0.125 : f64} : (tensor<4x16xf32>, tensor<4xi32>) -> tensor<1xf32>
  // expected-error@+1 {{saved value #3 is a parameter, which backward must declare instead}}
  moe.backward saved(%z, %labels, %x, %w : tensor<4x16xf32>, tensor<4xi32>, tensor<4x8xf32>, tensor<16x8xf32>) {
  ^bb0(%sz: tensor<4x16xf32>, %sl: tensor<4xi32>, %sx: tensor<4x8xf32>, %bw: tensor<16x8xf32>):
    %g = moe.grad ["w"] : tensor<16x8xf32>
    %dz = moe.cross_entropy_grad %sz, %sl module(head) {scale = 0.125 : f64} : (tensor<4x16xf32>, tensor<4xi32>) -> tensor<4x16xf32>
    %dx = moe.linear_dgrad %dz, %bw module(head) : (tensor<4x16xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
    %g1 = moe.linear_wgrad %sx, %dz, %g module(head) : (tensor<4x8xf32>, tensor<4x16xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
    moe.backward_return %dx : tensor<4x8xf32> grads(%g1 : tensor<16x8xf32>)
  }
  moe.return %loss : tensor<1xf32>
}
moe.layer @e(%ids: tensor<4xi32>) -> tensor<4x8xf32> {
  %t = moe.param ["t"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
  %y = moe.embedding %t, %ids module(embedding) : (tensor<16x8xf32>, tensor<4xi32>) -> tensor<4x8xf32>
  moe.backward saved(%ids : tensor<4xi32>) {
  ^bb0(%dy: tensor<4x8xf32>, %si: tensor<4xi32>):
    %g = moe.grad ["t"] : tensor<16x8xf32>
    %g1 = moe.embedding_wgrad %si, %dy, %g module(embedding) : (tensor<4xi32>, tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
    moe.backward_return grads(%g1 : tensor<16x8xf32>)
  }
  moe.return %y : tensor<4x8xf32>
}
moe.train @model {
  %z0 = moe.zero_grads [0 to 1] : <@e>
  %z1 = moe.zero_grads [0 to 1] : <@l>
  %loss, %s0, %s1 = moe.micro_batches 2 init(%z0, %z1 : !moe.grads<@e>, !moe.grads<@l>) {
  ^bb0(%ids: tensor<4xi32>, %labels: tensor<4xi32>, %g0: !moe.grads<@e>, %g1: !moe.grads<@l>):
    %h, %se = moe.apply @e [0 to 1] (%ids) : (tensor<4xi32>) -> (tensor<4x8xf32>, !moe.saved<@e>)
    %part, %sl = moe.apply @l [0 to 1] (%h, %labels) : (tensor<4x8xf32>, tensor<4xi32>) -> (tensor<1xf32>, !moe.saved<@l>)
    %dh, %n1 = moe.apply_backward @l [0 to 1] () saved(%sl : <@l>) grads(%g1 : <@l>) : () -> tensor<4x8xf32>
    %n0 = moe.apply_backward @e [0 to 1] (%dh) saved(%se : <@e>) grads(%g0 : <@e>) : (tensor<4x8xf32>) -> ()
    moe.yield %part : tensor<1xf32> sums(%n0, %n1 : !moe.grads<@e>, !moe.grads<@l>)
  } : tensor<1xf32>, !moe.grads<@e>, !moe.grads<@l>
  moe.optimizer %s0, %s1 : !moe.grads<@e>, !moe.grads<@l> {lr = 1.0e-3 : f64, beta1 = 0.9 : f64, beta2 = 0.999 : f64, eps = 1.0e-8 : f64, weight_decay = 0.0 : f64, clip = 0.0 : f64}
}
}

// -----

// A routing that is decided again.
module attributes {moe.phase = "training",
  moe.layout = #moe.layout<dp = 1, ep = 1, pp = 1, micro_batch = 1, global_batch = 2, seq = 4, capacity = 0.0, layers = [1]>} {
moe.layer @l(%x: tensor<4x8xf32>, %labels: tensor<4xi32>) -> tensor<1xf32> {
  %w = moe.param ["w"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
  %z = moe.linear %x, %w module(head) : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  %loss = moe.cross_entropy %z, %labels module(head) {scale = 0.125 : f64} : (tensor<4x16xf32>, tensor<4xi32>) -> tensor<1xf32>
  moe.backward saved(%z, %labels, %x : tensor<4x16xf32>, tensor<4xi32>, tensor<4x8xf32>) {
  ^bb0(%sz: tensor<4x16xf32>, %sl: tensor<4xi32>, %sx: tensor<4x8xf32>):
    %bw = moe.param ["w"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
    %g = moe.grad ["w"] : tensor<16x8xf32>
    // expected-error@+1 {{decides a routing in backward; it is decided once, in forward, and saved}}
    %p, %i = moe.route %sz module(moe_router) : (tensor<4x16xf32>) -> (tensor<4x2xf32>, tensor<4x2xi32>)
    %dz = moe.cross_entropy_grad %sz, %sl module(head) {scale = 0.125 : f64} : (tensor<4x16xf32>, tensor<4xi32>) -> tensor<4x16xf32>
    %dx = moe.linear_dgrad %dz, %bw module(head) : (tensor<4x16xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
    %g1 = moe.linear_wgrad %sx, %dz, %g module(head) : (tensor<4x8xf32>, tensor<4x16xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
    moe.backward_return %dx : tensor<4x8xf32> grads(%g1 : tensor<16x8xf32>)
  }
  moe.return %loss : tensor<1xf32>
}
moe.layer @e(%ids: tensor<4xi32>) -> tensor<4x8xf32> {
  %t = moe.param ["t"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
  %y = moe.embedding %t, %ids module(embedding) : (tensor<16x8xf32>, tensor<4xi32>) -> tensor<4x8xf32>
  moe.backward saved(%ids : tensor<4xi32>) {
  ^bb0(%dy: tensor<4x8xf32>, %si: tensor<4xi32>):
    %g = moe.grad ["t"] : tensor<16x8xf32>
    %g1 = moe.embedding_wgrad %si, %dy, %g module(embedding) : (tensor<4xi32>, tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
    moe.backward_return grads(%g1 : tensor<16x8xf32>)
  }
  moe.return %y : tensor<4x8xf32>
}
moe.train @model {
  %z0 = moe.zero_grads [0 to 1] : <@e>
  %z1 = moe.zero_grads [0 to 1] : <@l>
  %loss, %s0, %s1 = moe.micro_batches 2 init(%z0, %z1 : !moe.grads<@e>, !moe.grads<@l>) {
  ^bb0(%ids: tensor<4xi32>, %labels: tensor<4xi32>, %g0: !moe.grads<@e>, %g1: !moe.grads<@l>):
    %h, %se = moe.apply @e [0 to 1] (%ids) : (tensor<4xi32>) -> (tensor<4x8xf32>, !moe.saved<@e>)
    %part, %sl = moe.apply @l [0 to 1] (%h, %labels) : (tensor<4x8xf32>, tensor<4xi32>) -> (tensor<1xf32>, !moe.saved<@l>)
    %dh, %n1 = moe.apply_backward @l [0 to 1] () saved(%sl : <@l>) grads(%g1 : <@l>) : () -> tensor<4x8xf32>
    %n0 = moe.apply_backward @e [0 to 1] (%dh) saved(%se : <@e>) grads(%g0 : <@e>) : (tensor<4x8xf32>) -> ()
    moe.yield %part : tensor<1xf32> sums(%n0, %n1 : !moe.grads<@e>, !moe.grads<@l>)
  } : tensor<1xf32>, !moe.grads<@e>, !moe.grads<@l>
  moe.optimizer %s0, %s1 : !moe.grads<@e>, !moe.grads<@l> {lr = 1.0e-3 : f64, beta1 = 0.9 : f64, beta2 = 0.999 : f64, eps = 1.0e-8 : f64, weight_decay = 0.0 : f64, clip = 0.0 : f64}
}
}

// -----

// A value of backward that nothing uses.
module attributes {moe.phase = "training",
  moe.layout = #moe.layout<dp = 1, ep = 1, pp = 1, micro_batch = 1, global_batch = 2, seq = 4, capacity = 0.0, layers = [1]>} {
moe.layer @l(%x: tensor<4x8xf32>, %labels: tensor<4xi32>) -> tensor<1xf32> {
  %w = moe.param ["w"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
  %z = moe.linear %x, %w module(head) : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  %loss = moe.cross_entropy %z, %labels module(head) {scale = 0.125 : f64} : (tensor<4x16xf32>, tensor<4xi32>) -> tensor<1xf32>
  moe.backward saved(%z, %labels, %x : tensor<4x16xf32>, tensor<4xi32>, tensor<4x8xf32>) {
  ^bb0(%sz: tensor<4x16xf32>, %sl: tensor<4xi32>, %sx: tensor<4x8xf32>):
    %bw = moe.param ["w"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
    %g = moe.grad ["w"] : tensor<16x8xf32>
    %dz = moe.cross_entropy_grad %sz, %sl module(head) {scale = 0.125 : f64} : (tensor<4x16xf32>, tensor<4xi32>) -> tensor<4x16xf32>
    %dx = moe.linear_dgrad %dz, %bw module(head) : (tensor<4x16xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
    %g1 = moe.linear_wgrad %sx, %dz, %g module(head) : (tensor<4x8xf32>, tensor<4x16xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
    // expected-error@+1 {{computes what nothing uses}}
    %dead = moe.add %dx, %dx module(residual) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    moe.backward_return %dx : tensor<4x8xf32> grads(%g1 : tensor<16x8xf32>)
  }
  moe.return %loss : tensor<1xf32>
}
moe.layer @e(%ids: tensor<4xi32>) -> tensor<4x8xf32> {
  %t = moe.param ["t"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
  %y = moe.embedding %t, %ids module(embedding) : (tensor<16x8xf32>, tensor<4xi32>) -> tensor<4x8xf32>
  moe.backward saved(%ids : tensor<4xi32>) {
  ^bb0(%dy: tensor<4x8xf32>, %si: tensor<4xi32>):
    %g = moe.grad ["t"] : tensor<16x8xf32>
    %g1 = moe.embedding_wgrad %si, %dy, %g module(embedding) : (tensor<4xi32>, tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
    moe.backward_return grads(%g1 : tensor<16x8xf32>)
  }
  moe.return %y : tensor<4x8xf32>
}
moe.train @model {
  %z0 = moe.zero_grads [0 to 1] : <@e>
  %z1 = moe.zero_grads [0 to 1] : <@l>
  %loss, %s0, %s1 = moe.micro_batches 2 init(%z0, %z1 : !moe.grads<@e>, !moe.grads<@l>) {
  ^bb0(%ids: tensor<4xi32>, %labels: tensor<4xi32>, %g0: !moe.grads<@e>, %g1: !moe.grads<@l>):
    %h, %se = moe.apply @e [0 to 1] (%ids) : (tensor<4xi32>) -> (tensor<4x8xf32>, !moe.saved<@e>)
    %part, %sl = moe.apply @l [0 to 1] (%h, %labels) : (tensor<4x8xf32>, tensor<4xi32>) -> (tensor<1xf32>, !moe.saved<@l>)
    %dh, %n1 = moe.apply_backward @l [0 to 1] () saved(%sl : <@l>) grads(%g1 : <@l>) : () -> tensor<4x8xf32>
    %n0 = moe.apply_backward @e [0 to 1] (%dh) saved(%se : <@e>) grads(%g0 : <@e>) : (tensor<4x8xf32>) -> ()
    moe.yield %part : tensor<1xf32> sums(%n0, %n1 : !moe.grads<@e>, !moe.grads<@l>)
  } : tensor<1xf32>, !moe.grads<@e>, !moe.grads<@l>
  moe.optimizer %s0, %s1 : !moe.grads<@e>, !moe.grads<@l> {lr = 1.0e-3 : f64, beta1 = 0.9 : f64, beta2 = 0.999 : f64, eps = 1.0e-8 : f64, weight_decay = 0.0 : f64, clip = 0.0 : f64}
}
}

// -----

// A cotangent of the wrong type.
module attributes {moe.phase = "training",
  moe.layout = #moe.layout<dp = 1, ep = 1, pp = 1, micro_batch = 1, global_batch = 2, seq = 4, capacity = 0.0, layers = [1]>} {
moe.layer @l(%x: tensor<4x8xf32>, %labels: tensor<4xi32>) -> tensor<1xf32> {
  %w = moe.param ["w"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
  %z = moe.linear %x, %w module(head) : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  %loss = moe.cross_entropy %z, %labels module(head) {scale = 0.125 : f64} : (tensor<4x16xf32>, tensor<4xi32>) -> tensor<1xf32>
  moe.backward saved(%z, %labels, %x : tensor<4x16xf32>, tensor<4xi32>, tensor<4x8xf32>) {
  ^bb0(%sz: tensor<4x16xf32>, %sl: tensor<4xi32>, %sx: tensor<4x8xf32>):
    %bw = moe.param ["w"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
    %g = moe.grad ["w"] : tensor<16x8xf32>
    %dz = moe.cross_entropy_grad %sz, %sl module(head) {scale = 0.125 : f64} : (tensor<4x16xf32>, tensor<4xi32>) -> tensor<4x16xf32>
    %dx = moe.linear_dgrad %dz, %bw module(head) : (tensor<4x16xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
    %dy = moe.add %dx, %sx module(head) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %g1 = moe.linear_wgrad %dy, %dz, %g module(head) : (tensor<4x8xf32>, tensor<4x16xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
    %dd = moe.add %dz, %dz module(head) : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
    // expected-error@+1 {{cotangent of float arguments #0 must be 'tensor<4x8xf32>', but is 'tensor<4x16xf32>'}}
    moe.backward_return %dd : tensor<4x16xf32> grads(%g1 : tensor<16x8xf32>)
  }
  moe.return %loss : tensor<1xf32>
}
moe.layer @e(%ids: tensor<4xi32>) -> tensor<4x8xf32> {
  %t = moe.param ["t"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
  %y = moe.embedding %t, %ids module(embedding) : (tensor<16x8xf32>, tensor<4xi32>) -> tensor<4x8xf32>
  moe.backward saved(%ids : tensor<4xi32>) {
  ^bb0(%dy: tensor<4x8xf32>, %si: tensor<4xi32>):
    %g = moe.grad ["t"] : tensor<16x8xf32>
    %g1 = moe.embedding_wgrad %si, %dy, %g module(embedding) : (tensor<4xi32>, tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
    moe.backward_return grads(%g1 : tensor<16x8xf32>)
  }
  moe.return %y : tensor<4x8xf32>
}
moe.train @model {
  %z0 = moe.zero_grads [0 to 1] : <@e>
  %z1 = moe.zero_grads [0 to 1] : <@l>
  %loss, %s0, %s1 = moe.micro_batches 2 init(%z0, %z1 : !moe.grads<@e>, !moe.grads<@l>) {
  ^bb0(%ids: tensor<4xi32>, %labels: tensor<4xi32>, %g0: !moe.grads<@e>, %g1: !moe.grads<@l>):
    %h, %se = moe.apply @e [0 to 1] (%ids) : (tensor<4xi32>) -> (tensor<4x8xf32>, !moe.saved<@e>)
    %part, %sl = moe.apply @l [0 to 1] (%h, %labels) : (tensor<4x8xf32>, tensor<4xi32>) -> (tensor<1xf32>, !moe.saved<@l>)
    %dh, %n1 = moe.apply_backward @l [0 to 1] () saved(%sl : <@l>) grads(%g1 : <@l>) : () -> tensor<4x8xf32>
    %n0 = moe.apply_backward @e [0 to 1] (%dh) saved(%se : <@e>) grads(%g0 : <@e>) : (tensor<4x8xf32>) -> ()
    moe.yield %part : tensor<1xf32> sums(%n0, %n1 : !moe.grads<@e>, !moe.grads<@l>)
  } : tensor<1xf32>, !moe.grads<@e>, !moe.grads<@l>
  moe.optimizer %s0, %s1 : !moe.grads<@e>, !moe.grads<@l> {lr = 1.0e-3 : f64, beta1 = 0.9 : f64, beta2 = 0.999 : f64, eps = 1.0e-8 : f64, weight_decay = 0.0 : f64, clip = 0.0 : f64}
}
}

// -----

// A cotangent of the loss, which is one.
module attributes {moe.phase = "training",
  moe.layout = #moe.layout<dp = 1, ep = 1, pp = 1, micro_batch = 1, global_batch = 2, seq = 4, capacity = 0.0, layers = [1]>} {
moe.layer @l(%x: tensor<4x8xf32>, %labels: tensor<4xi32>) -> tensor<1xf32> {
  %w = moe.param ["w"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
  %z = moe.linear %x, %w module(head) : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  %loss = moe.cross_entropy %z, %labels module(head) {scale = 0.125 : f64} : (tensor<4x16xf32>, tensor<4xi32>) -> tensor<1xf32>
  // expected-error@+1 {{has 1 cotangents of float results, but there are 0}}
  moe.backward saved(%z, %labels, %x : tensor<4x16xf32>, tensor<4xi32>, tensor<4x8xf32>) {
  ^bb0(%done: tensor<1xf32>, %sz: tensor<4x16xf32>, %sl: tensor<4xi32>, %sx: tensor<4x8xf32>):
    %bw = moe.param ["w"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
    %g = moe.grad ["w"] : tensor<16x8xf32>
    %dz = moe.cross_entropy_grad %sz, %sl module(head) {scale = 0.125 : f64} : (tensor<4x16xf32>, tensor<4xi32>) -> tensor<4x16xf32>
    %dx = moe.linear_dgrad %dz, %bw module(head) : (tensor<4x16xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
    %g1 = moe.linear_wgrad %sx, %dz, %g module(head) : (tensor<4x8xf32>, tensor<4x16xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
    moe.backward_return %dx : tensor<4x8xf32> grads(%g1 : tensor<16x8xf32>)
  }
  moe.return %loss : tensor<1xf32>
}
moe.layer @e(%ids: tensor<4xi32>) -> tensor<4x8xf32> {
  %t = moe.param ["t"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
  %y = moe.embedding %t, %ids module(embedding) : (tensor<16x8xf32>, tensor<4xi32>) -> tensor<4x8xf32>
  moe.backward saved(%ids : tensor<4xi32>) {
  ^bb0(%dy: tensor<4x8xf32>, %si: tensor<4xi32>):
    %g = moe.grad ["t"] : tensor<16x8xf32>
    %g1 = moe.embedding_wgrad %si, %dy, %g module(embedding) : (tensor<4xi32>, tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
    moe.backward_return grads(%g1 : tensor<16x8xf32>)
  }
  moe.return %y : tensor<4x8xf32>
}
moe.train @model {
  %z0 = moe.zero_grads [0 to 1] : <@e>
  %z1 = moe.zero_grads [0 to 1] : <@l>
  %loss, %s0, %s1 = moe.micro_batches 2 init(%z0, %z1 : !moe.grads<@e>, !moe.grads<@l>) {
  ^bb0(%ids: tensor<4xi32>, %labels: tensor<4xi32>, %g0: !moe.grads<@e>, %g1: !moe.grads<@l>):
    %h, %se = moe.apply @e [0 to 1] (%ids) : (tensor<4xi32>) -> (tensor<4x8xf32>, !moe.saved<@e>)
    %part, %sl = moe.apply @l [0 to 1] (%h, %labels) : (tensor<4x8xf32>, tensor<4xi32>) -> (tensor<1xf32>, !moe.saved<@l>)
    %dh, %n1 = moe.apply_backward @l [0 to 1] (%part) saved(%sl : <@l>) grads(%g1 : <@l>) : (tensor<1xf32>) -> tensor<4x8xf32>
    %n0 = moe.apply_backward @e [0 to 1] (%dh) saved(%se : <@e>) grads(%g0 : <@e>) : (tensor<4x8xf32>) -> ()
    moe.yield %part : tensor<1xf32> sums(%n0, %n1 : !moe.grads<@e>, !moe.grads<@l>)
  } : tensor<1xf32>, !moe.grads<@e>, !moe.grads<@l>
  moe.optimizer %s0, %s1 : !moe.grads<@e>, !moe.grads<@l> {lr = 1.0e-3 : f64, beta1 = 0.9 : f64, beta2 = 0.999 : f64, eps = 1.0e-8 : f64, weight_decay = 0.0 : f64, clip = 0.0 : f64}
}
}

// -----

// A sum that starts twice from one accumulator.
module attributes {moe.phase = "training",
  moe.layout = #moe.layout<dp = 1, ep = 1, pp = 1, micro_batch = 1, global_batch = 2, seq = 4, capacity = 0.0, layers = [1]>} {
moe.layer @l(%x: tensor<4x8xf32>, %labels: tensor<4xi32>) -> tensor<1xf32> {
  %w = moe.param ["w"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
  %z = moe.linear %x, %w module(head) : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  %loss = moe.cross_entropy %z, %labels module(head) {scale = 0.125 : f64} : (tensor<4x16xf32>, tensor<4xi32>) -> tensor<1xf32>
  moe.backward saved(%z, %labels, %x : tensor<4x16xf32>, tensor<4xi32>, tensor<4x8xf32>) {
  ^bb0(%sz: tensor<4x16xf32>, %sl: tensor<4xi32>, %sx: tensor<4x8xf32>):
    %bw = moe.param ["w"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
    // expected-error@+1 {{a gradient sum must be used exactly once, but one has 2 uses}}
    %g = moe.grad ["w"] : tensor<16x8xf32>
    %dz = moe.cross_entropy_grad %sz, %sl module(head) {scale = 0.125 : f64} : (tensor<4x16xf32>, tensor<4xi32>) -> tensor<4x16xf32>
    %dx = moe.linear_dgrad %dz, %bw module(head) : (tensor<4x16xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
    %g1 = moe.linear_wgrad %sx, %dz, %g module(head) : (tensor<4x8xf32>, tensor<4x16xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
    %g2 = moe.linear_wgrad %dx, %dz, %g module(head) : (tensor<4x8xf32>, tensor<4x16xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
    %g3 = moe.linear_wgrad %dx, %dz, %g2 module(head) : (tensor<4x8xf32>, tensor<4x16xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
    %g4 = moe.add %g3, %g1 module(head) : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
    moe.backward_return %dx : tensor<4x8xf32> grads(%g4 : tensor<16x8xf32>)
  }
  moe.return %loss : tensor<1xf32>
}
moe.layer @e(%ids: tensor<4xi32>) -> tensor<4x8xf32> {
  %t = moe.param ["t"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
  %y = moe.embedding %t, %ids module(embedding) : (tensor<16x8xf32>, tensor<4xi32>) -> tensor<4x8xf32>
  moe.backward saved(%ids : tensor<4xi32>) {
  ^bb0(%dy: tensor<4x8xf32>, %si: tensor<4xi32>):
    %g = moe.grad ["t"] : tensor<16x8xf32>
    %g1 = moe.embedding_wgrad %si, %dy, %g module(embedding) : (tensor<4xi32>, tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
    moe.backward_return grads(%g1 : tensor<16x8xf32>)
  }
  moe.return %y : tensor<4x8xf32>
}
moe.train @model {
  %z0 = moe.zero_grads [0 to 1] : <@e>
  %z1 = moe.zero_grads [0 to 1] : <@l>
  %loss, %s0, %s1 = moe.micro_batches 2 init(%z0, %z1 : !moe.grads<@e>, !moe.grads<@l>) {
  ^bb0(%ids: tensor<4xi32>, %labels: tensor<4xi32>, %g0: !moe.grads<@e>, %g1: !moe.grads<@l>):
    %h, %se = moe.apply @e [0 to 1] (%ids) : (tensor<4xi32>) -> (tensor<4x8xf32>, !moe.saved<@e>)
    %part, %sl = moe.apply @l [0 to 1] (%h, %labels) : (tensor<4x8xf32>, tensor<4xi32>) -> (tensor<1xf32>, !moe.saved<@l>)
    %dh, %n1 = moe.apply_backward @l [0 to 1] () saved(%sl : <@l>) grads(%g1 : <@l>) : () -> tensor<4x8xf32>
    %n0 = moe.apply_backward @e [0 to 1] (%dh) saved(%se : <@e>) grads(%g0 : <@e>) : (tensor<4x8xf32>) -> ()
    moe.yield %part : tensor<1xf32> sums(%n0, %n1 : !moe.grads<@e>, !moe.grads<@l>)
  } : tensor<1xf32>, !moe.grads<@e>, !moe.grads<@l>
  moe.optimizer %s0, %s1 : !moe.grads<@e>, !moe.grads<@l> {lr = 1.0e-3 : f64, beta1 = 0.9 : f64, beta2 = 0.999 : f64, eps = 1.0e-8 : f64, weight_decay = 0.0 : f64, clip = 0.0 : f64}
}
}

// -----

// A sum that is used as a value.
module attributes {moe.phase = "training",
  moe.layout = #moe.layout<dp = 1, ep = 1, pp = 1, micro_batch = 1, global_batch = 2, seq = 4, capacity = 0.0, layers = [1]>} {
moe.layer @l(%x: tensor<4x8xf32>, %labels: tensor<4xi32>) -> tensor<1xf32> {
  %w = moe.param ["w"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
  %z = moe.linear %x, %w module(head) : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  %loss = moe.cross_entropy %z, %labels module(head) {scale = 0.125 : f64} : (tensor<4x16xf32>, tensor<4xi32>) -> tensor<1xf32>
  moe.backward saved(%z, %labels, %x : tensor<4x16xf32>, tensor<4xi32>, tensor<4x8xf32>) {
  ^bb0(%sz: tensor<4x16xf32>, %sl: tensor<4xi32>, %sx: tensor<4x8xf32>):
    %bw = moe.param ["w"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
    %g = moe.grad ["w"] : tensor<16x8xf32>
    %g1b = moe.param ["w"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
    %dz = moe.cross_entropy_grad %sz, %sl module(head) {scale = 0.125 : f64} : (tensor<4x16xf32>, tensor<4xi32>) -> tensor<4x16xf32>
    %dx = moe.linear_dgrad %dz, %bw module(head) : (tensor<4x16xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
    %g1 = moe.linear_wgrad %sx, %dz, %g module(head) : (tensor<4x8xf32>, tensor<4x16xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
    // expected-error@+1 {{uses a gradient sum other than to add to it}}
    %g2 = moe.add %g1, %g1b module(head) : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
    moe.backward_return %dx : tensor<4x8xf32> grads(%g2 : tensor<16x8xf32>)
  }
  moe.return %loss : tensor<1xf32>
}
moe.layer @e(%ids: tensor<4xi32>) -> tensor<4x8xf32> {
  %t = moe.param ["t"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
  %y = moe.embedding %t, %ids module(embedding) : (tensor<16x8xf32>, tensor<4xi32>) -> tensor<4x8xf32>
  moe.backward saved(%ids : tensor<4xi32>) {
  ^bb0(%dy: tensor<4x8xf32>, %si: tensor<4xi32>):
    %g = moe.grad ["t"] : tensor<16x8xf32>
    %g1 = moe.embedding_wgrad %si, %dy, %g module(embedding) : (tensor<4xi32>, tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
    moe.backward_return grads(%g1 : tensor<16x8xf32>)
  }
  moe.return %y : tensor<4x8xf32>
}
moe.train @model {
  %z0 = moe.zero_grads [0 to 1] : <@e>
  %z1 = moe.zero_grads [0 to 1] : <@l>
  %loss, %s0, %s1 = moe.micro_batches 2 init(%z0, %z1 : !moe.grads<@e>, !moe.grads<@l>) {
  ^bb0(%ids: tensor<4xi32>, %labels: tensor<4xi32>, %g0: !moe.grads<@e>, %g1: !moe.grads<@l>):
    %h, %se = moe.apply @e [0 to 1] (%ids) : (tensor<4xi32>) -> (tensor<4x8xf32>, !moe.saved<@e>)
    %part, %sl = moe.apply @l [0 to 1] (%h, %labels) : (tensor<4x8xf32>, tensor<4xi32>) -> (tensor<1xf32>, !moe.saved<@l>)
    %dh, %n1 = moe.apply_backward @l [0 to 1] () saved(%sl : <@l>) grads(%g1 : <@l>) : () -> tensor<4x8xf32>
    %n0 = moe.apply_backward @e [0 to 1] (%dh) saved(%se : <@e>) grads(%g0 : <@e>) : (tensor<4x8xf32>) -> ()
    moe.yield %part : tensor<1xf32> sums(%n0, %n1 : !moe.grads<@e>, !moe.grads<@l>)
  } : tensor<1xf32>, !moe.grads<@e>, !moe.grads<@l>
  moe.optimizer %s0, %s1 : !moe.grads<@e>, !moe.grads<@l> {lr = 1.0e-3 : f64, beta1 = 0.9 : f64, beta2 = 0.999 : f64, eps = 1.0e-8 : f64, weight_decay = 0.0 : f64, clip = 0.0 : f64}
}
}

// -----

// A parameter without a gradient.
module attributes {moe.phase = "training",
  moe.layout = #moe.layout<dp = 1, ep = 1, pp = 1, micro_batch = 1, global_batch = 2, seq = 4, capacity = 0.0, layers = [1]>} {
moe.layer @l(%x: tensor<4x8xf32>, %labels: tensor<4xi32>) -> tensor<1xf32> {
  // expected-error@+1 {{has no gradient in the layer's backward}}
  %b = moe.param ["b"] dims [hidden] init ones : tensor<8xf32>
  %w = moe.param ["w"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
  %z = moe.linear %x, %w module(head) : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  %loss = moe.cross_entropy %z, %labels module(head) {scale = 0.125 : f64} : (tensor<4x16xf32>, tensor<4xi32>) -> tensor<1xf32>
  moe.backward saved(%z, %labels, %x : tensor<4x16xf32>, tensor<4xi32>, tensor<4x8xf32>) {
  ^bb0(%sz: tensor<4x16xf32>, %sl: tensor<4xi32>, %sx: tensor<4x8xf32>):
    %bw = moe.param ["w"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
    %g = moe.grad ["w"] : tensor<16x8xf32>
    %dz = moe.cross_entropy_grad %sz, %sl module(head) {scale = 0.125 : f64} : (tensor<4x16xf32>, tensor<4xi32>) -> tensor<4x16xf32>
    %dx = moe.linear_dgrad %dz, %bw module(head) : (tensor<4x16xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
    %g1 = moe.linear_wgrad %sx, %dz, %g module(head) : (tensor<4x8xf32>, tensor<4x16xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
    moe.backward_return %dx : tensor<4x8xf32> grads(%g1 : tensor<16x8xf32>)
  }
  moe.return %loss : tensor<1xf32>
}
moe.layer @e(%ids: tensor<4xi32>) -> tensor<4x8xf32> {
  %t = moe.param ["t"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
  %y = moe.embedding %t, %ids module(embedding) : (tensor<16x8xf32>, tensor<4xi32>) -> tensor<4x8xf32>
  moe.backward saved(%ids : tensor<4xi32>) {
  ^bb0(%dy: tensor<4x8xf32>, %si: tensor<4xi32>):
    %g = moe.grad ["t"] : tensor<16x8xf32>
    %g1 = moe.embedding_wgrad %si, %dy, %g module(embedding) : (tensor<4xi32>, tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
    moe.backward_return grads(%g1 : tensor<16x8xf32>)
  }
  moe.return %y : tensor<4x8xf32>
}
moe.train @model {
  %z0 = moe.zero_grads [0 to 1] : <@e>
  %z1 = moe.zero_grads [0 to 1] : <@l>
  %loss, %s0, %s1 = moe.micro_batches 2 init(%z0, %z1 : !moe.grads<@e>, !moe.grads<@l>) {
  ^bb0(%ids: tensor<4xi32>, %labels: tensor<4xi32>, %g0: !moe.grads<@e>, %g1: !moe.grads<@l>):
    %h, %se = moe.apply @e [0 to 1] (%ids) : (tensor<4xi32>) -> (tensor<4x8xf32>, !moe.saved<@e>)
    %part, %sl = moe.apply @l [0 to 1] (%h, %labels) : (tensor<4x8xf32>, tensor<4xi32>) -> (tensor<1xf32>, !moe.saved<@l>)
    %dh, %n1 = moe.apply_backward @l [0 to 1] () saved(%sl : <@l>) grads(%g1 : <@l>) : () -> tensor<4x8xf32>
    %n0 = moe.apply_backward @e [0 to 1] (%dh) saved(%se : <@e>) grads(%g0 : <@e>) : (tensor<4x8xf32>) -> ()
    moe.yield %part : tensor<1xf32> sums(%n0, %n1 : !moe.grads<@e>, !moe.grads<@l>)
  } : tensor<1xf32>, !moe.grads<@e>, !moe.grads<@l>
  moe.optimizer %s0, %s1 : !moe.grads<@e>, !moe.grads<@l> {lr = 1.0e-3 : f64, beta1 = 0.9 : f64, beta2 = 0.999 : f64, eps = 1.0e-8 : f64, weight_decay = 0.0 : f64, clip = 0.0 : f64}
}
}

// -----

// A backward of another range.
module attributes {moe.phase = "training",
  moe.layout = #moe.layout<dp = 1, ep = 1, pp = 1, micro_batch = 1, global_batch = 2, seq = 4, capacity = 0.0, layers = [1]>} {
moe.layer @l(%x: tensor<4x8xf32>, %labels: tensor<4xi32>) -> tensor<1xf32> {
  %w = moe.param ["w"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
  %z = moe.linear %x, %w module(head) : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  %loss = moe.cross_entropy %z, %labels module(head) {scale = 0.125 : f64} : (tensor<4x16xf32>, tensor<4xi32>) -> tensor<1xf32>
  moe.backward saved(%z, %labels, %x : tensor<4x16xf32>, tensor<4xi32>, tensor<4x8xf32>) {
  ^bb0(%sz: tensor<4x16xf32>, %sl: tensor<4xi32>, %sx: tensor<4x8xf32>):
    %bw = moe.param ["w"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
    %g = moe.grad ["w"] : tensor<16x8xf32>
    %dz = moe.cross_entropy_grad %sz, %sl module(head) {scale = 0.125 : f64} : (tensor<4x16xf32>, tensor<4xi32>) -> tensor<4x16xf32>
    %dx = moe.linear_dgrad %dz, %bw module(head) : (tensor<4x16xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
    %g1 = moe.linear_wgrad %sx, %dz, %g module(head) : (tensor<4x8xf32>, tensor<4x16xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
    moe.backward_return %dx : tensor<4x8xf32> grads(%g1 : tensor<16x8xf32>)
  }
  moe.return %loss : tensor<1xf32>
}
moe.layer @e(%ids: tensor<4xi32>) -> tensor<4x8xf32> {
  %t = moe.param ["t"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
  %y = moe.embedding %t, %ids module(embedding) : (tensor<16x8xf32>, tensor<4xi32>) -> tensor<4x8xf32>
  moe.backward saved(%ids : tensor<4xi32>) {
  ^bb0(%dy: tensor<4x8xf32>, %si: tensor<4xi32>):
    %g = moe.grad ["t"] : tensor<16x8xf32>
    %g1 = moe.embedding_wgrad %si, %dy, %g module(embedding) : (tensor<4xi32>, tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
    moe.backward_return grads(%g1 : tensor<16x8xf32>)
  }
  moe.return %y : tensor<4x8xf32>
}
moe.train @model {
  %z0 = moe.zero_grads [0 to 1] : <@e>
  %z1 = moe.zero_grads [0 to 1] : <@l>
  %loss, %s0, %s1 = moe.micro_batches 2 init(%z0, %z1 : !moe.grads<@e>, !moe.grads<@l>) {
  ^bb0(%ids: tensor<4xi32>, %labels: tensor<4xi32>, %g0: !moe.grads<@e>, %g1: !moe.grads<@l>):
    %h, %se = moe.apply @e [0 to 1] (%ids) : (tensor<4xi32>) -> (tensor<4x8xf32>, !moe.saved<@e>)
    // expected-error@+1 {{saved values must go to the backward of the same range and stage}}
    %part, %sl = moe.apply @l [0 to 1] (%h, %labels) : (tensor<4x8xf32>, tensor<4xi32>) -> (tensor<1xf32>, !moe.saved<@l>)
    %dh, %n1 = moe.apply_backward @l [1 to 2] () saved(%sl : <@l>) grads(%g1 : <@l>) : () -> tensor<4x8xf32>
    %n0 = moe.apply_backward @e [0 to 1] (%dh) saved(%se : <@e>) grads(%g0 : <@e>) : (tensor<4x8xf32>) -> ()
    moe.yield %part : tensor<1xf32> sums(%n0, %n1 : !moe.grads<@e>, !moe.grads<@l>)
  } : tensor<1xf32>, !moe.grads<@e>, !moe.grads<@l>
  moe.optimizer %s0, %s1 : !moe.grads<@e>, !moe.grads<@l> {lr = 1.0e-3 : f64, beta1 = 0.9 : f64, beta2 = 0.999 : f64, eps = 1.0e-8 : f64, weight_decay = 0.0 : f64, clip = 0.0 : f64}
}
}

// -----

// A sum that is yielded as it came.
module attributes {moe.phase = "training",
  moe.layout = #moe.layout<dp = 1, ep = 1, pp = 1, micro_batch = 1, global_batch = 2, seq = 4, capacity = 0.0, layers = [1]>} {
moe.layer @l(%x: tensor<4x8xf32>, %labels: tensor<4xi32>) -> tensor<1xf32> {
  %w = moe.param ["w"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
  %z = moe.linear %x, %w module(head) : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  %loss = moe.cross_entropy %z, %labels module(head) {scale = 0.125 : f64} : (tensor<4x16xf32>, tensor<4xi32>) -> tensor<1xf32>
  moe.backward saved(%z, %labels, %x : tensor<4x16xf32>, tensor<4xi32>, tensor<4x8xf32>) {
  ^bb0(%sz: tensor<4x16xf32>, %sl: tensor<4xi32>, %sx: tensor<4x8xf32>):
    %bw = moe.param ["w"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
    %g = moe.grad ["w"] : tensor<16x8xf32>
    %dz = moe.cross_entropy_grad %sz, %sl module(head) {scale = 0.125 : f64} : (tensor<4x16xf32>, tensor<4xi32>) -> tensor<4x16xf32>
    %dx = moe.linear_dgrad %dz, %bw module(head) : (tensor<4x16xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
    %g1 = moe.linear_wgrad %sx, %dz, %g module(head) : (tensor<4x8xf32>, tensor<4x16xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
    moe.backward_return %dx : tensor<4x8xf32> grads(%g1 : tensor<16x8xf32>)
  }
  moe.return %loss : tensor<1xf32>
}
moe.layer @e(%ids: tensor<4xi32>) -> tensor<4x8xf32> {
  %t = moe.param ["t"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
  %y = moe.embedding %t, %ids module(embedding) : (tensor<16x8xf32>, tensor<4xi32>) -> tensor<4x8xf32>
  moe.backward saved(%ids : tensor<4xi32>) {
  ^bb0(%dy: tensor<4x8xf32>, %si: tensor<4xi32>):
    %g = moe.grad ["t"] : tensor<16x8xf32>
    %g1 = moe.embedding_wgrad %si, %dy, %g module(embedding) : (tensor<4xi32>, tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
    moe.backward_return grads(%g1 : tensor<16x8xf32>)
  }
  moe.return %y : tensor<4x8xf32>
}
moe.train @model {
  %z0 = moe.zero_grads [0 to 1] : <@e>
  %z1 = moe.zero_grads [0 to 1] : <@l>
  // expected-error@+1 {{gradient sum #1 must be used once, by the backward of its range and stage}}
  %loss, %s0, %s1 = moe.micro_batches 2 init(%z0, %z1 : !moe.grads<@e>, !moe.grads<@l>) {
  ^bb0(%ids: tensor<4xi32>, %labels: tensor<4xi32>, %g0: !moe.grads<@e>, %g1: !moe.grads<@l>):
    %h, %se = moe.apply @e [0 to 1] (%ids) : (tensor<4xi32>) -> (tensor<4x8xf32>, !moe.saved<@e>)
    %part, %sl = moe.apply @l [0 to 1] (%h, %labels) : (tensor<4x8xf32>, tensor<4xi32>) -> (tensor<1xf32>, !moe.saved<@l>)
    %dh, %n1 = moe.apply_backward @l [0 to 1] () saved(%sl : <@l>) grads(%g1 : <@l>) : () -> tensor<4x8xf32>
    %n0 = moe.apply_backward @e [0 to 1] (%dh) saved(%se : <@e>) grads(%g0 : <@e>) : (tensor<4x8xf32>) -> ()
    moe.yield %part : tensor<1xf32> sums(%n0, %g1 : !moe.grads<@e>, !moe.grads<@l>)
  } : tensor<1xf32>, !moe.grads<@e>, !moe.grads<@l>
  moe.optimizer %s0, %s1 : !moe.grads<@e>, !moe.grads<@l> {lr = 1.0e-3 : f64, beta1 = 0.9 : f64, beta2 = 0.999 : f64, eps = 1.0e-8 : f64, weight_decay = 0.0 : f64, clip = 0.0 : f64}
}
}

// -----

// A loop of the wrong length.
module attributes {moe.phase = "training",
  moe.layout = #moe.layout<dp = 1, ep = 1, pp = 1, micro_batch = 1, global_batch = 2, seq = 4, capacity = 0.0, layers = [1]>} {
moe.layer @l(%x: tensor<4x8xf32>, %labels: tensor<4xi32>) -> tensor<1xf32> {
  %w = moe.param ["w"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
  %z = moe.linear %x, %w module(head) : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  %loss = moe.cross_entropy %z, %labels module(head) {scale = 0.125 : f64} : (tensor<4x16xf32>, tensor<4xi32>) -> tensor<1xf32>
  moe.backward saved(%z, %labels, %x : tensor<4x16xf32>, tensor<4xi32>, tensor<4x8xf32>) {
  ^bb0(%sz: tensor<4x16xf32>, %sl: tensor<4xi32>, %sx: tensor<4x8xf32>):
    %bw = moe.param ["w"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
    %g = moe.grad ["w"] : tensor<16x8xf32>
    %dz = moe.cross_entropy_grad %sz, %sl module(head) {scale = 0.125 : f64} : (tensor<4x16xf32>, tensor<4xi32>) -> tensor<4x16xf32>
    %dx = moe.linear_dgrad %dz, %bw module(head) : (tensor<4x16xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
    %g1 = moe.linear_wgrad %sx, %dz, %g module(head) : (tensor<4x8xf32>, tensor<4x16xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
    moe.backward_return %dx : tensor<4x8xf32> grads(%g1 : tensor<16x8xf32>)
  }
  moe.return %loss : tensor<1xf32>
}
moe.layer @e(%ids: tensor<4xi32>) -> tensor<4x8xf32> {
  %t = moe.param ["t"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
  %y = moe.embedding %t, %ids module(embedding) : (tensor<16x8xf32>, tensor<4xi32>) -> tensor<4x8xf32>
  moe.backward saved(%ids : tensor<4xi32>) {
  ^bb0(%dy: tensor<4x8xf32>, %si: tensor<4xi32>):
    %g = moe.grad ["t"] : tensor<16x8xf32>
    %g1 = moe.embedding_wgrad %si, %dy, %g module(embedding) : (tensor<4xi32>, tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
    moe.backward_return grads(%g1 : tensor<16x8xf32>)
  }
  moe.return %y : tensor<4x8xf32>
}
moe.train @model {
  %z0 = moe.zero_grads [0 to 1] : <@e>
  %z1 = moe.zero_grads [0 to 1] : <@l>
  // expected-error@+1 {{runs 4 micro-batches, but the layout has 2}}
  %loss, %s0, %s1 = moe.micro_batches 4 init(%z0, %z1 : !moe.grads<@e>, !moe.grads<@l>) {
  ^bb0(%ids: tensor<4xi32>, %labels: tensor<4xi32>, %g0: !moe.grads<@e>, %g1: !moe.grads<@l>):
    %h, %se = moe.apply @e [0 to 1] (%ids) : (tensor<4xi32>) -> (tensor<4x8xf32>, !moe.saved<@e>)
    %part, %sl = moe.apply @l [0 to 1] (%h, %labels) : (tensor<4x8xf32>, tensor<4xi32>) -> (tensor<1xf32>, !moe.saved<@l>)
    %dh, %n1 = moe.apply_backward @l [0 to 1] () saved(%sl : <@l>) grads(%g1 : <@l>) : () -> tensor<4x8xf32>
    %n0 = moe.apply_backward @e [0 to 1] (%dh) saved(%se : <@e>) grads(%g0 : <@e>) : (tensor<4x8xf32>) -> ()
    moe.yield %part : tensor<1xf32> sums(%n0, %n1 : !moe.grads<@e>, !moe.grads<@l>)
  } : tensor<1xf32>, !moe.grads<@e>, !moe.grads<@l>
  moe.optimizer %s0, %s1 : !moe.grads<@e>, !moe.grads<@l> {lr = 1.0e-3 : f64, beta1 = 0.9 : f64, beta2 = 0.999 : f64, eps = 1.0e-8 : f64, weight_decay = 0.0 : f64, clip = 0.0 : f64}
}
}

// -----

// A sum that the optimizer does not get.
module attributes {moe.phase = "training",
  moe.layout = #moe.layout<dp = 1, ep = 1, pp = 1, micro_batch = 1, global_batch = 2, seq = 4, capacity = 0.0, layers = [1]>} {
moe.layer @l(%x: tensor<4x8xf32>, %labels: tensor<4xi32>) -> tensor<1xf32> {
  %w = moe.param ["w"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
  %z = moe.linear %x, %w module(head) : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  %loss = moe.cross_entropy %z, %labels module(head) {scale = 0.125 : f64} : (tensor<4x16xf32>, tensor<4xi32>) -> tensor<1xf32>
  moe.backward saved(%z, %labels, %x : tensor<4x16xf32>, tensor<4xi32>, tensor<4x8xf32>) {
  ^bb0(%sz: tensor<4x16xf32>, %sl: tensor<4xi32>, %sx: tensor<4x8xf32>):
    %bw = moe.param ["w"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
    %g = moe.grad ["w"] : tensor<16x8xf32>
    %dz = moe.cross_entropy_grad %sz, %sl module(head) {scale = 0.125 : f64} : (tensor<4x16xf32>, tensor<4xi32>) -> tensor<4x16xf32>
    %dx = moe.linear_dgrad %dz, %bw module(head) : (tensor<4x16xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
    %g1 = moe.linear_wgrad %sx, %dz, %g module(head) : (tensor<4x8xf32>, tensor<4x16xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
    moe.backward_return %dx : tensor<4x8xf32> grads(%g1 : tensor<16x8xf32>)
  }
  moe.return %loss : tensor<1xf32>
}
moe.layer @e(%ids: tensor<4xi32>) -> tensor<4x8xf32> {
  %t = moe.param ["t"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
  %y = moe.embedding %t, %ids module(embedding) : (tensor<16x8xf32>, tensor<4xi32>) -> tensor<4x8xf32>
  moe.backward saved(%ids : tensor<4xi32>) {
  ^bb0(%dy: tensor<4x8xf32>, %si: tensor<4xi32>):
    %g = moe.grad ["t"] : tensor<16x8xf32>
    %g1 = moe.embedding_wgrad %si, %dy, %g module(embedding) : (tensor<4xi32>, tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
    moe.backward_return grads(%g1 : tensor<16x8xf32>)
  }
  moe.return %y : tensor<4x8xf32>
}
moe.train @model {
  %z0 = moe.zero_grads [0 to 1] : <@e>
  %z1 = moe.zero_grads [0 to 1] : <@l>
  // expected-error@+1 {{gradient sum #1 must go to the optimizer, once}}
  %loss, %s0, %s1 = moe.micro_batches 2 init(%z0, %z1 : !moe.grads<@e>, !moe.grads<@l>) {
  ^bb0(%ids: tensor<4xi32>, %labels: tensor<4xi32>, %g0: !moe.grads<@e>, %g1: !moe.grads<@l>):
    %h, %se = moe.apply @e [0 to 1] (%ids) : (tensor<4xi32>) -> (tensor<4x8xf32>, !moe.saved<@e>)
    %part, %sl = moe.apply @l [0 to 1] (%h, %labels) : (tensor<4x8xf32>, tensor<4xi32>) -> (tensor<1xf32>, !moe.saved<@l>)
    %dh, %n1 = moe.apply_backward @l [0 to 1] () saved(%sl : <@l>) grads(%g1 : <@l>) : () -> tensor<4x8xf32>
    %n0 = moe.apply_backward @e [0 to 1] (%dh) saved(%se : <@e>) grads(%g0 : <@e>) : (tensor<4x8xf32>) -> ()
    moe.yield %part : tensor<1xf32> sums(%n0, %n1 : !moe.grads<@e>, !moe.grads<@l>)
  } : tensor<1xf32>, !moe.grads<@e>, !moe.grads<@l>
  moe.optimizer %s0 : !moe.grads<@e> {lr = 1.0e-3 : f64, beta1 = 0.9 : f64, beta2 = 0.999 : f64, eps = 1.0e-8 : f64, weight_decay = 0.0 : f64, clip = 0.0 : f64}
}
}
