// What can't be shrunk is an error at the op that stands in the way.
// RUN: moe-opt --moe-shrink=factor=2 -split-input-file -verify-diagnostics \
// RUN:   -allow-unregistered-dialect %s

// No phase.
// expected-error@+1 {{module has no 'moe.phase'}}
module {}

// -----

// No layout.
// expected-error@+1 {{module has no 'moe.layout'}}
module attributes {moe.phase = "model"} {}

// -----

// A schedule is of its sizes.
// expected-error@+1 {{phase sched is shrunk by moe-shrink-schedule}}
module attributes {moe.phase = "sched"} {}

// -----

// An op that is no part of a program.
#layout = #moe.layout<dp = 1, ep = 1, pp = 1, micro_batch = 1, global_batch = 2, seq = 4, capacity = 0.0, layers = [1]>
module attributes {moe.phase = "model", moe.layout = #layout} {
// expected-error@+1 {{can't be shrunk: it is no part of a program}}
func.func private @f()
}

// -----

// An op in a layer that nothing is known of.
#layout = #moe.layout<dp = 1, ep = 1, pp = 1, micro_batch = 1, global_batch = 2, seq = 4, capacity = 0.0, layers = [1]>
module attributes {moe.phase = "model", moe.layout = #layout} {
moe.layer @l(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error@+1 {{can't be shrunk: nothing says what the dimensions of 'other.add' count}}
  %y = "other.add"(%x, %x) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  moe.return %y : tensor<4x8xf32>
}
}

// -----

// A kernel that nothing is known of.
#layout = #moe.layout<dp = 1, ep = 1, pp = 1, micro_batch = 1, global_batch = 2, seq = 4, capacity = 0.0, layers = [1]>
module attributes {moe.phase = "kernels", moe.layout = #layout} {
moe.kernel @k op "mine" {flops = 0.0 : f64, bytes = 0.0 : f64, numeric_class = #moe<numeric_class row_invariant>, numbers = {}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
moe.layer @l(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error@+1 {{can't be shrunk: nothing says what the dimensions of 'mine' count}}
  %y = moe.call @k(%x) module(attn) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  moe.return %y : tensor<4x8xf32>
}
}

// -----

// A kernel with other operands than the library's.
#layout = #moe.layout<dp = 1, ep = 1, pp = 1, micro_batch = 1, global_batch = 2, seq = 4, capacity = 0.0, layers = [1]>
module attributes {moe.phase = "kernels", moe.layout = #layout} {
moe.kernel @k op "linear" {flops = 0.0 : f64, bytes = 0.0 : f64, numeric_class = #moe<numeric_class row_invariant>, numbers = {}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
moe.layer @l(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error@+1 {{can't be shrunk: its operands and results are not those of the op of its name}}
  %y = moe.call @k(%x) module(attn) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  moe.return %y : tensor<4x8xf32>
}
}

// -----

// A kernel whose code is made for its sizes.
#layout = #moe.layout<dp = 1, ep = 1, pp = 1, micro_batch = 1, global_batch = 2, seq = 4, capacity = 0.0, layers = [1]>
module attributes {moe.phase = "kernels", moe.layout = #layout} {
// expected-error@+1 {{can't be shrunk: it has a body already}}
moe.kernel @k op "rms_norm" {flops = 0.0 : f64, bytes = 0.0 : f64, numeric_class = #moe<numeric_class row_invariant>, numbers = {}} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32> {
^bb0(%x: memref<4x8xf32>, %w: memref<8xf32>, %y: memref<4x8xf32>):
  "other.end"() : () -> ()
}
moe.layer @l(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %w = moe.param ["w"] dims [hidden] init ones : tensor<8xf32>
  %y = moe.call @k(%x, %w) module(norm) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  moe.return %y : tensor<4x8xf32>
}
}

// -----

// A dimension that counts experts here and hidden there, of one size.
#layout = #moe.layout<dp = 1, ep = 1, pp = 1, micro_batch = 1, global_batch = 2, seq = 4, capacity = 0.0, layers = [1]>
module attributes {moe.phase = "model", moe.layout = #layout} {
moe.layer @l(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %w = moe.param ["w"] dims [experts, hidden] init normal : tensor<8x8xf32>
  %y = moe.linear %x, %w module(moe_router) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  // expected-error@+1 {{can't be shrunk: it takes one dimension for a count and for hidden}}
  %z = moe.add %x, %y module(residual) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  moe.return %z : tensor<4x8xf32>
}
}

// -----

// A value that nothing ties to a parameter.
#layout = #moe.layout<dp = 1, ep = 1, pp = 1, micro_batch = 1, global_batch = 2, seq = 4, capacity = 0.0, layers = [1]>
module attributes {moe.phase = "model", moe.layout = #layout} {
// expected-error@+1 {{can't be shrunk: nothing says what dimension #0 of a 'tensor<4x8xf32>' counts}}
moe.layer @l(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  moe.return %x : tensor<4x8xf32>
}
}

// -----

// Two sizes of one kind.
#layout = #moe.layout<dp = 1, ep = 1, pp = 1, micro_batch = 1, global_batch = 2, seq = 4, capacity = 0.0, layers = [1]>
module attributes {moe.phase = "model", moe.layout = #layout} {
moe.layer @l(%x: tensor<4x8xf32>) -> tensor<4x6xf32> {
  // expected-error@+1 {{can't be shrunk: hidden is 8 here and 6 elsewhere}}
  %w = moe.param ["w"] dims [hidden, hidden] init normal : tensor<6x8xf32>
  %y = moe.linear %x, %w module(attn) : (tensor<4x8xf32>, tensor<6x8xf32>) -> tensor<4x6xf32>
  moe.return %y : tensor<4x6xf32>
}
}

// -----

// A sequence that is not the layout's.
#layout = #moe.layout<dp = 1, ep = 1, pp = 1, micro_batch = 1, global_batch = 2, seq = 4, capacity = 0.0, layers = [1]>
module attributes {moe.phase = "model", moe.layout = #layout} {
moe.layer @l(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error@+1 {{can't be shrunk: sequence is 2 here and 4 elsewhere}}
  %y = moe.rope %x module(attn) {base = 10.0 : f64, head_dim = 8 : i64, sequence = 2 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  moe.return %y : tensor<4x8xf32>
}
}

// -----

// Gate and up together, but odd.
#layout = #moe.layout<dp = 1, ep = 1, pp = 1, micro_batch = 1, global_batch = 2, seq = 4, capacity = 0.0, layers = [1]>
module attributes {moe.phase = "model", moe.layout = #layout} {
moe.layer @l(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error@+1 {{can't be shrunk: gate_up_width = 7 is odd}}
  %w = moe.param ["w.{e}"] dims [experts, gate_up_width, hidden] init normal : tensor<2x7x8xf32>
  moe.return %x : tensor<4x8xf32>
}
}

// -----

// A size that is too small.
#layout = #moe.layout<dp = 1, ep = 1, pp = 1, micro_batch = 4, global_batch = 4, seq = 1, capacity = 0.0, layers = [1]>
// expected-error@+1 {{can't be shrunk: sequence = 1 is less than 2, the smallest size}}
module attributes {moe.phase = "model", moe.layout = #layout} {
}

// -----

// Heads of no known width.
#layout = #moe.layout<dp = 1, ep = 1, pp = 1, micro_batch = 1, global_batch = 2, seq = 4, capacity = 0.0, layers = [1]>
module attributes {moe.phase = "model", moe.layout = #layout} {
moe.layer @l(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error@+1 {{can't be shrunk: no parameter or attribute says what head_dim is}}
  %w = moe.param ["w"] dims [heads, hidden] init normal : tensor<8x8xf32>
  %y = moe.linear %x, %w module(attn) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  moe.return %y : tensor<4x8xf32>
}
}

// -----

// Heads that are no whole number of heads.
#layout = #moe.layout<dp = 1, ep = 1, pp = 1, micro_batch = 1, global_batch = 2, seq = 4, capacity = 0.0, layers = [1]>
module attributes {moe.phase = "model", moe.layout = #layout} {
moe.layer @l(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error@+1 {{can't be shrunk: a dimension of 9 is no multiple of head_dim = 8}}
  %w = moe.param ["w"] dims [heads, hidden] init normal : tensor<9x8xf32>
  %n = moe.param ["n"] dims [head_dim] init ones : tensor<8xf32>
  %y = moe.rms_norm %x, %n module(attn) {eps = 1.0e-06 : f64} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  moe.return %y : tensor<4x8xf32>
}
}

// -----

// A configuration of another program.
#layout = #moe.layout<dp = 1, ep = 1, pp = 1, micro_batch = 1, global_batch = 2, seq = 4, capacity = 0.0, layers = [1]>
// expected-error@+1 {{can't be shrunk: moe.config has hidden_size = 16, but hidden is 8}}
module attributes {moe.phase = "model", moe.layout = #layout, moe.config = {hidden_size = 16 : i64}} {
moe.layer @l(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %w = moe.param ["w"] dims [hidden] init ones : tensor<8xf32>
  %y = moe.rms_norm %x, %w module(norm) {eps = 1.0e-06 : f64} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  moe.return %y : tensor<4x8xf32>
}
}

// -----

// Rows that are not the layout's capacity.
#layout = #moe.layout<dp = 2, ep = 2, pp = 1, micro_batch = 1, global_batch = 2, seq = 4, capacity = 2.0, layers = [1]>
module attributes {moe.phase = "kernels", moe.layout = #layout} {
moe.kernel @permute_0 op "permute" {flops = 0.0 : f64, bytes = 0.0 : f64, numeric_class = #moe<numeric_class row_invariant>, numbers = {}} : (tensor<4x8xf32>, tensor<4x2xi32>) -> tensor<8x8xf32>
moe.kernel @rms_norm_0 op "rms_norm" {flops = 0.0 : f64, bytes = 0.0 : f64, numeric_class = #moe<numeric_class row_invariant>, numbers = {}} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
moe.layer @l(%x: tensor<4x8xf32>, %map: tensor<4x2xi32>, %send: !moe.rows<4, mean = 8>, %receive: !moe.rows<4, mean = 8>) -> tensor<15x8xf32> {
  %w = moe.param ["w"] dims [hidden] init ones : tensor<8xf32>
  %n = moe.call @rms_norm_0(%x, %w) module(norm) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %p = moe.call @permute_0(%n, %map) module(moe_dispatch) : (tensor<4x8xf32>, tensor<4x2xi32>) -> tensor<8x8xf32>
  // expected-error@+1 {{can't be shrunk: 15 rows are not the layout's capacity}}
  %y = moe.all_to_all %p, %send, %receive over "ep" module(moe_dispatch) : (tensor<8x8xf32>, !moe.rows<4, mean = 8>, !moe.rows<4, mean = 8>) -> tensor<15x8xf32>
  moe.return %y : tensor<15x8xf32>
}
}

// -----

// An exchange of rows that are no copies of tokens.
#layout = #moe.layout<dp = 2, ep = 2, pp = 1, micro_batch = 1, global_batch = 2, seq = 4, capacity = 2.0, layers = [1]>
module attributes {moe.phase = "kernels", moe.layout = #layout} {
moe.layer @l(%x: tensor<8xf32>, %send: !moe.rows<4, mean = 8>, %receive: !moe.rows<4, mean = 8>) -> tensor<16xf32> {
  // expected-error@+1 {{can't be shrunk: neither its input nor its result are copies of tokens}}
  %y = moe.all_to_all %x, %send, %receive over "ep" module(moe_dispatch) : (tensor<8xf32>, !moe.rows<4, mean = 8>, !moe.rows<4, mean = 8>) -> tensor<16xf32>
  moe.return %y : tensor<16xf32>
}
}

// -----

// A record that is none.
// expected-error@+1 {{attribute 'moe.original' must be a dictionary of positive sizes (i64)}}
module attributes {moe.phase = "model", moe.original = {hidden = 0 : i64}} {}

// -----

// expected-error@+1 {{attribute 'moe.original' must be a dictionary of positive sizes (i64)}}
module attributes {moe.phase = "model", moe.original = {width = 8 : i64}} {}
