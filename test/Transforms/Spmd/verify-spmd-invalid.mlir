// Each rule of the verifier about distributions, broken once.
// RUN: moe-opt --split-input-file --verify-diagnostics --moe-verify-spmd %s

// The phase is checked.
// expected-error@+1 {{expected a module in phase spmd, but it is in phase model}}
module attributes {moe.phase = "model", moe.layout = #moe.layout<dp = 2, ep = 1, pp = 1, micro_batch = 1, global_batch = 4, seq = 4, capacity = 2.0, layers = [0]>} {
}

// -----

// There is one model.
// expected-error@+1 {{phase spmd: expected exactly one moe.model}}
module attributes {moe.phase = "spmd", moe.layout = #moe.layout<dp = 2, ep = 1, pp = 1, micro_batch = 1, global_batch = 4, seq = 4, capacity = 2.0, layers = [0]>} {
}

// -----

// Differentiation comes later.
#v = #moe.dist<attention, dp = varying>
#i = #moe.dist<attention, dp = invariant>
#s = #moe.dist<attention, dp = sharded(0)>
#p = #moe.dist<attention, dp = partial_sum>
module attributes {moe.phase = "spmd", moe.layout = #moe.layout<dp = 2, ep = 1, pp = 1, micro_batch = 1, global_batch = 4, seq = 4, capacity = 2.0, layers = [0]>} {
moe.layer @l(%x: tensor<4x8xf32, #v>) {
  // expected-error@+1 {{can't appear in phase spmd}}
  moe.backward {
  ^bb0:
    moe.backward_return
  }
  moe.return
}
moe.model @m(%ids: tensor<4xi32, #v>, %labels: tensor<4xi32, #v>) {
  moe.return
}
}

// -----

// Nothing is without a distribution.
#v = #moe.dist<attention, dp = varying>
#i = #moe.dist<attention, dp = invariant>
#s = #moe.dist<attention, dp = sharded(0)>
#p = #moe.dist<attention, dp = partial_sum>
module attributes {moe.phase = "spmd", moe.layout = #moe.layout<dp = 2, ep = 1, pp = 1, micro_batch = 1, global_batch = 4, seq = 4, capacity = 2.0, layers = [0]>} {
moe.layer @l(%x: tensor<4x8xf32, #v>) {
  // expected-error@+1 {{result #0 must have a distribution (#moe.dist), but is 'tensor<8xf32>'}}
  %w = moe.param ["w"] dims [hidden] init ones : tensor<8xf32>
  moe.return
}
moe.model @m(%ids: tensor<4xi32, #v>, %labels: tensor<4xi32, #v>) {
  moe.return
}
}

// -----

// An axis of two ranks must be named.
#v = #moe.dist<attention, dp = varying>
#i = #moe.dist<attention, dp = invariant>
#s = #moe.dist<attention, dp = sharded(0)>
#p = #moe.dist<attention, dp = partial_sum>
module attributes {moe.phase = "spmd", moe.layout = #moe.layout<dp = 2, ep = 1, pp = 1, micro_batch = 1, global_batch = 4, seq = 4, capacity = 2.0, layers = [0]>} {
moe.layer @l(%x: tensor<4x8xf32, #v>) {
  // expected-error@+1 {{result #0 must name the axes of more than one rank of grid 'attention', [dp], but is #moe.dist<attention>}}
  %w = moe.param ["w"] dims [hidden] init ones : tensor<8xf32, #moe.dist<attention>>
  moe.return
}
moe.model @m(%ids: tensor<4xi32, #v>, %labels: tensor<4xi32, #v>) {
  moe.return
}
}

// -----

