// What may not stand in phase kernels.
// RUN: moe-opt --moe-verify-kernels %s -split-input-file -verify-diagnostics

// expected-error @+1 {{expected a module in phase kernels, but it is in phase training}}
module attributes {moe.phase = "training"} {}

// -----

module attributes {moe.phase = "kernels"} {
moe.layer @l(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{'moe.add' op can't appear in phase kernels; moe-form-kernels turns it into a moe.call}}
  %y = moe.add %x, %x module(residual) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  moe.return %y : tensor<4x8xf32>
}
}

// -----

#own = #moe.dist<attention, dp = varying>
module attributes {moe.phase = "kernels"} {
moe.kernel @k op "add" {bytes = 1.0 : f64, flops = 1.0 : f64, numbers = {}, numeric_class = #moe<numeric_class row_invariant>} : (tensor<4x8xf32, #own>, tensor<4x8xf32, #own>) -> tensor<4x8xf32, #own>
moe.layer @l(%x: tensor<4x8xf32, #own>) -> tensor<4x8xf32, #own> {
  // expected-error @+1 {{'moe.call' op has a distribution, which phase kernels has not}}
  %y = moe.call @k(%x, %x) module(residual) : (tensor<4x8xf32, #own>, tensor<4x8xf32, #own>) -> tensor<4x8xf32, #own>
  moe.return %y : tensor<4x8xf32, #own>
}
}

// -----

// A second decision may choose other experts.
module attributes {moe.phase = "kernels"} {
moe.kernel @r op "route" {bytes = 1.0 : f64, flops = 1.0 : f64, numbers = {normalize = 1.0 : f64}, numeric_class = #moe<numeric_class row_invariant>} : (tensor<4x8xf32>) -> (tensor<4x2xf32>, tensor<4x2xi32>)
moe.layer @l(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  moe.backward saved(%x : tensor<4x8xf32>) {
  ^bb0(%dy: tensor<4x8xf32>, %sx: tensor<4x8xf32>):
    // expected-error @+1 {{decides a routing in backward; it is decided once, in forward, and saved}}
    %p, %e = moe.call @r(%sx) module(moe_router) : (tensor<4x8xf32>) -> (tensor<4x2xf32>, tensor<4x2xi32>)
    moe.backward_return %dy : tensor<4x8xf32>
  }
  moe.return %x : tensor<4x8xf32>
}
}

// -----

module attributes {moe.phase = "kernels"} {
moe.layer @l(%c: !moe.rows<8, mean = 8>) -> !moe.rows<8, mean = 8> {
  moe.backward saved(%c : !moe.rows<8, mean = 8>) {
  ^bb0(%sc: !moe.rows<8, mean = 8>):
    // expected-error @+1 {{'moe.exchange_counts' op decides a routing in backward}}
    %r = moe.exchange_counts %sc over "ep" module(moe_dispatch) : (!moe.rows<8, mean = 8>) -> !moe.rows<8, mean = 8>
    moe.backward_return
  }
  moe.return %c : !moe.rows<8, mean = 8>
}
}

// -----

// What the library has not, or calls with other operands or numbers.
module attributes {moe.phase = "kernels"} {
// expected-error @+1 {{'moe.kernel' op kernel 'k': the host has no kernel 'soup'}}
moe.kernel @k op "soup" {bytes = 1.0 : f64, flops = 1.0 : f64, numbers = {}, numeric_class = #moe<numeric_class row_invariant>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
}

// -----

module attributes {moe.phase = "kernels"} {
// expected-error @+1 {{'moe.kernel' op kernel 'k' (route): attribute 'normalize' is missing}}
moe.kernel @k op "route" {bytes = 1.0 : f64, flops = 1.0 : f64, numbers = {}, numeric_class = #moe<numeric_class row_invariant>} : (tensor<4x8xf32>) -> (tensor<4x2xf32>, tensor<4x2xi32>)
}

// -----

module attributes {moe.phase = "kernels"} {
// expected-error @+1 {{'moe.kernel' op kernel 'k' (add): has 2 operands, needs 3: a x[...], b x[...] -> y x[...]}}
moe.kernel @k op "add" {bytes = 1.0 : f64, flops = 1.0 : f64, numbers = {}, numeric_class = #moe<numeric_class row_invariant>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
}
