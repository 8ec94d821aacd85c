// Templates, programs and kernels: what each verifier rejects, once.
// RUN: moe-opt %s -split-input-file -verify-diagnostics

moe.layer @l(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{'moe.return' op types must be the results' of 'l'}}
  moe.return
}

// -----

func.func @f() {
  // expected-error @+1 {{'moe.return' op expects parent op to be one of 'moe.layer, moe.model'}}
  moe.return
}

// -----

moe.layer @l(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{'moe.param' op needs at least one name pattern}}
  %w = moe.param [] dims [hidden] init ones : tensor<8xf32>
  moe.return %x : tensor<4x8xf32>
}

// -----

moe.layer @l(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{'moe.param' op names 1 dimensions of a tensor of rank 2}}
  %w = moe.param ["w"] dims [hidden] init ones : tensor<8x8xf32>
  moe.return %x : tensor<4x8xf32>
}

// -----

moe.layer @l(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{unknown dimension 'depth'}}
  %w = moe.param ["w"] dims [depth] init ones : tensor<8xf32>
  moe.return %x : tensor<4x8xf32>
}

// -----

moe.layer @l(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{expected ones or normal}}
  %w = moe.param ["w"] dims [hidden] init zeros : tensor<8xf32>
  moe.return %x : tensor<4x8xf32>
}

// -----

moe.layer @l(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{'moe.grad' op expects parent op 'moe.backward'}}
  %g = moe.grad ["w"] : tensor<8xf32>
  moe.return %x : tensor<4x8xf32>
}

// -----

moe.layer @l(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{'moe.backward' op has 0 block arguments for 1 saved values and the cotangents before them}}
  moe.backward saved(%x : tensor<4x8xf32>) {
    moe.backward_return
  }
  moe.return %x : tensor<4x8xf32>
}

// -----

moe.layer @l(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{'moe.backward' op saved value #0 has type 'tensor<4x8xf32>', its block argument 'tensor<8x8xf32>'}}
  moe.backward saved(%x : tensor<4x8xf32>) {
  ^bb0(%s: tensor<8x8xf32>):
    moe.backward_return
  }
  moe.return %x : tensor<4x8xf32>
}

// -----

moe.layer @l(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{'moe.backward' op must end in moe.backward_return}}
  moe.backward {
    %w = moe.param ["w"] dims [hidden] init ones : tensor<8xf32>
  }
  moe.return %x : tensor<4x8xf32>
}

// -----

moe.layer @l(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  moe.backward {
    %g = moe.grad ["w"] : tensor<8xf32>
    // expected-error @+1 {{'moe.backward_return' op returns 0 gradient sums for 1 moe.grad}}
    moe.backward_return
  }
  moe.return %x : tensor<4x8xf32>
}

// -----

moe.layer @l(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  moe.backward {
    %w = moe.param ["w"] dims [hidden] init ones : tensor<16xf32>
    %g = moe.grad ["w"] : tensor<8xf32>
    // expected-error @+1 {{'moe.backward_return' op gradient sum #0 has type 'tensor<16xf32>', its moe.grad 'tensor<8xf32>'}}
    moe.backward_return grads(%w : tensor<16xf32>)
  }
  moe.return %x : tensor<4x8xf32>
}

// -----

