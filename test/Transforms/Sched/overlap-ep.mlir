// Forward of one micro-batch meets backward of another in one template; a
// schedule of moe-pipeline is made anew; captures that it had stay. Where no
// rows are exchanged, 1F1B is kept, and the record says why.
// RUN: moe-translate --import-hf %moe_src/test/Import/Inputs/qwen3-30b-a3b.json \
// RUN:   --target=gb200x4 --layout=ep=2,pp=2,global_batch=8 -o %t.model.mlir
// RUN: moe-opt --moe-partition --moe-differentiate --moe-form-kernels \
// RUN:   --moe-recompute=modules=moe,norm %t.model.mlir -o %t.kernels.mlir
// RUN: moe-opt --moe-overlap-ep --sched-verify %t.kernels.mlir 2>%t.err | FileCheck %s
// RUN: FileCheck %s --check-prefix=PROOF < %t.err
// RUN: moe-opt --moe-pipeline=capture=moe_router --moe-overlap-ep %t.kernels.mlir -o %t.after.mlir
// RUN: moe-opt --moe-overlap-ep=capture=moe_router %t.kernels.mlir | diff - %t.after.mlir
// RUN: FileCheck %s --check-prefix=CAPTURE < %t.after.mlir
// RUN: moe-translate --import-hf %moe_src/test/Execution/Inputs/golden/base/config.json \
// RUN:   --target=h100x2 --layout=seq=16,global_batch=8 -o %t.plain.mlir
// RUN: moe-opt --moe-partition --moe-differentiate --moe-form-kernels \
// RUN:   --moe-overlap-ep %t.plain.mlir | FileCheck %s --check-prefix=PLAIN
// RUN: not moe-opt --moe-overlap-ep %t.model.mlir 2>&1 | FileCheck %s --check-prefix=PHASE

// CHECK: pipeline = "paired"
// CHECK: sched.template @pair_decoder_fwd_decoder_bwd
// CHECK: sched.program
// PROOF: verified: {{[0-9]+}} ops, 5 proofs
// CAPTURE: captured = ["moe_router"]
// CAPTURE: sched.template @pair_decoder_fwd_decoder_bwd
// CAPTURE: F_moe_router
// PLAIN: pipeline = "1f1b"
// PLAIN-SAME: kept_1f1b = "no layer exchanges rows between ranks (ep = 1): nothing to hide"
// PLAIN-NOT: sched.template @pair_
// PHASE: expected a module in phase kernels, but it is in phase model
