// A kernel that is not what its op takes is an error that names the operand.
// RUN: moe-opt --moe-generate-kernels -split-input-file -verify-diagnostics %s

// expected-error@+1 {{expected a module in phase kernels, but it is in phase training}}
module attributes {moe.phase = "training"} {
}

// -----

module attributes {moe.phase = "kernels"} {
// expected-error@+1 {{kernel 'k' (rms_norm): operand 2 (y): dimension 1 is 8, must be m*d, a multiple of 9}}
moe.kernel @k op "rms_norm" {bytes = 1.0 : f64, flops = 1.0 : f64, numbers = {eps = 1.0e-06 : f64}, numeric_class = #moe<numeric_class row_invariant>}
  : (tensor<4x8xf32>, tensor<9xf32>) -> tensor<4x8xf32>
}

// -----

module attributes {moe.phase = "kernels"} {
// expected-error@+1 {{kernel 'k' (rms_norm): attribute 'eps' is missing}}
moe.kernel @k op "rms_norm" {bytes = 1.0 : f64, flops = 1.0 : f64, numbers = {}, numeric_class = #moe<numeric_class row_invariant>}
  : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
}

// -----

module attributes {moe.phase = "kernels"} {
// expected-error@+1 {{operand 1 is 'memref<8xf64>'; kernels take static tensors of f32, bf16 or i32}}
moe.kernel @k op "add" {bytes = 1.0 : f64, flops = 1.0 : f64, numbers = {}, numeric_class = #moe<numeric_class row_invariant>}
  : (tensor<8xf32>, tensor<8xf64>) -> tensor<8xf32>
}

// -----

module attributes {moe.phase = "kernels"} {
// expected-error@+1 {{arguments of the body must be 'memref<8xf32>', 'memref<8xf32>', 'memref<8xf32>'}}
moe.kernel @k op "add" {bytes = 1.0 : f64, flops = 1.0 : f64, numbers = {}, numeric_class = #moe<numeric_class row_invariant>}
  : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> {
^bb0(%a: memref<8xf32>, %b: memref<8xf32>):
}
}
