// Bodies of kernels become functions for a GPU; what they compute is tested in
// test/unit/Target/GpuKernelsTest.cpp.
// RUN: moe-opt --moe-generate-kernels --moe-map-to-gpu %s \
// RUN:   | FileCheck --enable-var-scope %s

module attributes {moe.phase = "kernels"} {

// The kernels stay.
// CHECK:       moe.kernel @add
// CHECK:       gpu.module @moe_kernels

// The grid shares all elements: 8 of bf16, 16 bytes, for each thread.
// CHECK-LABEL: gpu.func @moe_kernel_add(
// CHECK-SAME:  kernel attributes {nvvm.maxntid = array<i32: 256, 1, 1>}
// CHECK:       scf.for
// CHECK:         vector.load {{.*}} {alignment = 16 : i64} : memref<32xbf16>, vector<8xbf16>
// CHECK:         vector.store {{.*}} {alignment = 16 : i64} : memref<32xbf16>, vector<8xbf16>
// CHECK-NOT:   linalg
moe.kernel @add op "add" {bytes = 1.0 : f64, flops = 1.0 : f64, numeric_class = #moe<numeric_class row_invariant>, numbers = {}}
  : (tensor<4x8xbf16>, tensor<4x8xbf16>) -> tensor<4x8xbf16>

// 128 columns of bf16 are 16 vectors: a row for 16 threads, whose lanes are
// the mask of the shuffles. A last step over part of a group is none here.
// CHECK-LABEL: gpu.func @moe_kernel_narrow(
// CHECK:       %[[THREAD:.+]] = gpu.thread_id
// CHECK:       %[[MASK:.+]] = arith.shli
// CHECK:       scf.for
// CHECK-NOT:     scf.if
// CHECK:         vector.load {{.*}} {alignment = 16 : i64} {{.*}}vector<8xbf16>
// CHECK-COUNT-4: nvvm.shfl.sync bfly %[[MASK]],
// CHECK-NOT:     nvvm.shfl
// CHECK-NOT:     gpu.barrier
// CHECK:         vector.store
// CHECK:       gpu.return
moe.kernel @narrow op "rms_norm" {bytes = 1.0 : f64, flops = 1.0 : f64, numeric_class = #moe<numeric_class row_invariant>, numbers = {eps = 1.0e-06 : f64}}
  : (tensor<64x128xbf16>, tensor<128xbf16>) -> tensor<64x128xbf16>

// 2056 columns are 257 vectors: the block shares a row, and one thread has two
// of them. The warps' sums meet in shared memory.
// CHECK-LABEL: gpu.func @moe_kernel_wide(
// CHECK-SAME:  workgroup(%[[SHARED:.+]] : memref<8xf32, #gpu.address_space<workgroup>>)
// CHECK:       scf.for
// CHECK:         vector.load {{.*}} vector<8xbf16>
// CHECK:         scf.if
// CHECK:           vector.load {{.*}} vector<8xbf16>
// CHECK-COUNT-5: nvvm.shfl.sync
// CHECK:         memref.store %{{.*}}, %[[SHARED]]
// CHECK:         gpu.barrier
// CHECK-COUNT-8: memref.load %[[SHARED]]
// CHECK:         gpu.barrier
// CHECK:       gpu.return
moe.kernel @wide op "rms_norm" {bytes = 1.0 : f64, flops = 1.0 : f64, numeric_class = #moe<numeric_class row_invariant>, numbers = {eps = 1.0e-06 : f64}}
  : (tensor<64x2056xbf16>, tensor<2056xbf16>) -> tensor<64x2056xbf16>

// An odd width has no vectors.
// CHECK-LABEL: gpu.func @moe_kernel_odd(
// CHECK-NOT:   vector<{{[248]}}x
// CHECK:       vector.load {{.*}} {alignment = 4 : i64} {{.*}}vector<1xf32>
// CHECK:       gpu.return
moe.kernel @odd op "rms_norm" {bytes = 1.0 : f64, flops = 1.0 : f64, numeric_class = #moe<numeric_class row_invariant>, numbers = {eps = 1.0e-06 : f64}}
  : (tensor<4x7xf32>, tensor<7xf32>) -> tensor<4x7xf32>

// Chunks of rows, each a row of the image's memory; the last block adds them.
// The scratch row is what one thread has: 8 of 2048.
// CHECK-LABEL: memref.global "private" @moe_kernel_wgrad_arrivals : memref<1xi32, #gpu.address_space<global>> = dense<0>
// CHECK:       memref.global "private" @moe_kernel_wgrad_partials_0 : memref<64x2048xf32, #gpu.address_space<global>> = uninitialized
// CHECK:       gpu.func @moe_kernel_wgrad(
// CHECK:         %[[SUM:.+]] = memref.alloca() : memref<8xf32>
// CHECK:         scf.for
// CHECK:           scf.for
// CHECK:             vector.store %{{.*}}, %[[SUM]]
// CHECK:           vector.store {{.*}} #gpu.address_space<global>>, vector<8xf32>
// CHECK:         memref.atomic_rmw addi
// CHECK:         scf.if
// CHECK:           scf.for
// CHECK:             vector.load {{.*}} #gpu.address_space<global>>, vector<8xf32>
// CHECK:         gpu.return
moe.kernel @wgrad op "rms_norm_wgrad" {accumulates, bytes = 1.0 : f64, flops = 1.0 : f64, numeric_class = #moe<numeric_class row_invariant>, numbers = {eps = 1.0e-06 : f64}}
  : (tensor<64x2048xbf16>, tensor<64x2048xbf16>, tensor<2048xf32>) -> tensor<2048xf32>

// No columns: a row for each thread.
// CHECK-LABEL: gpu.func @moe_kernel_probs(
// CHECK:       scf.for
// CHECK-NOT:     gpu.barrier
// CHECK:         memref.store
// CHECK:       gpu.return
moe.kernel @probs op "permute_probs" {bytes = 1.0 : f64, flops = 1.0 : f64, numeric_class = #moe<numeric_class row_invariant>, numbers = {}}
  : (tensor<16x2xf32>, tensor<16x2xi32>) -> tensor<32xf32>

// The label's logit is read by all threads before they write gradients, which
// may be in its place; and those before the label's own.
// CHECK-LABEL: gpu.func @moe_kernel_loss_grad(
// CHECK:         memref.load {{.*}} : memref<40xf32
// CHECK:       nvvm.bar.warp.sync
// CHECK:       vector.store
// CHECK:       nvvm.bar.warp.sync
// CHECK:       memref.store {{.*}} : memref<40xf32
// CHECK:       gpu.return
moe.kernel @loss_grad op "cross_entropy_grad" {bytes = 1.0 : f64, flops = 1.0 : f64, numeric_class = #moe<numeric_class row_invariant>, numbers = {scale = 1.0 : f64}}
  : (tensor<16x40xf32>, tensor<16xi32>) -> tensor<16x40xf32>
}
