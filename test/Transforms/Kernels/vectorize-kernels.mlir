// Linalg ops over a row become vectors of 16, then of 8, 4, 2 and 1 for the
// rest; a sum keeps 16 partial sums and joins them as a tree.
// RUN: moe-opt --moe-vectorize-kernels %s | FileCheck --enable-var-scope %s

#id = affine_map<(i) -> (i)>
#none = affine_map<(i) -> ()>

// CHECK-LABEL: @elementwise(
// CHECK-SAME:  %[[X:.+]]: memref<43xf32>, %[[S:.+]]: f32, %[[Y:.+]]: memref<43xf32>
// CHECK:       scf.for %[[I:.+]] = %{{.*}} to %{{.*}} step %{{.*}} {
// CHECK-NEXT:    %[[V:.+]] = vector.load %[[X]][%[[I]]] : memref<43xf32>, vector<16xf32>
// CHECK-NEXT:    %[[B:.+]] = vector.broadcast %[[S]] : f32 to vector<16xf32>
// CHECK-NEXT:    %[[M:.+]] = arith.mulf %[[V]], %[[B]] : vector<16xf32>
// CHECK-NEXT:    vector.store %[[M]], %[[Y]][%[[I]]] : memref<43xf32>, vector<16xf32>
// CHECK-NEXT:  }
// CHECK:       vector.load %[[X]]{{.*}} vector<8xf32>
// CHECK-NOT:   vector<4xf32>
// CHECK:       vector.load %[[X]]{{.*}} vector<2xf32>
// CHECK:       vector.load %[[X]]{{.*}} vector<1xf32>
// CHECK-NOT:   linalg
func.func @elementwise(%x: memref<43xf32>, %s: f32, %y: memref<43xf32>) {
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : memref<43xf32>) outs(%y : memref<43xf32>) {
  ^bb0(%a: f32, %out: f32):
    %m = arith.mulf %a, %s : f32
    linalg.yield %m : f32
  }
  return
}

// CHECK-LABEL: @sum(
// CHECK-SAME:  %[[X:.+]]: memref<20xf32>, %[[Y:.+]]: memref<f32>
// CHECK:       %[[LANES:.+]] = scf.for {{.*}} iter_args(%[[ACC:.+]] = %{{.*}}) -> (vector<16xf32>) {
// CHECK:         %[[V:.+]] = vector.load %[[X]]
// CHECK:         %[[NEXT:.+]] = arith.addf %[[ACC]], %[[V]] : vector<16xf32>
// CHECK:         scf.yield %[[NEXT]] : vector<16xf32>
// CHECK:       %[[PART:.+]] = vector.extract_strided_slice %[[LANES]] {offsets = [0], sizes = [4], strides = [1]}
// CHECK:       %[[REST:.+]] = arith.addf %[[PART]], %{{.*}} : vector<4xf32>
// CHECK:       %[[ALL:.+]] = vector.insert_strided_slice %[[REST]], %[[LANES]] {offsets = [0], strides = [1]}
// CHECK:       arith.addf {{.*}} : vector<8xf32>
// CHECK:       arith.addf {{.*}} : vector<4xf32>
// CHECK:       arith.addf {{.*}} : vector<2xf32>
// CHECK:       arith.addf {{.*}} : vector<1xf32>
// CHECK:       memref.store %{{.*}}, %[[Y]][] : memref<f32>
// CHECK-NOT:   linalg
func.func @sum(%x: memref<20xf32>, %y: memref<f32>) {
  linalg.generic {indexing_maps = [#id, #none], iterator_types = ["reduction"]}
      ins(%x : memref<20xf32>) outs(%y : memref<f32>) {
  ^bb0(%a: f32, %acc: f32):
    %next = arith.addf %acc, %a : f32
    linalg.yield %next : f32
  }
  return
}

// A product has no fixed order of lanes here; strides have no vectors.
// CHECK-LABEL: @left
// CHECK:       linalg.generic
// CHECK:       linalg.fill
func.func @left(%x: memref<20xf32>, %y: memref<f32>, %z: memref<20xf32, strided<[2]>>, %s: f32) {
  linalg.generic {indexing_maps = [#id, #none], iterator_types = ["reduction"]}
      ins(%x : memref<20xf32>) outs(%y : memref<f32>) {
  ^bb0(%a: f32, %acc: f32):
    %next = arith.mulf %acc, %a : f32
    linalg.yield %next : f32
  }
  linalg.fill ins(%s : f32) outs(%z : memref<20xf32, strided<[2]>>)
  return
}
