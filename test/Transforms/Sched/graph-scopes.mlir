// Consecutive kernels of the router become one graph in forward and backward;
// what needs counts on the host can't be captured; a hand-written schedule
// can't be made anew.
// RUN: moe-translate --import-hf %moe_src/test/Execution/Inputs/golden/base/config.json \
// RUN:   --target=h100x4 --layout=ep=2,pp=1,seq=16,global_batch=16 -o %t.model.mlir
// RUN: moe-opt --moe-partition --moe-differentiate --moe-form-kernels \
// RUN:   %t.model.mlir -o %t.kernels.mlir
// RUN: moe-opt --moe-pipeline --moe-graph-scopes=modules=moe_router --sched-verify %t.kernels.mlir 2>%t.err | FileCheck %s
// RUN: FileCheck %s --check-prefix=PROOF < %t.err
// RUN: not moe-opt --moe-pipeline --moe-graph-scopes=modules=moe_act %t.kernels.mlir 2>&1 | FileCheck %s --check-prefix=SCOPE
// RUN: not moe-opt --moe-graph-scopes=modules=moe_router %t.kernels.mlir 2>&1 | FileCheck %s --check-prefix=PHASE
// RUN: echo 'module attributes {moe.phase = "sched"} {}' > %t.hand.mlir
// RUN: not moe-opt --moe-graph-scopes=modules=moe_router %t.hand.mlir 2>&1 | FileCheck %s --check-prefix=HAND

// CHECK: captured = ["moe_router"]
// CHECK: sched.template @decoder_fwd
// CHECK: F_moe_router
// CHECK: sched.template @decoder_bwd
// CHECK: B_moe_router
// PROOF: verified: {{[0-9]+}} ops, 5 proofs
// SCOPE: can't capture 'moe_act' as a graph; scopes: moe_router, moe_preprocess
// PHASE: expected a module in phase sched, but it is in phase kernels
// HAND: a hand-written schedule can't be made anew