// An axis of one rank must not be named (edp = 1).
#v = #moe.dist<attention, dp = varying>
#i = #moe.dist<attention, dp = invariant>
#s = #moe.dist<attention, dp = sharded(0)>
#p = #moe.dist<attention, dp = partial_sum>
module attributes {moe.phase = "spmd", moe.layout = #moe.layout<dp = 2, ep = 2, pp = 1, micro_batch = 1, global_batch = 4, seq = 4, capacity = 2.0, layers = [0]>} {
moe.layer @l(%x: tensor<4x8xf32, #v>) {
  // expected-error@+1 {{must name the axes of more than one rank of grid 'experts', [ep], but is}}
  %w = moe.param ["{e}"] dims [experts] init ones : tensor<8xf32, #moe.dist<experts, ep = sharded(0), edp = invariant>>
  moe.return
}
moe.model @m(%ids: tensor<4xi32, #v>, %labels: tensor<4xi32, #v>) {
  moe.return
}
}

// -----

// Arguments have distributions, too.
#v = #moe.dist<attention, dp = varying>
#i = #moe.dist<attention, dp = invariant>
#s = #moe.dist<attention, dp = sharded(0)>
#p = #moe.dist<attention, dp = partial_sum>
module attributes {moe.phase = "spmd", moe.layout = #moe.layout<dp = 2, ep = 1, pp = 1, micro_batch = 1, global_batch = 4, seq = 4, capacity = 2.0, layers = [0]>} {
// expected-error@+1 {{argument #0 must have a distribution}}
moe.layer @l(%x: tensor<4x8xf32>) {
  moe.return
}
moe.model @m(%ids: tensor<4xi32, #v>, %labels: tensor<4xi32, #v>) {
  moe.return
}
}

// -----

// No dynamic sizes.
#v = #moe.dist<attention, dp = varying>
#i = #moe.dist<attention, dp = invariant>
#s = #moe.dist<attention, dp = sharded(0)>
#p = #moe.dist<attention, dp = partial_sum>
module attributes {moe.phase = "spmd", moe.layout = #moe.layout<dp = 2, ep = 1, pp = 1, micro_batch = 1, global_batch = 4, seq = 4, capacity = 2.0, layers = [0]>} {
// expected-error@+1 {{argument #1 must have a static shape}}
moe.layer @l(%x: tensor<4x8xf32, #v>, %y: tensor<?x8xf32, #v>) {
  moe.return
}
moe.model @m(%ids: tensor<4xi32, #v>, %labels: tensor<4xi32, #v>) {
  moe.return
}
}

// -----

