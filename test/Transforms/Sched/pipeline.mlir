// Kernels become launches over buffers; each stage a program of calls in the
// order of 1F1B; the kernels-phase program stays; the proofs hold.
// RUN: moe-translate --import-hf %moe_src/test/Execution/Inputs/golden/base/config.json \
// RUN:   --target=h100x4 --layout=ep=2,pp=2,seq=16,global_batch=16 -o %t.model.mlir
// RUN: moe-opt --moe-partition --moe-differentiate --moe-form-kernels \
// RUN:   %t.model.mlir -o %t.kernels.mlir
// RUN: moe-opt --moe-pipeline --sched-verify %t.kernels.mlir 2>%t.err | FileCheck %s
// RUN: FileCheck %s --check-prefix=PROOF < %t.err
// RUN: moe-opt --moe-pipeline=schedule=serial --sched-verify %t.kernels.mlir 2>&1 >%t.serial.mlir | FileCheck %s --check-prefix=PROOF
// RUN: FileCheck %s --check-prefix=SERIAL < %t.serial.mlir
// RUN: not moe-opt --moe-pipeline=schedule=zigzag %t.kernels.mlir 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not moe-opt --moe-pipeline=capture=moe_experts %t.kernels.mlir 2>&1 | FileCheck %s --check-prefix=SCOPE
// RUN: not moe-opt --moe-pipeline %t.model.mlir 2>&1 | FileCheck %s --check-prefix=PHASE

// CHECK: moe.phase = "sched"
// CHECK-SAME: pipeline = "1f1b"
// CHECK: moe.layer @decoder
// CHECK: moe.train
// CHECK: sched.job
// CHECK: sched.stream @comm
// CHECK: sched.template @decoder_fwd
// CHECK: sched.launch @rms_norm_0 on @compute
// CHECK: sched.template @decoder_bwd
// CHECK: sched.template @recv_forward
// CHECK: sched.program @stage1
// PROOF: verified: {{[0-9]+}} ops, 5 proofs (race, agreement, memory, capture, value)
// SERIAL: sched.job
// SERIAL-NOT: sched.stream @comm
// SERIAL: sched.template @decoder_fwd
// NAME: unknown schedule 'zigzag'; known: serial, 1f1b, paired
// SCOPE: can't capture 'moe_experts' as a graph; scopes: moe_router, moe_preprocess
// PHASE: expected a module in phase kernels, but it is in phase model
