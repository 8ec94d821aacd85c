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
