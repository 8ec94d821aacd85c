// A schedule goes to a table as JSON and back without loss; what is planned
// stands in the table.
// RUN: moe-translate --export-json %s -o %t.json
// RUN: FileCheck %s --input-file %t.json
// RUN: moe-translate --import-json %t.json -o %t.mlir
// RUN: FileCheck %s --input-file %t.mlir --check-prefix=MLIR
// RUN: moe-translate --export-json %t.mlir | diff - %t.json
// RUN: moe-translate --import-json %t.json | diff - %t.mlir

module attributes {moe.phase = "sched"} {
  sched.job "m" ranks(2) {
    sched.stream @compute
    sched.stream @comm
    sched.communicator @ep size(2)
    sched.kernel @linear "linear"(read, read, write) row_invariant
    sched.template @t(%w: weights, %x: carried, %y: carried<8192>) imports(%in) {
      %a = sched.buffer %x : tensor<16x32xbf16>
      %b = sched.buffer %w : tensor<64x32xbf16>
      %c = sched.buffer %y : tensor<32x64xbf16>
      %d = sched.buffer %y : tensor<16x64xbf16>
      %done = sched.launch @linear on @compute(%a, %b, out %d) after(%in)
          half "F" module "attn" at "layers.{i} mb {mb}"
      sched.collective all_gather over @ep on @comm(%d, out %c) after(%done)
      sched.yield %done
    }
    sched.program @p ranks(0, 2) {
      %none = sched.done
      %0 = sched.call @t after(%none) layer(3) mb(4)
      %1 = sched.call @t at [0, 64, 128] after(%0) layer(4) mb(4)
    }
  }
}

// CHECK: "kernels": [
// CHECK-NEXT: {"name":"linear","op":"linear","provider":"library","numericClass":"row_invariant","effects":["read","read","write"]
// CHECK: {"name":"w","kind":"weights","bytes":4096}
// CHECK-NEXT: {"name":"x","kind":"carried","bytes":1024}
// CHECK-NEXT: {"name":"y","kind":"carried","bytes":8192}
// CHECK: {"kind":"launch","stream":0,"kernel":0,{{.*}}{"frame":2,"offset":4096,"type":"bf16","shape":[16,64],"effect":"write"}],"waits":[{"isImport":true,"index":0}],"capture":-1,"location":"layers.{i} mb {mb}","half":"F","module":"attn","bytes":0.0}
// CHECK-NEXT: {"kind":"collective",{{.*}}"waits":[{"isImport":false,"index":0}]
// CHECK: {"template":0,"bases":[{{[0-9]+}},{{[0-9]+}},{{[0-9]+}}],"imports":[{"call":-1,"op":0}],"layer":3,"backwardLayer":-1,"microBatch":4,"backwardMicroBatch":-1}
// CHECK-NEXT: {"template":0,"bases":[0,64,128],"imports":[{"call":0,"op":0}],"layer":4

// MLIR: module attributes {moe.phase = "sched"}
// MLIR: sched.template @t(%w: weights<4096>, %x: carried<1024>, %y: carried<8192>) imports(%in)
// MLIR: %y.4096 = sched.buffer %y[4096] : tensor<16x64xbf16>
// MLIR: sched.call @t at [0, 64, 128]
