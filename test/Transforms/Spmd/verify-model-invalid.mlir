// What belongs to later phases is rejected.
// RUN: moe-opt --split-input-file --verify-diagnostics --moe-verify-model %s

// expected-error@+1 {{expected a module in phase model, but it is in phase spmd}}
module attributes {moe.phase = "spmd"} {
}

// -----

// expected-error@+1 {{module has no 'moe.phase'}}
module {
}

// -----

// expected-error@+1 {{phase model: expected exactly one moe.model}}
module attributes {moe.phase = "model"} {
}

// -----

#i = #moe.dist<attention, dp = invariant>
module attributes {moe.phase = "model"} {
moe.layer @l() {
  // expected-error@+1 {{has a distribution, which phase model has not}}
  %w = moe.param ["w"] dims [hidden] init ones : tensor<8xf32, #i>
  moe.return
}
moe.model @m() {
  moe.return
}
}

// -----

// Arguments have none, either.
#v = #moe.dist<attention, dp = varying>
module attributes {moe.phase = "model"} {
// expected-error@+1 {{has a distribution, which phase model has not}}
moe.layer @l(%x: tensor<8xf32, #v>) {
  moe.return
}
moe.model @m() {
  moe.return
}
}

// -----

module attributes {moe.phase = "model"} {
moe.layer @l(%x: tensor<8xf32>) {
  // expected-error@+1 {{can't appear in phase model}}
  %y = moe.vary %x over "dp" module(attn) : (tensor<8xf32>) -> tensor<8xf32>
  moe.return
}
moe.model @m() {
  moe.return
}
}

// -----

module attributes {moe.phase = "model"} {
moe.layer @l(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error@+1 {{can't appear in phase model}}
  moe.backward {
  ^bb0(%dx: tensor<8xf32>):
    moe.backward_return %dx : tensor<8xf32>
  }
  moe.return %x : tensor<8xf32>
}
moe.model @m() {
  moe.return
}
}

// -----

module attributes {moe.phase = "model"} {
moe.layer @l(%x: tensor<8xf32>) -> tensor<8xf32> {
  moe.return %x : tensor<8xf32>
}
moe.model @m(%x: tensor<8xf32>) {
  // expected-error@+1 {{saves values for backward, which phase model has not}}
  %y, %s = moe.apply @l [0 to 1] (%x) : (tensor<8xf32>) -> (tensor<8xf32>, !moe.saved<@l>)
  moe.return
}
}

// -----

// Stages are for moe-partition to name.
module attributes {moe.phase = "model"} {
moe.layer @l(%x: tensor<8xf32>) -> tensor<8xf32> {
  moe.return %x : tensor<8xf32>
}
moe.model @m(%x: tensor<8xf32>) {
  // expected-error@+1 {{names a stage, which phase model has not}}
  %y = moe.apply @l [0 to 1] stage 0 (%x) : (tensor<8xf32>) -> tensor<8xf32>
  moe.return
}
}

// -----

#layout = #moe.layout<dp = 1, ep = 1, pp = 1, micro_batch = 1, global_batch = 2, seq = 4, capacity = 0.0, layers = [1]>
module attributes {moe.phase = "model", moe.layout = #layout} {
moe.layer @l(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{'moe.rope' op sequence = 2 must be the layout's seq = 4}}
  %y = moe.rope %x module(attn) {base = 10.0 : f64, head_dim = 8 : i64, sequence = 2 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  moe.return
}
moe.model @m() {
  moe.return
}
}
