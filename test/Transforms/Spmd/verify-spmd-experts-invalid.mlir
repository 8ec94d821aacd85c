// Each rule of the verifier about experts, ragged tensors and stages, broken once.
// RUN: moe-opt --split-input-file --verify-diagnostics --moe-verify-spmd %s

// Weights stacked by expert are sharded along ep.
#v = #moe.dist<attention, dp = varying>
#ev = #moe.dist<experts, ep = varying>
#ei = #moe.dist<experts, ep = invariant>
#es = #moe.dist<experts, ep = sharded(0)>
module attributes {moe.phase = "spmd", moe.layout = #moe.layout<dp = 2, ep = 2, pp = 1, micro_batch = 1, global_batch = 4, seq = 4, capacity = 2.0, layers = [0]>} {
moe.layer @l(%x: tensor<4x8xf32, #v>) {
  // expected-error@+1 {{'layers.{i}.{e}.w' must be #moe.dist<experts, ep = sharded(0)>, as it is stacked by expert, but is #moe.dist<experts, ep = invariant>}}
  %w = moe.param ["layers.{i}.{e}.w"] dims [experts, hidden] init ones : tensor<4x8xf32, #ei>
  moe.return
}
moe.model @m(%ids: tensor<4xi32, #v>, %labels: tensor<4xi32, #v>) {
  moe.return
}
}

// -----

