// moe-run trains a schedule written by hand: the loss is the sum of the
// weights, the norm its square root, the gradient twice the weights.
// RUN: moe-run %s --steps 2 --no-timing > %t.out 2> %t.err
// RUN: FileCheck %s --input-file %t.out --match-full-lines --implicit-check-not=step
// RUN: FileCheck %s --input-file %t.err --check-prefix=PROOFS
// RUN: moe-run %s 2>/dev/null | FileCheck %s --check-prefix=TIMING
//
// CHECK: step 1 loss 4 grad_norm 2
// CHECK-NEXT: step 2 loss 4 grad_norm 2
// PROOFS: verified: 5 ops, 4 proofs
// TIMING: step 1 loss 4 grad_norm 2 tokens/s {{[0-9.e+]+$}}
//
// Any order and number of threads, and the same as a table, print the same.
// RUN: moe-run %s --steps 2 --no-timing --threads 1 --order-seed 7 2>/dev/null | diff - %t.out
// RUN: moe-translate --export-json %s -o %t.json
// RUN: moe-run %t.json --steps 2 --no-timing --no-verify 2>&1 | diff - %t.out
//
// Weights go out and come in again; tokens come from a file.
// RUN: moe-run %s --no-timing --save %t.w --save-gradients %t.g --tokens %S/../../Execution/Inputs/golden/base/tokens.safetensors | FileCheck %s --check-prefix=ONE
// RUN: moe-run %s --no-timing --weights %t.g --save %t.w2 | FileCheck %s --check-prefix=TWICE
// RUN: moe-run %s --no-timing --weights %t.w --save %t.w3 | FileCheck %s --check-prefix=ONE
// RUN: cmp %t.w2 %t.g
// RUN: cmp %t.w3 %t.w
// ONE: step 1 loss 4 grad_norm 2
// TWICE: step 1 loss 8 grad_norm 2.82842708

module attributes {moe.phase = "sched"} {
  sched.job "hand-made" micro_batches(4) sequence(16) vocabulary(64) {
    sched.stream @compute
    sched.stream @side
    sched.kernel @sum "sum"(read, write) deterministic
    sched.kernel @norm "grad_norm"(read, write) deterministic
    sched.kernel @add "add"(read, read, write) row_invariant
    sched.template @step(%w: weights, %g: gradients, %out: global<8>, %temp: temporary) {
      %weights = sched.buffer %w : tensor<4xf32>
      %gradient = sched.buffer %g : tensor<4xf32>
      %loss = sched.buffer %out[0] : tensor<1xf32>
      %norm = sched.buffer %out[4] : tensor<1xf32>
      %once = sched.buffer %temp : tensor<1xf32>
      %twice = sched.buffer %temp : tensor<1xf32>
      %summed = sched.launch @sum on @compute(%weights, out %once) at "sum mb {mb}"
      sched.launch @sum on @side(%once, out %loss) after(%summed) at "loss"
      sched.launch @norm on @side(%once, out %norm) at "norm"
      sched.launch @add on @compute(%weights, %weights, out %gradient) at "gradient"
      sched.launch @add on @compute(%once, %once, out %twice) at "unused"
    }
    sched.program @all ranks(0, 1) tokens(64) labels(512) loss(32) grad_norm(36) {
      sched.parameter ["w"] : tensor<4xf32> stored [4] at(0) gradient(16) init ones
      sched.call @step at [0, 16, 32, 1024]
    }
  }
}
