// Kernels are formed from training IR only, and from all of the module.
// RUN: moe-opt --moe-form-kernels %s -split-input-file -verify-diagnostics

// expected-error @+1 {{expected a module in phase training, but it is in phase spmd}}
module attributes {moe.phase = "spmd"} {}

// -----

// expected-error @+1 {{expected a module in phase training, but it is in phase kernels}}
module attributes {moe.phase = "kernels"} {}

// -----

module attributes {moe.phase = "training"} {
// expected-error @+1 {{'func.func' op is no part of a training program}}
func.func @f(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %y = moe.add %x, %x module(residual) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
}
