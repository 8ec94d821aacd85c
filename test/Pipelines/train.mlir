// The driver runs the rest of the pipeline from the module's phase; flags in
// any order fill its options; from every phase the schedule is the same.
// RUN: moe-translate --import-hf %moe_src/test/Execution/Inputs/golden/base/config.json \
// RUN:   --target=h100x4 --layout=ep=2,pp=1,seq=16,global_batch=16 -o %t.model.mlir
// RUN: moe-opt --moe-partition --moe-differentiate --moe-form-kernels \
// RUN:   %t.model.mlir -o %t.kernels.mlir
// RUN: moe-opt --overlap-ep --recompute=moe,norm %t.model.mlir -o %t.a.mlir 2>%t.err
// RUN: FileCheck %s --check-prefix=REPORT < %t.err
// RUN: moe-opt --recompute=norm,moe --overlap-ep %t.model.mlir -o %t.b.mlir
// RUN: diff %t.a.mlir %t.b.mlir
// RUN: moe-opt --mlir-print-debuginfo --moe-verify-model --moe-partition --moe-verify-spmd %t.model.mlir -o %t.spmd.mlir
// RUN: moe-opt --overlap-ep --recompute=moe,norm %t.spmd.mlir -o %t.c.mlir
// RUN: diff %t.a.mlir %t.c.mlir
// RUN: moe-opt --mlir-print-debuginfo "--moe-train=overlap-ep recompute=moe,norm" %t.model.mlir -o %t.d.mlir
// RUN: diff %t.a.mlir %t.d.mlir
// RUN: moe-opt --overlap-ep --report=%t.json %t.model.mlir -o /dev/null
// RUN: %python -c "import json,sys; r=json.load(open(sys.argv[1])); assert r['parameters'] > 0 and r['schedule']['report']['paired_seconds'] > 0" %t.json
// RUN: not moe-opt --recompute=mo,norm %t.model.mlir 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not moe-opt --overlap-ep %t.a.mlir 2>&1 | FileCheck %s --check-prefix=PHASE
// RUN: not moe-opt --layout=ep=4 %t.kernels.mlir 2>&1 | FileCheck %s --check-prefix=LAYOUT
// RUN: not moe-opt --overlap-ep --moe-partition %t.model.mlir 2>&1 | FileCheck %s --check-prefix=MIX
// RUN: not moe-opt --overlap-ep --schedule=serial %t.model.mlir 2>&1 | FileCheck %s --check-prefix=BOTH
// RUN: not moe-opt --memory-limit=1.5 %t.model.mlir 2>&1 | FileCheck %s --check-prefix=SHARE

// REPORT: verified: {{[0-9]+}} ops, 5 proofs (race, agreement, memory, capture, value)
// REPORT: recompute  moe, norm: saved for backward
// REPORT: pair       pair_decoder_fwd_decoder_bwd: one stream
// REPORT: paired
// NAME: unknown module 'mo'; known: norm, layernorm, core_attn, attn, moe
// PHASE: --overlap-ep works up to phase kernels, but the module is in phase sched already
// LAYOUT: --layout works up to phase model, but the module is in phase kernels already
// MIX: --overlap-ep can't be mixed with explicit passes
// BOTH: --overlap-ep chooses the schedule
// SHARE: --memory-limit is a share in (0, 1], but got