// Only an exchange of rows crosses grids.
#v = #moe.dist<attention, dp = varying>
#ev = #moe.dist<experts, ep = varying>
#ei = #moe.dist<experts, ep = invariant>
#es = #moe.dist<experts, ep = sharded(0)>
module attributes {moe.phase = "spmd", moe.layout = #moe.layout<dp = 2, ep = 2, pp = 1, micro_batch = 1, global_batch = 4, seq = 4, capacity = 2.0, layers = [0]>} {
// expected-note@+1 {{operand #1 is here}}
moe.layer @l(%x: tensor<4x8xf32, #v>, %e: tensor<4x8xf32, #ev>) {
  // expected-error@+1 {{operand #1 must be on grid 'attention' like operand #0, but is on grid 'experts'}}
  %y = moe.add %x, %e module(residual) : (tensor<4x8xf32, #v>, tensor<4x8xf32, #ev>) -> tensor<4x8xf32, #v>
  moe.return
}
moe.model @m(%ids: tensor<4xi32, #v>, %labels: tensor<4xi32, #v>) {
  moe.return
}
}

// -----

// Nor can weights cross them.
#v = #moe.dist<attention, dp = varying>
#ev = #moe.dist<experts, ep = varying>
#ei = #moe.dist<experts, ep = invariant>
#es = #moe.dist<experts, ep = sharded(0)>
module attributes {moe.phase = "spmd", moe.layout = #moe.layout<dp = 2, ep = 2, pp = 1, micro_batch = 1, global_batch = 4, seq = 4, capacity = 2.0, layers = [0]>} {
// expected-note@+1 {{operand #1 is here}}
moe.layer @l(%e: tensor<16x8xf32, #ev>, %w: tensor<2x8x8xf32, #moe.dist<attention, dp = invariant>>, %rows: !moe.rows<2, mean = 8>) {
  // expected-error@+1 {{operand #1 must be on grid 'experts' like the rows, but is on grid 'attention'}}
  %y = moe.grouped_linear %e, %w, %rows module(moe_experts) : (tensor<16x8xf32, #ev>, tensor<2x8x8xf32, #moe.dist<attention, dp = invariant>>, !moe.rows<2, mean = 8>) -> tensor<16x8xf32, #ev>
  moe.return
}
moe.model @m(%ids: tensor<4xi32, #v>, %labels: tensor<4xi32, #v>) {
  moe.return
}
}

// -----

// An exchange goes to the other grid.
#v = #moe.dist<attention, dp = varying>
#ev = #moe.dist<experts, ep = varying>
#ei = #moe.dist<experts, ep = invariant>
#es = #moe.dist<experts, ep = sharded(0)>
module attributes {moe.phase = "spmd", moe.layout = #moe.layout<dp = 2, ep = 2, pp = 1, micro_batch = 1, global_batch = 4, seq = 4, capacity = 2.0, layers = [0]>} {
moe.layer @l(%x: tensor<8x8xf32, #v>, %c: !moe.rows<4, mean = 8>) {
  %r = moe.exchange_counts %c over "ep" module(moe_dispatch) : (!moe.rows<4, mean = 8>) -> !moe.rows<4, mean = 8>
  // expected-error@+1 {{takes a value from grid attention to grid experts or back, but the result is on attention}}
  %e = moe.all_to_all %x, %c, %r over "ep" module(moe_dispatch) : (tensor<8x8xf32, #v>, !moe.rows<4, mean = 8>, !moe.rows<4, mean = 8>) -> tensor<16x8xf32, #v>
  moe.return
}
moe.model @m(%ids: tensor<4xi32, #v>, %labels: tensor<4xi32, #v>) {
  moe.return
}
}

// -----

// The buffer has the capacity's rows: min(2 * 4 * min(2, 2), 2 * 8) = 16.
#v = #moe.dist<attention, dp = varying>
#ev = #moe.dist<experts, ep = varying>
#ei = #moe.dist<experts, ep = invariant>
#es = #moe.dist<experts, ep = sharded(0)>
module attributes {moe.phase = "spmd", moe.layout = #moe.layout<dp = 2, ep = 2, pp = 1, micro_batch = 1, global_batch = 4, seq = 4, capacity = 2.0, layers = [0]>} {
moe.layer @l(%x: tensor<8x8xf32, #v>, %c: !moe.rows<4, mean = 8>) {
  %r = moe.exchange_counts %c over "ep" module(moe_dispatch) : (!moe.rows<4, mean = 8>) -> !moe.rows<4, mean = 8>
  // expected-error@+1 {{result must have 16 rows, but has 12}}
  %e = moe.all_to_all %x, %c, %r over "ep" module(moe_dispatch) : (tensor<8x8xf32, #v>, !moe.rows<4, mean = 8>, !moe.rows<4, mean = 8>) -> tensor<12x8xf32, #ev>
  moe.return
}
moe.model @m(%ids: tensor<4xi32, #v>, %labels: tensor<4xi32, #v>) {
  moe.return
}
}

// -----

// What is sent are the micro-batch's copies.
#v = #moe.dist<attention, dp = varying>
#ev = #moe.dist<experts, ep = varying>
#ei = #moe.dist<experts, ep = invariant>
#es = #moe.dist<experts, ep = sharded(0)>
module attributes {moe.phase = "spmd", moe.layout = #moe.layout<dp = 2, ep = 2, pp = 1, micro_batch = 1, global_batch = 4, seq = 4, capacity = 2.0, layers = [0]>} {
moe.layer @l(%x: tensor<12x8xf32, #v>, %c: !moe.rows<4, mean = 8>) {
  %r = moe.exchange_counts %c over "ep" module(moe_dispatch) : (!moe.rows<4, mean = 8>) -> !moe.rows<4, mean = 8>
  // expected-error@+1 {{input must have 8 rows, but has 12}}
  %e = moe.all_to_all %x, %c, %r over "ep" module(moe_dispatch) : (tensor<12x8xf32, #v>, !moe.rows<4, mean = 8>, !moe.rows<4, mean = 8>) -> tensor<16x8xf32, #ev>
  moe.return
}
moe.model @m(%ids: tensor<4xi32, #v>, %labels: tensor<4xi32, #v>) {
  moe.return
}
}

// -----

// Both sides count by one exchange.
#v = #moe.dist<attention, dp = varying>
#ev = #moe.dist<experts, ep = varying>
#ei = #moe.dist<experts, ep = invariant>
#es = #moe.dist<experts, ep = sharded(0)>
module attributes {moe.phase = "spmd", moe.layout = #moe.layout<dp = 2, ep = 2, pp = 1, micro_batch = 1, global_batch = 4, seq = 4, capacity = 2.0, layers = [0]>} {
// expected-note@+1 {{they are made here}}
moe.layer @l(%x: tensor<8x8xf32, #v>, %c: !moe.rows<4, mean = 8>, %other: !moe.rows<4, mean = 8>) {
  // expected-error@+1 {{receive counts must be what moe.exchange_counts gives of the other counts}}
  %e = moe.all_to_all %x, %c, %other over "ep" module(moe_dispatch) : (tensor<8x8xf32, #v>, !moe.rows<4, mean = 8>, !moe.rows<4, mean = 8>) -> tensor<16x8xf32, #ev>
  moe.return
}
moe.model @m(%ids: tensor<4xi32, #v>, %labels: tensor<4xi32, #v>) {
  moe.return
}
}

// -----

// ... on the way back, too, where they change places.
#v = #moe.dist<attention, dp = varying>
#ev = #moe.dist<experts, ep = varying>
#ei = #moe.dist<experts, ep = invariant>
#es = #moe.dist<experts, ep = sharded(0)>
module attributes {moe.phase = "spmd", moe.layout = #moe.layout<dp = 2, ep = 2, pp = 1, micro_batch = 1, global_batch = 4, seq = 4, capacity = 2.0, layers = [0]>} {
moe.layer @l(%x: tensor<8x8xf32, #v>, %c: !moe.rows<4, mean = 8>, %e0: tensor<16x8xf32, #ev>) {
  %r = moe.exchange_counts %c over "ep" module(moe_dispatch) : (!moe.rows<4, mean = 8>) -> !moe.rows<4, mean = 8>
  // expected-note@+1 {{they are made here}}
  %q = moe.exchange_counts %r over "ep" module(moe_dispatch) : (!moe.rows<4, mean = 8>) -> !moe.rows<4, mean = 8>
  // expected-error@+1 {{send counts must be what moe.exchange_counts gives of the other counts}}
  %e = moe.all_to_all %e0, %q, %c over "ep" module(moe_dispatch) : (tensor<16x8xf32, #ev>, !moe.rows<4, mean = 8>, !moe.rows<4, mean = 8>) -> tensor<8x8xf32, #v>
  moe.return
}
moe.model @m(%ids: tensor<4xi32, #v>, %labels: tensor<4xi32, #v>) {
  moe.return
}
}

// -----

// The mean is a number of copies.
#v = #moe.dist<attention, dp = varying>
#ev = #moe.dist<experts, ep = varying>
#ei = #moe.dist<experts, ep = invariant>
#es = #moe.dist<experts, ep = sharded(0)>
module attributes {moe.phase = "spmd", moe.layout = #moe.layout<dp = 2, ep = 2, pp = 1, micro_batch = 1, global_batch = 4, seq = 4, capacity = 2.0, layers = [0]>} {
moe.layer @l(%x: tensor<8x8xf32, #v>, %c: !moe.rows<4, mean = 9>) {
  // expected-error@+1 {{mean of '!moe.rows<4, mean = 9>' must be a multiple of the micro-batch's 4 tokens, of at most 4 experts each}}
  %r = moe.exchange_counts %c over "ep" module(moe_dispatch) : (!moe.rows<4, mean = 9>) -> !moe.rows<4, mean = 9>
  moe.return
}
moe.model @m(%ids: tensor<4xi32, #v>, %labels: tensor<4xi32, #v>) {
  moe.return
}
}

// -----

// A token goes to each expert once.
#v = #moe.dist<attention, dp = varying>
#ev = #moe.dist<experts, ep = varying>
#ei = #moe.dist<experts, ep = invariant>
#es = #moe.dist<experts, ep = sharded(0)>
module attributes {moe.phase = "spmd", moe.layout = #moe.layout<dp = 2, ep = 2, pp = 1, micro_batch = 1, global_batch = 4, seq = 4, capacity = 2.0, layers = [0]>} {
moe.layer @l(%x: tensor<8x8xf32, #v>, %c: !moe.rows<4, mean = 20>) {
  // expected-error@+1 {{must be a multiple of the micro-batch's 4 tokens, of at most 4 experts each}}
  %r = moe.exchange_counts %c over "ep" module(moe_dispatch) : (!moe.rows<4, mean = 20>) -> !moe.rows<4, mean = 20>
  moe.return
}
moe.model @m(%ids: tensor<4xi32, #v>, %labels: tensor<4xi32, #v>) {
  moe.return
}
}

// -----

// Counts are the map's.
#v = #moe.dist<attention, dp = varying>
#ev = #moe.dist<experts, ep = varying>
#ei = #moe.dist<experts, ep = invariant>
#es = #moe.dist<experts, ep = sharded(0)>
module attributes {moe.phase = "spmd", moe.layout = #moe.layout<dp = 2, ep = 2, pp = 1, micro_batch = 1, global_batch = 4, seq = 4, capacity = 2.0, layers = [0]>} {
moe.layer @l(%i: tensor<4x2xi32, #v>) {
  // expected-error@+1 {{counts must have mean = 8, the copies of the map, but are '!moe.rows<4, mean = 12>'}}
  %map, %n = moe.permutation %i module(moe_preprocess) : (tensor<4x2xi32, #v>) -> (tensor<4x2xi32, #v>, !moe.rows<4, mean = 12>)
  moe.return
}
moe.model @m(%ids: tensor<4xi32, #v>, %labels: tensor<4xi32, #v>) {
  moe.return
}
}

// -----

// Local rows are those of local experts.
#v = #moe.dist<attention, dp = varying>
#ev = #moe.dist<experts, ep = varying>
#ei = #moe.dist<experts, ep = invariant>
#es = #moe.dist<experts, ep = sharded(0)>
module attributes {moe.phase = "spmd", moe.layout = #moe.layout<dp = 2, ep = 2, pp = 1, micro_batch = 1, global_batch = 4, seq = 4, capacity = 2.0, layers = [0]>} {
moe.layer @l(%x: tensor<8x8xf32, #v>, %c: !moe.rows<4, mean = 8>) {
  %r = moe.exchange_counts %c over "ep" module(moe_dispatch) : (!moe.rows<4, mean = 8>) -> !moe.rows<4, mean = 8>
  // expected-error@+1 {{result must be '!moe.rows<2, mean = 8>', but is '!moe.rows<1, mean = 8>'}}
  %n = moe.local_rows %r module(moe_dispatch) : (!moe.rows<4, mean = 8>) -> !moe.rows<1, mean = 8>
  moe.return
}
moe.model @m(%ids: tensor<4xi32, #v>, %labels: tensor<4xi32, #v>) {
  moe.return
}
}

// -----

// Chunks come from the ranks of ep.
#v = #moe.dist<attention, dp = varying>
#ev = #moe.dist<experts, ep = varying>
#ei = #moe.dist<experts, ep = invariant>
#es = #moe.dist<experts, ep = sharded(0)>
module attributes {moe.phase = "spmd", moe.layout = #moe.layout<dp = 2, ep = 2, pp = 1, micro_batch = 1, global_batch = 4, seq = 4, capacity = 2.0, layers = [0]>} {
moe.layer @l(%x: tensor<8x8xf32, #v>, %c: !moe.rows<4, mean = 8>, %e: tensor<16x8xf32, #ev>) {
  %r = moe.exchange_counts %c over "ep" module(moe_dispatch) : (!moe.rows<4, mean = 8>) -> !moe.rows<4, mean = 8>
  // expected-error@+1 {{ranks must be ep = 2, but is 4}}
  %s = moe.sort_chunks %e, %r module(moe_dispatch) {ranks = 4 : i64} : (tensor<16x8xf32, #ev>, !moe.rows<4, mean = 8>) -> tensor<16x8xf32, #ev>
  moe.return
}
moe.model @m(%ids: tensor<4xi32, #v>, %labels: tensor<4xi32, #v>) {
  moe.return
}
}

// -----

// What computes on rows has the capacity's, too.
#v = #moe.dist<attention, dp = varying>
#ev = #moe.dist<experts, ep = varying>
#ei = #moe.dist<experts, ep = invariant>
#es = #moe.dist<experts, ep = sharded(0)>
module attributes {moe.phase = "spmd", moe.layout = #moe.layout<dp = 2, ep = 2, pp = 1, micro_batch = 1, global_batch = 4, seq = 4, capacity = 2.0, layers = [0]>} {
moe.layer @l(%e: tensor<8x8xf32, #ev>, %w: tensor<2x8x8xf32, #es>, %rows: !moe.rows<2, mean = 8>) {
  // expected-error@+1 {{operand #0 must have 16 rows, but has 8}}
  %y = moe.grouped_linear %e, %w, %rows module(moe_experts) : (tensor<8x8xf32, #ev>, tensor<2x8x8xf32, #es>, !moe.rows<2, mean = 8>) -> tensor<8x8xf32, #ev>
  moe.return
}
moe.model @m(%ids: tensor<4xi32, #v>, %labels: tensor<4xi32, #v>) {
  moe.return
}
}

// -----

// Each apply names its stage.
#v = #moe.dist<attention, dp = varying>
#i = #moe.dist<attention, dp = invariant>
module attributes {moe.phase = "spmd", moe.layout = #moe.layout<dp = 2, ep = 1, pp = 2, micro_batch = 1, global_batch = 4, seq = 4, capacity = 2.0, layers = [2, 1]>} {
moe.layer @norm(%x: tensor<4x8xf32, #v>) -> tensor<4x8xf32, #v> {
  %w = moe.param ["layers.{i}.norm.weight"] dims [hidden] init ones : tensor<8xf32, #i>
  %y = moe.rms_norm %x, %w module(norm) {eps = 1.0e-06 : f64} : (tensor<4x8xf32, #v>, tensor<8xf32, #i>) -> tensor<4x8xf32, #v>
  moe.return %y : tensor<4x8xf32, #v>
}
moe.model @m(%h0: tensor<4x8xf32, #v>) {
  %h1 = moe.apply @norm [0 to 2] stage 0 (%h0) : (tensor<4x8xf32, #v>) -> tensor<4x8xf32, #v>
  // expected-error@+1 {{must name its stage}}
  %h2 = moe.apply @norm [2 to 3] (%h1) : (tensor<4x8xf32, #v>) -> tensor<4x8xf32, #v>
  moe.return
}
}

// -----

// ... which exists.
#v = #moe.dist<attention, dp = varying>
#i = #moe.dist<attention, dp = invariant>
module attributes {moe.phase = "spmd", moe.layout = #moe.layout<dp = 2, ep = 1, pp = 2, micro_batch = 1, global_batch = 4, seq = 4, capacity = 2.0, layers = [2, 1]>} {
moe.layer @norm(%x: tensor<4x8xf32, #v>) -> tensor<4x8xf32, #v> {
  %w = moe.param ["layers.{i}.norm.weight"] dims [hidden] init ones : tensor<8xf32, #i>
  %y = moe.rms_norm %x, %w module(norm) {eps = 1.0e-06 : f64} : (tensor<4x8xf32, #v>, tensor<8xf32, #i>) -> tensor<4x8xf32, #v>
  moe.return %y : tensor<4x8xf32, #v>
}
moe.model @m(%h0: tensor<4x8xf32, #v>) {
  %h1 = moe.apply @norm [0 to 2] stage 0 (%h0) : (tensor<4x8xf32, #v>) -> tensor<4x8xf32, #v>
  // expected-error@+1 {{stage must be one of pp = 2, but is 2}}
  %h2 = moe.apply @norm [2 to 3] stage 2 (%h1) : (tensor<4x8xf32, #v>) -> tensor<4x8xf32, #v>
  moe.return
}
}

// -----

// Stages ascend.
#v = #moe.dist<attention, dp = varying>
#i = #moe.dist<attention, dp = invariant>
module attributes {moe.phase = "spmd", moe.layout = #moe.layout<dp = 2, ep = 1, pp = 2, micro_batch = 1, global_batch = 4, seq = 4, capacity = 2.0, layers = [2, 1]>} {
moe.layer @norm(%x: tensor<4x8xf32, #v>) -> tensor<4x8xf32, #v> {
  %w = moe.param ["layers.{i}.norm.weight"] dims [hidden] init ones : tensor<8xf32, #i>
  %y = moe.rms_norm %x, %w module(norm) {eps = 1.0e-06 : f64} : (tensor<4x8xf32, #v>, tensor<8xf32, #i>) -> tensor<4x8xf32, #v>
  moe.return %y : tensor<4x8xf32, #v>
}
moe.model @m(%h0: tensor<4x8xf32, #v>) {
  // expected-note@+1 {{the apply before is here}}
  %h1 = moe.apply @norm [0 to 2] stage 1 (%h0) : (tensor<4x8xf32, #v>) -> tensor<4x8xf32, #v>
  // expected-error@+1 {{stages must ascend, but 0 follows 1}}
  %h2 = moe.apply @norm [2 to 3] stage 0 (%h1) : (tensor<4x8xf32, #v>) -> tensor<4x8xf32, #v>
  moe.return
}
}

// -----

// No layer is left out.
#v = #moe.dist<attention, dp = varying>
#i = #moe.dist<attention, dp = invariant>
module attributes {moe.phase = "spmd", moe.layout = #moe.layout<dp = 2, ep = 1, pp = 2, micro_batch = 1, global_batch = 4, seq = 4, capacity = 2.0, layers = [2, 1]>} {
moe.layer @norm(%x: tensor<4x8xf32, #v>) -> tensor<4x8xf32, #v> {
  %w = moe.param ["layers.{i}.norm.weight"] dims [hidden] init ones : tensor<8xf32, #i>
  %y = moe.rms_norm %x, %w module(norm) {eps = 1.0e-06 : f64} : (tensor<4x8xf32, #v>, tensor<8xf32, #i>) -> tensor<4x8xf32, #v>
  moe.return %y : tensor<4x8xf32, #v>
}
moe.model @m(%h0: tensor<4x8xf32, #v>) {
  // expected-note@+1 {{the apply before is here}}
  %h1 = moe.apply @norm [0 to 1] stage 0 (%h0) : (tensor<4x8xf32, #v>) -> tensor<4x8xf32, #v>
  // expected-error@+1 {{must go on with layer 1, but starts with layer 2}}
  %h2 = moe.apply @norm [2 to 4] stage 1 (%h1) : (tensor<4x8xf32, #v>) -> tensor<4x8xf32, #v>
  moe.return
}
}

// -----

// Each stage holds what the layout lists.
#v = #moe.dist<attention, dp = varying>
#i = #moe.dist<attention, dp = invariant>
module attributes {moe.phase = "spmd", moe.layout = #moe.layout<dp = 2, ep = 1, pp = 2, micro_batch = 1, global_batch = 4, seq = 4, capacity = 2.0, layers = [2, 1]>} {
moe.layer @norm(%x: tensor<4x8xf32, #v>) -> tensor<4x8xf32, #v> {
  %w = moe.param ["layers.{i}.norm.weight"] dims [hidden] init ones : tensor<8xf32, #i>
  %y = moe.rms_norm %x, %w module(norm) {eps = 1.0e-06 : f64} : (tensor<4x8xf32, #v>, tensor<8xf32, #i>) -> tensor<4x8xf32, #v>
  moe.return %y : tensor<4x8xf32, #v>
}
// expected-error@+1 {{holds 1 layers on stage 0, but the layout lists 2}}
moe.model @m(%h0: tensor<4x8xf32, #v>) {
  %h1 = moe.apply @norm [0 to 1] stage 0 (%h0) : (tensor<4x8xf32, #v>) -> tensor<4x8xf32, #v>
  %h2 = moe.apply @norm [1 to 3] stage 1 (%h1) : (tensor<4x8xf32, #v>) -> tensor<4x8xf32, #v>
  moe.return
}
}
