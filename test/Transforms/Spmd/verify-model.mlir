// Model IR has layers, parameters and compute ops; it passes and is left as it
// is.
// RUN: moe-opt --moe-verify-model %s | FileCheck %s

// CHECK: moe.phase = "model"
module attributes {moe.phase = "model"} {
// CHECK: moe.layer @l(%[[X:.*]]: tensor<4x8xf32>) -> tensor<4x8xf32> {
// CHECK-NEXT: %[[Y:.*]] = moe.add %[[X]], %[[X]] module(residual)
moe.layer @l(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %y = moe.add %x, %x module(residual) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  moe.return %y : tensor<4x8xf32>
}
moe.model @m(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %y = moe.apply @l [0 to 1] (%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  moe.return %y : tensor<4x8xf32>
}
}
