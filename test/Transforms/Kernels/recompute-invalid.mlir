// Recompute needs kernels, and names of modules that exist.
// RUN: moe-opt --moe-recompute=modules=norm %s -split-input-file -verify-diagnostics
// RUN: not moe-opt --moe-recompute=modules=norm,nrom %S/verify-kernels.mlir -o /dev/null 2>&1 | FileCheck %s

// CHECK: error: moe-recompute: {{.*}}nrom{{.*}}core_attn

// expected-error @+1 {{expected a module in phase kernels, but it is in phase training}}
module attributes {moe.phase = "training"} {}