moe.layer @l(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  moe.return %x : tensor<4x8xf32>
}
func.func @f(%h: tensor<4x8xf32>) {
  // expected-error @+1 {{'moe.apply' op 'nothing' is not a moe.layer}}
  %y = moe.apply @nothing [0 to 1] (%h) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

moe.layer @l(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  moe.return %x : tensor<4x8xf32>
}
func.func @f(%h: tensor<4x8xf32>) {
  // expected-error @+1 {{'moe.apply' op range [2 to 1] is not ascending}}
  %y = moe.apply @l [2 to 1] (%h) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

moe.layer @l(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  moe.return %x : tensor<4x8xf32>
}
func.func @f(%h: tensor<4x8xf32>) {
  // expected-error @+1 {{'moe.apply' op operand types must be those of 'l'}}
  %y = moe.apply @l [0 to 1] (%h, %h) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

moe.layer @l(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  moe.return %x : tensor<4x8xf32>
}
func.func @f(%h: tensor<4x8xf32>) {
  // expected-error @+1 {{'moe.apply' op result types must be those of 'l' (and !moe.saved<@l>)}}
  %y = moe.apply @l [0 to 1] (%h) : (tensor<4x8xf32>) -> tensor<4x4xf32>
  return
}

// -----

moe.layer @l(%x: tensor<4x8xf32>) -> tensor<8xf32> {
  %w = moe.param ["w"] dims [hidden] init ones : tensor<8xf32>
  moe.return %w : tensor<8xf32>
}
func.func @f(%h: tensor<4x8xf32>) {
  // expected-error @+1 {{'moe.apply' op repeats 'l', whose first argument and result differ}}
  %y = moe.apply @l [0 to 2] (%h) : (tensor<4x8xf32>) -> tensor<8xf32>
  return
}

// -----

moe.layer @l(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  moe.return %x : tensor<4x8xf32>
}
func.func @f(%h: tensor<4x8xf32>, %s: !moe.saved<@l>, %g: !moe.grads<@l>) {
  // expected-error @+1 {{'moe.apply_backward' op 'l' has no moe.backward}}
  %d, %g1 = moe.apply_backward @l [0 to 1] (%h) saved(%s : !moe.saved<@l>) grads(%g : !moe.grads<@l>) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

moe.layer @l(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  moe.backward {
  ^bb0(%dy: tensor<4x8xf32>):
    moe.backward_return %dy : tensor<4x8xf32>
  }
  moe.return %x : tensor<4x8xf32>
}
func.func @f(%h: tensor<4x8xf32>, %s: !moe.saved<@k>, %g: !moe.grads<@l>) {
  // expected-error @+1 {{'moe.apply_backward' op saved values and gradients must be those of 'l'}}
  %d, %g1 = moe.apply_backward @l [0 to 1] (%h) saved(%s : !moe.saved<@k>) grads(%g : !moe.grads<@l>) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

moe.layer @l(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  moe.backward {
  ^bb0(%dy: tensor<4x8xf32>):
    moe.backward_return %dy : tensor<4x8xf32>
  }
  moe.return %x : tensor<4x8xf32>
}
func.func @f(%h: tensor<4x8xf32>, %s: !moe.saved<@l>, %g: !moe.grads<@l>) {
  // expected-error @+1 {{'moe.apply_backward' op has 0 cotangents, 'l' wants 1}}
  %d, %g1 = moe.apply_backward @l [0 to 1] () saved(%s : !moe.saved<@l>) grads(%g : !moe.grads<@l>) : () -> tensor<4x8xf32>
  return
}

// -----

moe.layer @l(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  moe.backward {
  ^bb0(%dy: tensor<4x8xf32>):
    moe.backward_return %dy : tensor<4x8xf32>
  }
  moe.return %x : tensor<4x8xf32>
}
func.func @f(%h: tensor<4x8xf32>, %s: !moe.saved<@l>, %g: !moe.grads<@l>) {
  // expected-error @+1 {{'moe.apply_backward' op has 0 results, 'l' returns 1}}
  %g1 = moe.apply_backward @l [0 to 1] (%h) saved(%s : !moe.saved<@l>) grads(%g : !moe.grads<@l>) : (tensor<4x8xf32>) -> ()
  return
}

// -----

func.func @f(%one: tensor<1xf32>, %g: !moe.grads<@l>) {
  // expected-error @+1 {{'moe.micro_batches' op count must be at least 1, but is 0}}
  %loss, %sum = moe.micro_batches 0 init(%g : !moe.grads<@l>) {
  ^bb0(%ids: tensor<4xi32>, %labels: tensor<4xi32>, %g1: !moe.grads<@l>):
    moe.yield %one : tensor<1xf32> sums(%g1 : !moe.grads<@l>)
  } : tensor<1xf32>, !moe.grads<@l>
  return
}

// -----

func.func @f(%one: tensor<1xf32>, %g: !moe.grads<@l>) {
  // expected-error @+1 {{'moe.micro_batches' op body must have arguments for ids, labels and 1 gradients, but has 2}}
  %loss, %sum = moe.micro_batches 1 init(%g : !moe.grads<@l>) {
  ^bb0(%ids: tensor<4xi32>, %g1: !moe.grads<@l>):
    moe.yield %one : tensor<1xf32> sums(%g1 : !moe.grads<@l>)
  } : tensor<1xf32>, !moe.grads<@l>
  return
}

// -----

func.func @f(%one: tensor<1xf32>, %g: !moe.grads<@l>) {
  // expected-error @+1 {{'moe.micro_batches' op must end in moe.yield}}
  %loss, %sum = moe.micro_batches 1 init(%g : !moe.grads<@l>) {
  ^bb0(%ids: tensor<4xi32>, %labels: tensor<4xi32>, %g1: !moe.grads<@l>):
    %g2 = moe.zero_grads [0 to 1] : !moe.grads<@l>
  } : tensor<1xf32>, !moe.grads<@l>
  return
}

// -----

func.func @f(%one: tensor<1xf32>, %g: !moe.grads<@l>) {
  // expected-error @+1 {{'moe.micro_batches' op gradients in, yielded and out must have one type each}}
  %loss, %sum = moe.micro_batches 1 init(%g : !moe.grads<@l>) {
  ^bb0(%ids: tensor<4xi32>, %labels: tensor<4xi32>, %g1: !moe.grads<@l>):
    moe.yield %one : tensor<1xf32>
  } : tensor<1xf32>, !moe.grads<@l>
  return
}

// -----

// expected-error @+1 {{'moe.kernel' op accumulates, so its last input and only result must have one type}}
moe.kernel @k op "k" {accumulates, flops = 0.0 : f64, bytes = 0.0 : f64, numeric_class = #moe<numeric_class deterministic>, numbers = {}} : (tensor<8xf32>) -> tensor<4xf32>

// -----

// expected-error @+1 {{must be a number (f64)}}
moe.kernel @k op "k" {flops = 0.0 : f64, bytes = 0.0 : f64, numeric_class = #moe<numeric_class deterministic>, numbers = {eps = "small"}} : (tensor<8xf32>) -> tensor<4xf32>

// -----

moe.kernel @k op "k" {flops = 0.0 : f64, bytes = 0.0 : f64, numeric_class = #moe<numeric_class deterministic>, numbers = {}} : (tensor<8xf32>) -> tensor<8xf32>
func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'moe.call' op types must be those of 'k', '(tensor<8xf32>) -> tensor<8xf32>'}}
  %y = moe.call @k(%x) module(attn) : (tensor<4xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'moe.call' op 'f' is not a moe.kernel}}
  %y = moe.call @f(%x) module(attn) : (tensor<4xf32>) -> tensor<8xf32>
  return
}
