// Widths get smaller; templates, calls, orders and prices stay.
// RUN: moe-translate --import-hf %moe_src/test/Import/Inputs/qwen3-30b-a3b.json \
// RUN:   --target=gb200x4 --layout=ep=2,pp=2,global_batch=8 -o %t.model.mlir
// RUN: moe-opt --moe-partition --moe-differentiate --moe-form-kernels \
// RUN:   --moe-recompute=modules=moe,norm %t.model.mlir -o %t.kernels.mlir
// RUN: moe-opt --moe-overlap-ep %t.kernels.mlir -o %t.step.mlir
// RUN: moe-opt --moe-shrink-schedule=factor=32 --sched-verify %t.step.mlir 2>%t.err | FileCheck %s
// RUN: FileCheck %s --check-prefix=PROOF < %t.err
// RUN: not moe-opt --moe-shrink-schedule=factor=2 %t.kernels.mlir 2>&1 | FileCheck %s --check-prefix=PHASE
// RUN: not moe-opt --moe-shrink-schedule=factor=0 %t.step.mlir 2>&1 | FileCheck %s --check-prefix=ZERO

// CHECK: pipeline = "paired"
// CHECK: sched.template @pair_decoder_fwd_decoder_bwd
// PROOF: verified: {{[0-9]+}} ops, 5 proofs
// PHASE: expected a module in phase sched, but it is in phase kernels
// ZERO: must be at least 1
