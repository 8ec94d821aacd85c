// Kernels over rows get a body of linalg ops over memrefs; others keep the
// library's code, and a body that is there stays.
// RUN: moe-opt --moe-generate-kernels %s -o %t
// RUN: FileCheck --enable-var-scope %s < %t
// RUN: moe-opt --moe-generate-kernels %t | diff %t -

module attributes {moe.phase = "kernels"} {

// CHECK-LABEL: moe.kernel @add
// CHECK:       ^bb0(%[[A:.+]]: memref<4x8xbf16>, %[[B:.+]]: memref<4x8xbf16>, %[[Y:.+]]: memref<4x8xbf16>):
// CHECK:       linalg.generic {{.*}}iterator_types = ["parallel"]{{.*}} outs(%{{.*}} : memref<32xbf16>)
// CHECK:       arith.extf
// CHECK:       %[[SUM:.+]] = arith.addf %{{.*}} : f32
// CHECK:       arith.truncf %[[SUM]] : f32 to bf16
moe.kernel @add op "add" {bytes = 1.0 : f64, flops = 1.0 : f64, numbers = {}, numeric_class = #moe<numeric_class row_invariant>}
  : (tensor<4x8xbf16>, tensor<4x8xbf16>) -> tensor<4x8xbf16>

// Independent rows; the mean of squares is a reduction, then the row is scaled.
// CHECK-LABEL: moe.kernel @rms_norm
// CHECK:       ^bb0(%[[X:.+]]: memref<4x8xf32>, %[[W:.+]]: memref<8xf32>, %[[Y:.+]]: memref<4x8xf32>):
// CHECK:       scf.forall (%[[T:.+]]) in (4) {
// CHECK:         %[[ROW:.+]] = memref.subview %[[X]][%[[T]], 0] [1, 8] [1, 1]
// CHECK:         linalg.generic {{.*}}["reduction"]{{.*}} ins(%[[ROW]] :
// CHECK:         math.sqrt
// CHECK:         %[[OUT:.+]] = memref.subview %[[Y]][%[[T]], 0] [1, 8] [1, 1]
// CHECK:         linalg.generic {{.*}}["parallel"]{{.*}} ins(%[[ROW]], %[[W]] : {{.*}} outs(%[[OUT]] :
moe.kernel @rms_norm op "rms_norm" {bytes = 1.0 : f64, flops = 1.0 : f64, numbers = {eps = 1.0e-06 : f64}, numeric_class = #moe<numeric_class row_invariant>}
  : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>

// An accumulator is one argument, read and written.
// CHECK-LABEL: moe.kernel @rms_norm_wgrad
// CHECK:       ^bb0(%{{.+}}: memref<4x8xf32>, %{{.+}}: memref<4x8xf32>, %[[ACC:.+]]: memref<8xf32>):
// CHECK:       scf.for
// CHECK:       linalg.generic {{.*}} ins(%[[ACC]], %{{.*}} : memref<8xf32>, memref<8xf32>) outs(%[[ACC]] : memref<8xf32>)
moe.kernel @rms_norm_wgrad op "rms_norm_wgrad" {accumulates, bytes = 1.0 : f64, flops = 1.0 : f64, numbers = {eps = 1.0e-06 : f64}, numeric_class = #moe<numeric_class deterministic>}
  : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>) -> tensor<8xf32>

// Only rows in use: their sum, cut at the capacity.
// CHECK-LABEL: moe.kernel @swiglu
// CHECK:       ^bb0(%[[X:.+]]: memref<32x40xf32>, %[[P:.+]]: memref<32xf32>, %[[ROWS:.+]]: memref<8xi32>, %{{.+}}: memref<32x20xf32>):
// CHECK-DAG:   %[[CAPACITY:.+]] = arith.constant 32 : index
// CHECK:       %[[USED:.+]] = scf.for
// CHECK:         memref.load %[[ROWS]]
// CHECK:         arith.minsi %{{.*}}, %[[CAPACITY]]
// CHECK:       scf.forall (%[[T:.+]]) in (%[[USED]]) {
// CHECK-DAG:     %[[GATE:.+]] = memref.subview %[[X]][%[[T]], 0] [1, 20]
// CHECK-DAG:     %[[UP:.+]] = memref.subview %[[X]][%[[T]], 20] [1, 20]
// CHECK:         linalg.generic {{.*}} ins(%[[GATE]], %[[UP]] :
// CHECK:         math.exp
moe.kernel @swiglu op "swiglu" {bytes = 1.0 : f64, flops = 1.0 : f64, numbers = {}, numeric_class = #moe<numeric_class row_invariant>}
  : (tensor<32x40xf32>, tensor<32xf32>, !moe.rows<8, mean = 32>) -> tensor<32x20xf32>

// A row out of range moves nothing.
// CHECK-LABEL: moe.kernel @permute
// CHECK:       %[[ROW:.+]] = arith.index_cast
// CHECK:       %[[VALID:.+]] = arith.cmpi ult, %[[ROW]],
// CHECK:       scf.if %[[VALID]] {
// CHECK:         memref.subview %{{.*}}[%[[ROW]], 0]
// CHECK:         linalg.copy
moe.kernel @permute op "permute" {bytes = 1.0 : f64, flops = 1.0 : f64, numbers = {}, numeric_class = #moe<numeric_class row_invariant>}
  : (tensor<16x32xbf16>, tensor<16x2xi32>) -> tensor<32x32xbf16>

// CHECK-LABEL: moe.kernel @linear
// CHECK-NOT:   ^bb0
moe.kernel @linear op "linear" {bytes = 1.0 : f64, flops = 1.0 : f64, numbers = {}, numeric_class = #moe<numeric_class row_invariant>}
  : (tensor<4x8xf32>, tensor<6x8xf32>) -> tensor<4x6xf32>
}
