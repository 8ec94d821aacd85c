// Kernels are formed from training IR only.
// RUN: moe-opt --moe-form-kernels %s -split-input-file -verify-diagnostics

// expected-error @+1 {{expected a module in phase training, but it is in phase spmd}}
module attributes {moe.phase = "spmd"} {}

// -----

// expected-error @+1 {{expected a module in phase training, but it is in phase kernels}}
module attributes {moe.phase = "kernels"} {}