// A partial sum can't be used as a whole value: the loss, normalised.
#v = #moe.dist<attention, dp = varying>
#i = #moe.dist<attention, dp = invariant>
#s = #moe.dist<attention, dp = sharded(0)>
#p = #moe.dist<attention, dp = partial_sum>
module attributes {moe.phase = "spmd", moe.layout = #moe.layout<dp = 2, ep = 1, pp = 1, micro_batch = 1, global_batch = 4, seq = 4, capacity = 2.0, layers = [0]>} {
moe.layer @l(%x: tensor<4x8xf32, #v>, %t: tensor<4xi32, #v>, %map: tensor<1x1xi32, #v>) {
  // expected-note@+1 {{operand #0 is here}}
  %loss = moe.cross_entropy %x, %t module(head) {scale = 1.0 : f64} : (tensor<4x8xf32, #v>, tensor<4xi32, #v>) -> tensor<1xf32, #p>
  // expected-error@+1 {{operand #0 must be a whole value, but is partial (#moe.dist<attention, dp = partial_sum>); reduce it first (moe.all_reduce)}}
  %y = moe.unpermute_probs %loss, %map module(moe_combine) : (tensor<1xf32, #p>, tensor<1x1xi32, #v>) -> tensor<1x1xf32, #v>
  moe.return
}
moe.model @m(%ids: tensor<4xi32, #v>, %labels: tensor<4xi32, #v>) {
  moe.return
}
}

// -----

// The same of a gradient's accumulator.
#v = #moe.dist<attention, dp = varying>
#i = #moe.dist<attention, dp = invariant>
#s = #moe.dist<attention, dp = sharded(0)>
#p = #moe.dist<attention, dp = partial_sum>
module attributes {moe.phase = "spmd", moe.layout = #moe.layout<dp = 2, ep = 1, pp = 1, micro_batch = 1, global_batch = 4, seq = 4, capacity = 2.0, layers = [0]>} {
// expected-note@+1 {{operand #0 is here}}
moe.layer @l(%acc: tensor<8x8xf32, #p>, %w: tensor<8x8xf32, #i>) {
  // expected-error@+1 {{operand #0 must be a whole value, but is partial}}
  %y = moe.linear %acc, %w module(attn) : (tensor<8x8xf32, #p>, tensor<8x8xf32, #i>) -> tensor<8x8xf32, #v>
  moe.return
}
moe.model @m(%ids: tensor<4xi32, #v>, %labels: tensor<4xi32, #v>) {
  moe.return
}
}

// -----

// A declared result must be what follows.
#v = #moe.dist<attention, dp = varying>
#i = #moe.dist<attention, dp = invariant>
#s = #moe.dist<attention, dp = sharded(0)>
#p = #moe.dist<attention, dp = partial_sum>
module attributes {moe.phase = "spmd", moe.layout = #moe.layout<dp = 2, ep = 1, pp = 1, micro_batch = 1, global_batch = 4, seq = 4, capacity = 2.0, layers = [0]>} {
// expected-note@+1 {{operand #0 is #moe.dist<attention, dp = varying>}}
moe.layer @l(%x: tensor<4x8xf32, #v>) {
  // expected-error@+1 {{result #0 must be #moe.dist<attention, dp = varying> by its operands, but is #moe.dist<attention, dp = invariant>}}
  %y = moe.add %x, %x module(residual) : (tensor<4x8xf32, #v>, tensor<4x8xf32, #v>) -> tensor<4x8xf32, #i>
  moe.return
}
moe.model @m(%ids: tensor<4xi32, #v>, %labels: tensor<4xi32, #v>) {
  moe.return
}
}

// -----

// The loss of varying logits is partial.
#v = #moe.dist<attention, dp = varying>
#i = #moe.dist<attention, dp = invariant>
#s = #moe.dist<attention, dp = sharded(0)>
#p = #moe.dist<attention, dp = partial_sum>
module attributes {moe.phase = "spmd", moe.layout = #moe.layout<dp = 2, ep = 1, pp = 1, micro_batch = 1, global_batch = 4, seq = 4, capacity = 2.0, layers = [0]>} {
// expected-note@+1 {{operand #0 is}}
moe.layer @l(%x: tensor<4x8xf32, #v>, %t: tensor<4xi32, #v>) {
  // expected-error@+1 {{result #0 must be #moe.dist<attention, dp = partial_sum> by its operands}}
  %loss = moe.cross_entropy %x, %t module(head) {scale = 1.0 : f64} : (tensor<4x8xf32, #v>, tensor<4xi32, #v>) -> tensor<1xf32, #v>
  moe.return
}
moe.model @m(%ids: tensor<4xi32, #v>, %labels: tensor<4xi32, #v>) {
  moe.return
}
}

// -----

// Invariant data become varying by moe.vary only.
#v = #moe.dist<attention, dp = varying>
#i = #moe.dist<attention, dp = invariant>
#s = #moe.dist<attention, dp = sharded(0)>
#p = #moe.dist<attention, dp = partial_sum>
module attributes {moe.phase = "spmd", moe.layout = #moe.layout<dp = 2, ep = 1, pp = 1, micro_batch = 1, global_batch = 4, seq = 4, capacity = 2.0, layers = [0]>} {
// expected-note@+1 {{operand #1 is here}}
moe.layer @l(%x: tensor<4x8xf32, #v>, %same: tensor<4x8xf32, #i>) {
  // expected-error@+1 {{operand #1 must lie like operand #0 (#moe.dist<attention, dp = varying>), but is #moe.dist<attention, dp = invariant>; take it there first (moe.vary)}}
  %y = moe.add %x, %same module(residual) : (tensor<4x8xf32, #v>, tensor<4x8xf32, #i>) -> tensor<4x8xf32, #v>
  moe.return
}
moe.model @m(%ids: tensor<4xi32, #v>, %labels: tensor<4xi32, #v>) {
  moe.return
}
}

// -----

// A shard can't be used as a whole.
#v = #moe.dist<attention, dp = varying>
#i = #moe.dist<attention, dp = invariant>
#s = #moe.dist<attention, dp = sharded(0)>
#p = #moe.dist<attention, dp = partial_sum>
module attributes {moe.phase = "spmd", moe.layout = #moe.layout<dp = 2, ep = 1, pp = 1, micro_batch = 1, global_batch = 4, seq = 4, capacity = 2.0, layers = [0]>} {
// expected-note@+1 {{operand #0 is here}}
moe.layer @l(%part: tensor<4x8xf32, #s>, %w: tensor<8x8xf32, #i>) {
  // expected-error@+1 {{operand #0 must be whole on each rank, but is a shard}}
  %y = moe.linear %part, %w module(attn) : (tensor<4x8xf32, #s>, tensor<8x8xf32, #i>) -> tensor<4x8xf32, #s>
  moe.return
}
moe.model @m(%ids: tensor<4xi32, #v>, %labels: tensor<4xi32, #v>) {
  moe.return
}
}

// -----

// A dense weight can't vary.
#v = #moe.dist<attention, dp = varying>
#i = #moe.dist<attention, dp = invariant>
#s = #moe.dist<attention, dp = sharded(0)>
#p = #moe.dist<attention, dp = partial_sum>
module attributes {moe.phase = "spmd", moe.layout = #moe.layout<dp = 2, ep = 1, pp = 1, micro_batch = 1, global_batch = 4, seq = 4, capacity = 2.0, layers = [0]>} {
// expected-note@+1 {{operand #1 is here}}
moe.layer @l(%x: tensor<4x8xf32, #v>, %w: tensor<8x8xf32, #v>) {
  // expected-error@+1 {{operand #1 must be invariant along 'dp', where the rows are varying, but is #moe.dist<attention, dp = varying>}}
  %y = moe.linear %x, %w module(attn) : (tensor<4x8xf32, #v>, tensor<8x8xf32, #v>) -> tensor<4x8xf32, #v>
  moe.return
}
moe.model @m(%ids: tensor<4xi32, #v>, %labels: tensor<4xi32, #v>) {
  moe.return
}
}

// -----

// Nor be sharded: it is no stack of experts.
#v = #moe.dist<attention, dp = varying>
#i = #moe.dist<attention, dp = invariant>
#s = #moe.dist<attention, dp = sharded(0)>
#p = #moe.dist<attention, dp = partial_sum>
module attributes {moe.phase = "spmd", moe.layout = #moe.layout<dp = 2, ep = 1, pp = 1, micro_batch = 1, global_batch = 4, seq = 4, capacity = 2.0, layers = [0]>} {
// expected-note@+1 {{operand #1 is here}}
moe.layer @l(%x: tensor<4x8xf32, #v>, %w: tensor<4x8xf32, #s>) {
  // expected-error@+1 {{operand #1 must be invariant along 'dp', where the rows are varying, but is #moe.dist<attention, dp = sharded(0)>}}
  %y = moe.linear %x, %w module(attn) : (tensor<4x8xf32, #v>, tensor<4x8xf32, #s>) -> tensor<4x4xf32, #v>
  moe.return
}
moe.model @m(%ids: tensor<4xi32, #v>, %labels: tensor<4xi32, #v>) {
  moe.return
}
}

// -----

// A gradient that sums rows of each rank is partial ...
#v = #moe.dist<attention, dp = varying>
#i = #moe.dist<attention, dp = invariant>
#s = #moe.dist<attention, dp = sharded(0)>
#p = #moe.dist<attention, dp = partial_sum>
module attributes {moe.phase = "spmd", moe.layout = #moe.layout<dp = 2, ep = 1, pp = 1, micro_batch = 1, global_batch = 4, seq = 4, capacity = 2.0, layers = [0]>} {
// expected-note@+1 {{operand #2 is here}}
moe.layer @l(%x: tensor<4x8xf32, #v>, %acc: tensor<8x8xf32, #i>) {
  // expected-error@+1 {{operand #2 must be partial_sum along 'dp', where the rows are varying, but is #moe.dist<attention, dp = invariant>}}
  %a = moe.linear_wgrad %x, %x, %acc module(attn) : (tensor<4x8xf32, #v>, tensor<4x8xf32, #v>, tensor<8x8xf32, #i>) -> tensor<8x8xf32, #i>
  moe.return
}
moe.model @m(%ids: tensor<4xi32, #v>, %labels: tensor<4xi32, #v>) {
  moe.return
}
}

// -----

// ... and that of equal rows is not: it would be dp times too large.
#v = #moe.dist<attention, dp = varying>
#i = #moe.dist<attention, dp = invariant>
#s = #moe.dist<attention, dp = sharded(0)>
#p = #moe.dist<attention, dp = partial_sum>
module attributes {moe.phase = "spmd", moe.layout = #moe.layout<dp = 2, ep = 1, pp = 1, micro_batch = 1, global_batch = 4, seq = 4, capacity = 2.0, layers = [0]>} {
// expected-note@+1 {{operand #2 is here}}
moe.layer @l(%x: tensor<4x8xf32, #i>, %acc: tensor<8x8xf32, #p>) {
  // expected-error@+1 {{operand #2 must be invariant along 'dp', where the rows are invariant, but is #moe.dist<attention, dp = partial_sum>}}
  %a = moe.linear_wgrad %x, %x, %acc module(attn) : (tensor<4x8xf32, #i>, tensor<4x8xf32, #i>, tensor<8x8xf32, #p>) -> tensor<8x8xf32, #p>
  moe.return
}
moe.model @m(%ids: tensor<4xi32, #v>, %labels: tensor<4xi32, #v>) {
  moe.return
}
}

// -----

// Other dialects would take any encoding for another.
#v = #moe.dist<attention, dp = varying>
#i = #moe.dist<attention, dp = invariant>
#s = #moe.dist<attention, dp = sharded(0)>
#p = #moe.dist<attention, dp = partial_sum>
module attributes {moe.phase = "spmd", moe.layout = #moe.layout<dp = 2, ep = 1, pp = 1, micro_batch = 1, global_batch = 4, seq = 4, capacity = 2.0, layers = [0]>} {
moe.layer @l(%x: tensor<4x8xf32, #p>) {
  // expected-error@+1 {{is not a moe op, so it can't read or make tensors that are distributed}}
  %y = builtin.unrealized_conversion_cast %x : tensor<4x8xf32, #p> to tensor<4x8xf32, #v>
  moe.return
}
moe.model @m(%ids: tensor<4xi32, #v>, %labels: tensor<4xi32, #v>) {
  moe.return
}
}

// -----

// A parameter is invariant.
#v = #moe.dist<attention, dp = varying>
#i = #moe.dist<attention, dp = invariant>
#s = #moe.dist<attention, dp = sharded(0)>
#p = #moe.dist<attention, dp = partial_sum>
module attributes {moe.phase = "spmd", moe.layout = #moe.layout<dp = 2, ep = 1, pp = 1, micro_batch = 1, global_batch = 4, seq = 4, capacity = 2.0, layers = [0]>} {
moe.layer @l(%x: tensor<4x8xf32, #v>) {
  // expected-error@+1 {{'w' must be #moe.dist<attention, dp = invariant> but is #moe.dist<attention, dp = varying>}}
  %w = moe.param ["w"] dims [hidden] init ones : tensor<8xf32, #v>
  moe.return
}
moe.model @m(%ids: tensor<4xi32, #v>, %labels: tensor<4xi32, #v>) {
  moe.return
}
}

// -----

// A collective goes over an axis that its operand names.
#v = #moe.dist<attention, dp = varying>
#i = #moe.dist<attention, dp = invariant>
#s = #moe.dist<attention, dp = sharded(0)>
#p = #moe.dist<attention, dp = partial_sum>
module attributes {moe.phase = "spmd", moe.layout = #moe.layout<dp = 2, ep = 1, pp = 1, micro_batch = 1, global_batch = 4, seq = 4, capacity = 2.0, layers = [0]>} {
moe.layer @l(%x: tensor<4x8xf32, #i>) {
  // expected-error@+1 {{goes over 'ep', which operand #0 does not name (#moe.dist<attention, dp = invariant>)}}
  %y = moe.vary %x over "ep" module(attn) : (tensor<4x8xf32, #i>) -> tensor<4x8xf32, #v>
  moe.return
}
moe.model @m(%ids: tensor<4xi32, #v>, %labels: tensor<4xi32, #v>) {
  moe.return
}
}

// -----

// Only an invariant value can be used as varying.
#v = #moe.dist<attention, dp = varying>
#i = #moe.dist<attention, dp = invariant>
#s = #moe.dist<attention, dp = sharded(0)>
#p = #moe.dist<attention, dp = partial_sum>
module attributes {moe.phase = "spmd", moe.layout = #moe.layout<dp = 2, ep = 1, pp = 1, micro_batch = 1, global_batch = 4, seq = 4, capacity = 2.0, layers = [0]>} {
// expected-note@+1 {{operand #0 is here}}
moe.layer @l(%x: tensor<4x8xf32, #p>) {
  // expected-error@+1 {{operand #0 must be invariant along 'dp', but is partial_sum}}
  %y = moe.vary %x over "dp" module(attn) : (tensor<4x8xf32, #p>) -> tensor<4x8xf32, #v>
  moe.return
}
moe.model @m(%ids: tensor<4xi32, #v>, %labels: tensor<4xi32, #v>) {
  moe.return
}
}

// -----

// A whole value is not reduced again.
#v = #moe.dist<attention, dp = varying>
#i = #moe.dist<attention, dp = invariant>
#s = #moe.dist<attention, dp = sharded(0)>
#p = #moe.dist<attention, dp = partial_sum>
module attributes {moe.phase = "spmd", moe.layout = #moe.layout<dp = 2, ep = 1, pp = 1, micro_batch = 1, global_batch = 4, seq = 4, capacity = 2.0, layers = [0]>} {
// expected-note@+1 {{operand #0 is here}}
moe.layer @l(%x: tensor<4x8xf32, #i>) {
  // expected-error@+1 {{operand #0 must be partial_sum or varying along 'dp', but is invariant}}
  %y = moe.all_reduce %x over "dp" module(attn) {reduction = #moe<reduction sum>} : (tensor<4x8xf32, #i>) -> tensor<4x8xf32, #i>
  moe.return
}
moe.model @m(%ids: tensor<4xi32, #v>, %labels: tensor<4xi32, #v>) {
  moe.return
}
}

// -----

// There are as many shards as ranks.
#v = #moe.dist<attention, dp = varying>
#i = #moe.dist<attention, dp = invariant>
#s = #moe.dist<attention, dp = sharded(0)>
#p = #moe.dist<attention, dp = partial_sum>
module attributes {moe.phase = "spmd", moe.layout = #moe.layout<dp = 2, ep = 1, pp = 1, micro_batch = 1, global_batch = 4, seq = 4, capacity = 2.0, layers = [0]>} {
moe.layer @l(%x: tensor<4x8xf32, #i>) {
  // expected-error@+1 {{must have 2 shards along 'dp', but has 1 of 4 rows}}
  %y = moe.slice %x over "dp" module(attn) : (tensor<4x8xf32, #i>) -> tensor<1x8xf32, #s>
  moe.return
}
moe.model @m(%ids: tensor<4xi32, #v>, %labels: tensor<4xi32, #v>) {
  moe.return
}
}
