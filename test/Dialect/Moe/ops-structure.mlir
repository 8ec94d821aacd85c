// Templates, programs and kernels: every op parses, verifies and prints as it is written,
// from the generic form, too. test/Layout/dialects.test sees to it that no op
// and no example of the documentation is missing.
// RUN: moe-opt %s | moe-opt | FileCheck %s
// RUN: moe-opt %s --mlir-print-op-generic | moe-opt | FileCheck %s

// CHECK-LABEL: moe.layer @embed(
moe.layer @embed(%ids: tensor<16xi32>) -> tensor<16x32xf32> {
  // CHECK: moe.param ["embed.weight"] dims [vocabulary, hidden] init normal : tensor<64x32xf32>
  %table = moe.param ["embed.weight"] dims [vocabulary, hidden] init normal : tensor<64x32xf32>
  %y = moe.embedding %table, %ids module(embedding) : (tensor<64x32xf32>, tensor<16xi32>) -> tensor<16x32xf32>
  // CHECK: moe.return %{{.*}} : tensor<16x32xf32>
  moe.return %y : tensor<16x32xf32>
}

// Backward is isolated: what it uses of forward is what is saved.
// CHECK-LABEL: moe.layer @decoder(
moe.layer @decoder(%x: tensor<16x32xf32>) -> tensor<16x32xf32> {
  %w0 = moe.param ["layers.{i}.weight"] dims [hidden, hidden] init normal : tensor<32x32xf32>
  %y = moe.linear %x, %w0 module(attn) : (tensor<16x32xf32>, tensor<32x32xf32>) -> tensor<16x32xf32>
  // CHECK: moe.backward saved(%{{.*}} : tensor<16x32xf32>) {
  // CHECK-NEXT: ^bb0(%{{.*}}: tensor<16x32xf32>, %{{.*}}: tensor<16x32xf32>):
  moe.backward saved(%x : tensor<16x32xf32>) {
  ^bb0(%dy: tensor<16x32xf32>, %sx: tensor<16x32xf32>):
    %w = moe.param ["layers.{i}.weight"] dims [hidden, hidden] init normal : tensor<32x32xf32>
    // CHECK: moe.grad ["layers.{i}.weight"] : tensor<32x32xf32>
    %g = moe.grad ["layers.{i}.weight"] : tensor<32x32xf32>
    %dx = moe.linear_dgrad %dy, %w module(attn) : (tensor<16x32xf32>, tensor<32x32xf32>) -> tensor<16x32xf32>
    %g1 = moe.linear_wgrad %sx, %dy, %g module(attn) : (tensor<16x32xf32>, tensor<16x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    // CHECK: moe.backward_return %{{.*}} : tensor<16x32xf32> grads(%{{.*}} : tensor<32x32xf32>)
    moe.backward_return %dx : tensor<16x32xf32> grads(%g1 : tensor<32x32xf32>)
  }
  moe.return %y : tensor<16x32xf32>
}

// A backward may save nothing and return nothing.
// CHECK-LABEL: moe.layer @constant(
moe.layer @constant(%ids: tensor<16xi32>) -> tensor<16xi32> {
  // CHECK: moe.backward {
  // CHECK-NEXT: moe.backward_return
  moe.backward {
    moe.backward_return
  }
  moe.return %ids : tensor<16xi32>
}

// CHECK-LABEL: moe.layer @experts(
moe.layer @experts(%x: tensor<16x64xf32>) -> tensor<16x64xf32> {
  // CHECK: moe.param ["model.layers.{i}.mlp.experts.{e}.gate_proj.weight", "model.layers.{i}.mlp.experts.{e}.up_proj.weight"] dims [experts, gate_up_width, hidden] init normal : tensor<8x128x64xf32>
  %w = moe.param ["model.layers.{i}.mlp.experts.{e}.gate_proj.weight",
                  "model.layers.{i}.mlp.experts.{e}.up_proj.weight"]
      dims [experts, gate_up_width, hidden] init normal
      : tensor<8x128x64xf32>
  // CHECK: moe.param ["norm"] dims [hidden] init ones : tensor<64xf32>
  %n = moe.param ["norm"] dims [hidden] init ones : tensor<64xf32>
  moe.return %x : tensor<16x64xf32>
}

// CHECK-LABEL: moe.layer @head(
moe.layer @head(%h: tensor<16x32xf32>, %labels: tensor<16xi32>)
    -> tensor<1xf32> {
  %w = moe.param ["lm_head.weight"] dims [vocabulary, hidden] init normal
      : tensor<64x32xf32>
  %z = moe.linear %h, %w module(head)
      : (tensor<16x32xf32>, tensor<64x32xf32>) -> tensor<16x64xf32>
  %loss = moe.cross_entropy %z, %labels module(head) {scale = 6.25e-02 : f64}
      : (tensor<16x64xf32>, tensor<16xi32>) -> tensor<1xf32>
  moe.return %loss : tensor<1xf32>
}

// CHECK-LABEL: moe.model @model(
moe.model @model(%ids: tensor<16xi32>, %labels: tensor<16xi32>) -> tensor<1xf32> {
  // CHECK: moe.apply @embed [0 to 1] stage 0(%{{.*}}) : (tensor<16xi32>) -> tensor<16x32xf32>
  %h = moe.apply @embed [0 to 1] stage 0 (%ids) : (tensor<16xi32>) -> tensor<16x32xf32>
  // CHECK: moe.apply @decoder [0 to 48](%{{.*}}) : (tensor<16x32xf32>) -> tensor<16x32xf32>
  %h1 = moe.apply @decoder [0 to 48] (%h) : (tensor<16x32xf32>) -> tensor<16x32xf32>
  %loss = moe.apply @head [0 to 1] (%h1, %labels) : (tensor<16x32xf32>, tensor<16xi32>) -> tensor<1xf32>
  moe.return %loss : tensor<1xf32>
}

// CHECK-LABEL: moe.train @step
moe.train @step {
  // CHECK: moe.zero_grads[0 to 2] stage 1 : <@decoder>
  %g0 = moe.zero_grads [0 to 2] stage 1 : !moe.grads<@decoder>
  // CHECK: moe.micro_batches 4 init(%{{.*}} : !moe.grads<@decoder>) {
  // CHECK-NEXT: ^bb0(%{{.*}}: tensor<16xi32>, %{{.*}}: tensor<16xi32>, %{{.*}}: !moe.grads<@decoder>):
  %total, %sum = moe.micro_batches 4 init(%g0 : !moe.grads<@decoder>) {
  ^bb0(%ids: tensor<16xi32>, %labels: tensor<16xi32>, %g: !moe.grads<@decoder>):
    %h = moe.apply @embed [0 to 1] (%ids) : (tensor<16xi32>) -> tensor<16x32xf32>
    // CHECK: %{{.*}}:2 = moe.apply @decoder [0 to 2] stage 1(%{{.*}}) : (tensor<16x32xf32>) -> (tensor<16x32xf32>, !moe.saved<@decoder>)
    %h1, %s = moe.apply @decoder [0 to 2] stage 1 (%h) : (tensor<16x32xf32>) -> (tensor<16x32xf32>, !moe.saved<@decoder>)
    %loss = moe.apply @head [0 to 1] (%h1, %labels) : (tensor<16x32xf32>, tensor<16xi32>) -> tensor<1xf32>
    // CHECK: moe.apply_backward @decoder [0 to 2] stage 1(%{{.*}}) saved(%{{.*}} : <@decoder>) grads(%{{.*}} : <@decoder>) : (tensor<16x32xf32>) -> tensor<16x32xf32>
    %dh, %g1 = moe.apply_backward @decoder [0 to 2] stage 1 (%h1) saved(%s : !moe.saved<@decoder>) grads(%g : !moe.grads<@decoder>) : (tensor<16x32xf32>) -> tensor<16x32xf32>
    // CHECK: moe.yield %{{.*}} : tensor<1xf32> sums(%{{.*}} : !moe.grads<@decoder>)
    moe.yield %loss : tensor<1xf32> sums(%g1 : !moe.grads<@decoder>)
  } : tensor<1xf32>, !moe.grads<@decoder>
  // CHECK: moe.optimizer %{{.*}} : !moe.grads<@decoder> {beta1 = {{.*}}, beta2 = {{.*}}, clip = 0.000000e+00 : f64, eps = {{.*}}, lr = 1.000000e-03 : f64, weight_decay = 0.000000e+00 : f64}
  moe.optimizer %sum : !moe.grads<@decoder> {lr = 1.0e-3 : f64, beta1 = 0.9 : f64, beta2 = 0.999 : f64, eps = 1.0e-8 : f64, weight_decay = 0.0 : f64, clip = 0.0 : f64}
}

// CHECK-LABEL: moe.kernel @linear_0 op "linear"
// CHECK-SAME: {bytes = 1.000000e+06 : f64, flops = 1.000000e+09 : f64, numbers = {}, numeric_class = #moe<numeric_class row_invariant>} : (tensor<16x32xf32>, tensor<64x32xf32>) -> tensor<16x64xf32>
moe.kernel @linear_0 op "linear" {flops = 1.0e+09 : f64, bytes = 1.0e+06 : f64,
    numeric_class = #moe<numeric_class row_invariant>, numbers = {}}
    : (tensor<16x32xf32>, tensor<64x32xf32>) -> tensor<16x64xf32>

// CHECK-LABEL: moe.kernel @norm_wgrad op "rms_norm_wgrad"
// CHECK-SAME: {accumulates, bytes = 1.000000e+00 : f64, flops = 0.000000e+00 : f64, numbers = {eps = 1.000000e-05 : f64}, numeric_class = #moe<numeric_class deterministic>}
moe.kernel @norm_wgrad op "rms_norm_wgrad" {accumulates, flops = 0.0 : f64, bytes = 1.0 : f64,
    numeric_class = #moe<numeric_class deterministic>, numbers = {eps = 1.0e-5 : f64}}
    : (tensor<16x32xf32>, tensor<16x32xf32>, tensor<32xf32>) -> tensor<32xf32>

// CHECK-LABEL: func.func @call
func.func @call(%x: tensor<16x32xf32>, %w: tensor<64x32xf32>) {
  // CHECK: moe.call @linear_0(%{{.*}}, %{{.*}}) module(attn) : (tensor<16x32xf32>, tensor<64x32xf32>) -> tensor<16x64xf32>
  %y = moe.call @linear_0(%x, %w) module(attn)
      : (tensor<16x32xf32>, tensor<64x32xf32>) -> tensor<16x64xf32>
  return
}
