// One polynomial for scalars and vectors, in explicit fused multiply-adds.
// RUN: moe-opt --moe-expand-math %s | FileCheck --enable-var-scope %s

// CHECK-LABEL:   @exp
// CHECK-COUNT-9: math.fma {{.*}} : f32
// CHECK-COUNT-9: math.fma {{.*}} : vector<8xf32>
// CHECK-NOT:     math.exp
func.func @exp(%x: f32, %v: vector<8xf32>) -> (f32, vector<8xf32>) {
  %0 = math.exp %x : f32
  %1 = math.exp %v : vector<8xf32>
  return %0, %1 : f32, vector<8xf32>
}

// Not the library's: another type.
// CHECK-LABEL: @exp64
// CHECK:       math.exp {{.*}} : f64
func.func @exp64(%x: f64) -> f64 {
  %0 = math.exp %x : f64
  return %0 : f64
}

// With `log`, of f64: another polynomial; a GPU has no instruction for it.
// RUN: moe-opt --moe-expand-math=log %s | FileCheck %s --check-prefix=LOG
// CHECK-LABEL: @log64
// CHECK:       math.log {{.*}} : f64
// LOG-LABEL:   @log64
// LOG:         arith.shrsi
// LOG:         arith.divf {{.*}} : f64
// LOG-NOT:     math.log
// LOG:         return
func.func @log64(%x: f64) -> f64 {
  %0 = math.log %x : f64
  return %0 : f64
}

// CHECK-LABEL: @log32
// LOG-LABEL:   @log32
// LOG:         math.log {{.*}} : f32
func.func @log32(%x: f32) -> f32 {
  %0 = math.log %x : f32
  return %0 : f32
}
