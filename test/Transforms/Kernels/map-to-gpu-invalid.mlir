// What has no mapping is an error at its op.
// RUN: moe-opt --moe-map-to-gpu -split-input-file -verify-diagnostics %s

module attributes {moe.phase = "kernels"} {
// expected-error@+1 {{has no rows to map to a GPU}}
moe.kernel @k op "add" {bytes = 1.0 : f64, flops = 1.0 : f64, numeric_class = #moe<numeric_class row_invariant>, numbers = {}}
  : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> {
^bb0(%a: memref<8xf32>, %b: memref<8xf32>, %y: memref<8xf32>):
}
}

// -----

module attributes {moe.phase = "kernels"} {
moe.kernel @k op "add" {bytes = 1.0 : f64, flops = 1.0 : f64, numeric_class = #moe<numeric_class row_invariant>, numbers = {}}
  : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> {
^bb0(%a: memref<8xf32>, %b: memref<8xf32>, %y: memref<8xf32>):
  linalg.copy ins(%a : memref<8xf32>) outs(%y : memref<8xf32>)
  // expected-error@+1 {{works on rows after others did: a GPU needs a kernel of its own for it}}
  linalg.copy ins(%b : memref<8xf32>) outs(%y : memref<8xf32>)
}
}

// -----

module attributes {moe.phase = "kernels"} {
moe.kernel @k op "add" {bytes = 1.0 : f64, flops = 1.0 : f64, numeric_class = #moe<numeric_class row_invariant>, numbers = {}}
  : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> {
^bb0(%a: memref<8xf32>, %b: memref<8xf32>, %y: memref<8xf32>):
  %zero = arith.constant 0 : index
  %x = memref.load %a[%zero] : memref<8xf32>
  // expected-error@+1 {{has no mapping to a GPU here}}
  memref.store %x, %b[%zero] : memref<8xf32>
  linalg.copy ins(%b : memref<8xf32>) outs(%y : memref<8xf32>)
}
}

// -----

// A product isn't a sum.
#id = affine_map<(i) -> (i)>
#none = affine_map<(i) -> ()>
module attributes {moe.phase = "kernels"} {
moe.kernel @k op "add" {bytes = 1.0 : f64, flops = 1.0 : f64, numeric_class = #moe<numeric_class row_invariant>, numbers = {}}
  : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> {
^bb0(%a: memref<4x8xf32>, %b: memref<4x8xf32>, %y: memref<4x8xf32>):
  %zero = arith.constant 0 : index
  %one = arith.constant 1.0 : f32
  scf.forall (%t) in (4) {
    %product = memref.alloca() : memref<f32>
    memref.store %one, %product[] : memref<f32>
    %row = memref.subview %a[%t, 0] [1, 8] [1, 1] : memref<4x8xf32> to memref<8xf32, strided<[1], offset: ?>>
    // expected-error@+1 {{not elementwise, nor a sum or a maximum, over the columns of a row}}
    linalg.generic {indexing_maps = [#id, #none], iterator_types = ["reduction"]}
        ins(%row : memref<8xf32, strided<[1], offset: ?>>) outs(%product : memref<f32>) {
    ^bb0(%x: f32, %acc: f32):
      %next = arith.mulf %acc, %x : f32
      linalg.yield %next : f32
    }
    %p = memref.load %product[] : memref<f32>
    memref.store %p, %y[%t, %zero] : memref<4x8xf32>
  }
}
}

// -----

// Rows that depend on the ones before.
module attributes {moe.phase = "kernels"} {
moe.kernel @k op "add" {bytes = 1.0 : f64, flops = 1.0 : f64, numeric_class = #moe<numeric_class row_invariant>, numbers = {}}
  : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> {
^bb0(%a: memref<4x8xf32>, %b: memref<4x8xf32>, %y: memref<4x8xf32>):
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %two = arith.constant 2.0 : f32
  // expected-error@+1 {{a loop over rows sums them up, from 0 in steps of 1}}
  %last = scf.for %t = %c0 to %c4 step %c1 iter_args(%x = %two) -> f32 {
    %row = memref.subview %y[%t, 0] [1, 8] [1, 1] : memref<4x8xf32> to memref<8xf32, strided<[1], offset: ?>>
    linalg.fill ins(%x : f32) outs(%row : memref<8xf32, strided<[1], offset: ?>>)
    %next = arith.mulf %x, %x : f32
    scf.yield %next : f32
  }
}
}

// -----

// In order, so not at the same time.
module attributes {moe.phase = "kernels"} {
moe.kernel @k op "add" {bytes = 1.0 : f64, flops = 1.0 : f64, numeric_class = #moe<numeric_class row_invariant>, numbers = {}}
  : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> {
^bb0(%a: memref<4x8xf32>, %b: memref<4x8xf32>, %y: memref<4x8xf32>):
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %zero = arith.constant 0.0 : f32
  scf.for %t = %c0 to %c4 step %c1 {
    %row = memref.subview %y[%t, 0] [1, 8] [1, 1] : memref<4x8xf32> to memref<8xf32, strided<[1], offset: ?>>
    // expected-error@+1 {{writes memory row after row}}
    linalg.fill ins(%zero : f32) outs(%row : memref<8xf32, strided<[1], offset: ?>>)
  }
}
}

// -----

// A maximum over rows.
#id = affine_map<(i) -> (i)>
module attributes {moe.phase = "kernels"} {
moe.kernel @k op "add" {bytes = 1.0 : f64, flops = 1.0 : f64, numeric_class = #moe<numeric_class row_invariant>, numbers = {}}
  : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> {
^bb0(%a: memref<4x8xf32>, %b: memref<4x8xf32>, %y: memref<4x8xf32>):
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %zero = arith.constant 0.0 : f32
  // expected-error@+1 {{from one row to the next there are only sums, from zero}}
  %largest = memref.alloca() : memref<8xf32>
  linalg.fill ins(%zero : f32) outs(%largest : memref<8xf32>)
  scf.for %t = %c0 to %c4 step %c1 {
    %row = memref.subview %a[%t, 0] [1, 8] [1, 1] : memref<4x8xf32> to memref<8xf32, strided<[1], offset: ?>>
    linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]}
        ins(%largest, %row : memref<8xf32>, memref<8xf32, strided<[1], offset: ?>>) outs(%largest : memref<8xf32>) {
    ^bb0(%x: f32, %z: f32, %out: f32):
      %next = arith.maxnumf %x, %z : f32
      linalg.yield %next : f32
    }
  }
}
}

// -----

// 256 threads have no registers for it.
module attributes {moe.phase = "kernels"} {
moe.kernel @k op "unpermute" {bytes = 1.0 : f64, flops = 1.0 : f64, numeric_class = #moe<numeric_class row_invariant>, numbers = {}}
  : (tensor<4x40000xf32>, tensor<4x40000xf32>) -> tensor<4x40000xf32> {
^bb0(%a: memref<4x40000xf32>, %b: memref<4x40000xf32>, %y: memref<4x40000xf32>):
  scf.forall (%t) in (4) {
    // expected-error@+1 {{a scratch row of 40000 elements doesn't fit into the registers of 256 threads}}
    %scratch = memref.alloca() : memref<40000xf32>
    %row = memref.subview %a[%t, 0] [1, 40000] [1, 1] : memref<4x40000xf32> to memref<40000xf32, strided<[1], offset: ?>>
    %out = memref.subview %y[%t, 0] [1, 40000] [1, 1] : memref<4x40000xf32> to memref<40000xf32, strided<[1], offset: ?>>
    linalg.copy ins(%row : memref<40000xf32, strided<[1], offset: ?>>) outs(%scratch : memref<40000xf32>)
    linalg.copy ins(%scratch : memref<40000xf32>) outs(%out : memref<40000xf32, strided<[1], offset: ?>>)
  }
}
}
