// Collectives, distributions and layouts: what each verifier rejects, once.
// RUN: moe-opt %s -split-input-file -verify-diagnostics

func.func @f(%c: !moe.rows<8, mean = 32>) {
  // expected-error @+1 {{'moe.exchange_counts' op result must have as many groups as the counts}}
  %0 = moe.exchange_counts %c over "ep" module(moe_dispatch) : (!moe.rows<8, mean = 32>) -> !moe.rows<4, mean = 32>
  return
}

// -----

func.func @f(%x: tensor<32x16xf32>, %s: !moe.rows<8, mean = 32>, %r: !moe.rows<8, mean = 32>) {
  // expected-error @+1 {{'moe.all_to_all' op input and result must be [rows] or [rows, width] of one width, but got 'tensor<32x16xf32>' and 'tensor<64x8xf32>'}}
  %0 = moe.all_to_all %x, %s, %r over "ep" module(moe_dispatch) : (tensor<32x16xf32>, !moe.rows<8, mean = 32>, !moe.rows<8, mean = 32>) -> tensor<64x8xf32>
  return
}

// -----

func.func @f(%x: tensor<32xf32>, %s: !moe.rows<8, mean = 32>, %r: !moe.rows<4, mean = 32>) {
  // expected-error @+1 {{'moe.all_to_all' op send and receive counts must have as many groups}}
  %0 = moe.all_to_all %x, %s, %r over "ep" module(moe_dispatch) : (tensor<32xf32>, !moe.rows<8, mean = 32>, !moe.rows<4, mean = 32>) -> tensor<64xf32>
  return
}

// -----

func.func @f(%x: tensor<8xf32>) {
  // expected-error @+1 {{'moe.all_reduce' op result must be [8], but got [4]}}
  %0 = moe.all_reduce %x over "dp" module(head) {reduction = #moe<reduction sum>} : (tensor<8xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<8xf32>) {
  // expected-error @+1 {{'moe.reduce_scatter' op rows of the result must divide those of the input}}
  %0 = moe.reduce_scatter %x over "dp" module(head) : (tensor<8xf32>) -> tensor<3xf32>
  return
}

// -----

func.func @f(%x: tensor<3xf32>) {
  // expected-error @+1 {{'moe.all_gather' op rows of the input must divide those of the result}}
  %0 = moe.all_gather %x over "dp" module(head) : (tensor<3xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @f(%x: tensor<8xf32>) {
  // expected-error @+1 {{'moe.slice' op rows of the result must divide those of the input}}
  %0 = moe.slice %x over "dp" module(head) : (tensor<8xf32>) -> tensor<3xf32>
  return
}

// -----

func.func @f(%x: tensor<8xf32>) {
  // expected-error @+1 {{'moe.vary' op result must be [8], but got [4]}}
  %0 = moe.vary %x over "dp" module(head) : (tensor<8xf32>) -> tensor<4xf32>
  return
}

// -----

// expected-error @+1 {{unknown grid 'mesh', expected attention or experts}}
func.func private @f(tensor<8x4xf32, #moe.dist<mesh>>)

// -----

// expected-error @+1 {{grid 'attention' has no axis 'ep'}}
func.func private @f(tensor<8x4xf32, #moe.dist<attention, ep = varying>>)

// -----

// expected-error @+1 {{axis 'ep' is named twice}}
func.func private @f(tensor<8x4xf32, #moe.dist<experts, ep = varying, ep = varying>>)

// -----

// expected-error @+1 {{sharded dimension must not be negative}}
func.func private @f(tensor<8x4xf32, #moe.dist<attention, dp = sharded(-1)>>)

// -----

// expected-error @+1 {{axis 'dp' shards dimension 2 of a tensor of rank 2}}
func.func private @f(tensor<8x4xf32, #moe.dist<attention, dp = sharded(2)>>)

// -----

// expected-error @+1 {{expected invariant, varying, sharded(dim), flat, partial_sum or partial_max, but got 'half'}}
func.func private @f(tensor<8x4xf32, #moe.dist<attention, dp = half>>)

// -----

// expected-error @+1 {{seq must be at least 1, but got 0}}
module attributes {moe.layout = #moe.layout<dp = 4, ep = 2, pp = 2, micro_batch = 1, global_batch = 8, seq = 0, capacity = 2.0, layers = [1, 1]>} {}

// -----

// expected-error @+1 {{ep = 3 must divide dp = 4}}
module attributes {moe.layout = #moe.layout<dp = 4, ep = 3, pp = 2, micro_batch = 1, global_batch = 8, seq = 16, capacity = 2.0, layers = [1, 1]>} {}

// -----

// expected-error @+1 {{global_batch = 6 must be a multiple of dp * micro_batch = 4}}
module attributes {moe.layout = #moe.layout<dp = 4, ep = 2, pp = 2, micro_batch = 1, global_batch = 6, seq = 16, capacity = 2.0, layers = [1, 1]>} {}

// -----

// expected-error @+1 {{capacity must be 0 (worst) or at least 1}}
module attributes {moe.layout = #moe.layout<dp = 4, ep = 2, pp = 2, micro_batch = 1, global_batch = 8, seq = 16, capacity = 0.5, layers = [1, 1]>} {}

// -----

// expected-error @+1 {{layers must list 2 stages, but lists 1}}
module attributes {moe.layout = #moe.layout<dp = 4, ep = 2, pp = 2, micro_batch = 1, global_batch = 8, seq = 16, capacity = 2.0, layers = [2]>} {}

// -----

// expected-error @+1 {{a stage can't have -1 layers}}
module attributes {moe.layout = #moe.layout<dp = 4, ep = 2, pp = 2, micro_batch = 1, global_batch = 8, seq = 16, capacity = 2.0, layers = [3, -1]>} {}

// -----

// expected-error @+1 {{'builtin.module' op attribute 'moe.phase' must be one of "model", "spmd", "training", "kernels", "sched"}}
module attributes {moe.phase = "later"} {}

// -----

// expected-error @+1 {{'builtin.module' op attribute 'moe.layout' must be a #moe.layout}}
module attributes {moe.layout = "ep=2"} {}

// -----

// expected-error @+1 {{'builtin.module' op attribute 'moe.target' must be a string}}
module attributes {moe.target = 16} {}
