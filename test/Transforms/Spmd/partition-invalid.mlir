// What can't be divided is an error that names the op and the reason.
// RUN: moe-opt --split-input-file --verify-diagnostics --moe-partition %s

// Only a model can be partitioned.
// expected-error@+1 {{expected a module in phase model, but it is in phase spmd}}
module attributes {moe.phase = "spmd", moe.layout = #moe.layout<dp = 2, ep = 1, pp = 1, micro_batch = 1, global_batch = 4, seq = 4, capacity = 2.0, layers = [0]>} {
}

// -----

// The layout is needed.
// expected-error@+1 {{module has no 'moe.layout'}}
module attributes {moe.phase = "model"} {
}

// -----

// Each rank must hold as many experts.
module attributes {moe.phase = "model", moe.layout = #moe.layout<dp = 4, ep = 4, pp = 1, micro_batch = 1, global_batch = 4, seq = 4, capacity = 2.0, layers = [0]>} {
moe.layer @experts(%x: tensor<4x8xf32>, %e: tensor<4x2xi32>) -> tensor<4x8xf32> {
  // expected-error@+1 {{sends tokens to 6 experts, which ep = 4 does not divide}}
  %map, %counts = moe.permutation %e module(moe_preprocess) : (tensor<4x2xi32>) -> (tensor<4x2xi32>, !moe.rows<6, mean = 8>)
  %px = moe.permute %x, %map module(moe_dispatch) : (tensor<4x8xf32>, tensor<4x2xi32>) -> tensor<8x8xf32>
  %w = moe.param ["layers.{i}.experts.{e}.weight"] dims [experts, hidden, hidden] init normal : tensor<6x8x8xf32>
  %y1 = moe.grouped_linear %px, %w, %counts module(moe_experts) : (tensor<8x8xf32>, tensor<6x8x8xf32>, !moe.rows<6, mean = 8>) -> tensor<8x8xf32>
  %y = moe.unpermute %y1, %map module(moe_combine) : (tensor<8x8xf32>, tensor<4x2xi32>) -> tensor<4x8xf32>
  moe.return %y : tensor<4x8xf32>
}
}

// -----

// What stays can't meet rows that move.
module attributes {moe.phase = "model", moe.layout = #moe.layout<dp = 4, ep = 4, pp = 1, micro_batch = 1, global_batch = 4, seq = 4, capacity = 2.0, layers = [0]>} {
// expected-note@+1 {{the value is here}}
moe.layer @experts(%x: tensor<4x8xf32>, %e: tensor<4x2xi32>, %bias: tensor<8x8xf32>) -> tensor<4x8xf32> {
  %map, %counts = moe.permutation %e module(moe_preprocess) : (tensor<4x2xi32>) -> (tensor<4x2xi32>, !moe.rows<4, mean = 8>)
  %px = moe.permute %x, %map module(moe_dispatch) : (tensor<4x8xf32>, tensor<4x2xi32>) -> tensor<8x8xf32>
  %w = moe.param ["layers.{i}.experts.{e}.weight"] dims [experts, hidden, hidden] init normal : tensor<4x8x8xf32>
  %y1 = moe.grouped_linear %px, %w, %counts module(moe_experts) : (tensor<8x8xf32>, tensor<4x8x8xf32>, !moe.rows<4, mean = 8>) -> tensor<8x8xf32>
  // expected-error@+1 {{computes on rows of experts, which move to other ranks, with a value that stays}}
  %y2 = moe.add %y1, %bias module(moe_experts) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %y = moe.unpermute %y2, %map module(moe_combine) : (tensor<8x8xf32>, tensor<4x2xi32>) -> tensor<4x8xf32>
  moe.return %y : tensor<4x8xf32>
}
}

// -----

// Rows must come back before the layer returns them.
module attributes {moe.phase = "model", moe.layout = #moe.layout<dp = 4, ep = 4, pp = 1, micro_batch = 1, global_batch = 4, seq = 4, capacity = 2.0, layers = [0]>} {
moe.layer @experts(%x: tensor<4x8xf32>, %e: tensor<4x2xi32>) -> tensor<8x8xf32> {
  %map, %counts = moe.permutation %e module(moe_preprocess) : (tensor<4x2xi32>) -> (tensor<4x2xi32>, !moe.rows<4, mean = 8>)
  %px = moe.permute %x, %map module(moe_dispatch) : (tensor<4x8xf32>, tensor<4x2xi32>) -> tensor<8x8xf32>
  %w = moe.param ["layers.{i}.experts.{e}.weight"] dims [experts, hidden, hidden] init normal : tensor<4x8x8xf32>
  %y1 = moe.grouped_linear %px, %w, %counts module(moe_experts) : (tensor<8x8xf32>, tensor<4x8x8xf32>, !moe.rows<4, mean = 8>) -> tensor<8x8xf32>
  // expected-error@+1 {{returns rows of experts; moe.unpermute them first}}
  moe.return %y1 : tensor<8x8xf32>
}
}

// -----

// What is unpermuted must have been permuted by that map.
module attributes {moe.phase = "model", moe.layout = #moe.layout<dp = 4, ep = 4, pp = 1, micro_batch = 1, global_batch = 4, seq = 4, capacity = 2.0, layers = [0]>} {
moe.layer @experts(%x: tensor<4x8xf32>, %e: tensor<4x2xi32>, %bias: tensor<8x8xf32>) -> tensor<4x8xf32> {
  %map, %counts = moe.permutation %e module(moe_preprocess) : (tensor<4x2xi32>) -> (tensor<4x2xi32>, !moe.rows<4, mean = 8>)
  %px = moe.permute %x, %map module(moe_dispatch) : (tensor<4x8xf32>, tensor<4x2xi32>) -> tensor<8x8xf32>
  // expected-error@+1 {{unpermutes what was not permuted by its map}}
  %y = moe.unpermute %bias, %map module(moe_combine) : (tensor<8x8xf32>, tensor<4x2xi32>) -> tensor<4x8xf32>
  moe.return %y : tensor<4x8xf32>
}
}

// -----

// A weight can't be here and there.
module attributes {moe.phase = "model", moe.layout = #moe.layout<dp = 4, ep = 4, pp = 1, micro_batch = 1, global_batch = 4, seq = 4, capacity = 2.0, layers = [0]>} {
moe.layer @experts(%x: tensor<4x8xf32>, %e: tensor<4x2xi32>, %other: tensor<8x8xf32>, %rows: !moe.rows<4, mean = 8>) -> tensor<4x8xf32> {
  %map, %counts = moe.permutation %e module(moe_preprocess) : (tensor<4x2xi32>) -> (tensor<4x2xi32>, !moe.rows<4, mean = 8>)
  %px = moe.permute %x, %map module(moe_dispatch) : (tensor<4x8xf32>, tensor<4x2xi32>) -> tensor<8x8xf32>
  // expected-error@+1 {{is used by experts, which ep places on other ranks, and elsewhere}}
  %w = moe.param ["layers.{i}.experts.{e}.weight"] dims [experts, hidden, hidden] init normal : tensor<4x8x8xf32>
  %y1 = moe.grouped_linear %px, %w, %counts module(moe_experts) : (tensor<8x8xf32>, tensor<4x8x8xf32>, !moe.rows<4, mean = 8>) -> tensor<8x8xf32>
  // expected-note@+1 {{elsewhere is here}}
  %z = moe.grouped_linear %other, %w, %rows module(moe_experts) : (tensor<8x8xf32>, tensor<4x8x8xf32>, !moe.rows<4, mean = 8>) -> tensor<8x8xf32>
  %y = moe.unpermute %y1, %map module(moe_combine) : (tensor<8x8xf32>, tensor<4x2xi32>) -> tensor<4x8xf32>
  moe.return %y : tensor<4x8xf32>
}
}

// -----

// Counts belong to rows.
module attributes {moe.phase = "model", moe.layout = #moe.layout<dp = 4, ep = 4, pp = 1, micro_batch = 1, global_batch = 4, seq = 4, capacity = 2.0, layers = [0]>} {
moe.layer @experts(%x: tensor<4x8xf32>, %e: tensor<4x2xi32>, %other: tensor<8x8xf32>) -> tensor<4x8xf32> {
  %map, %counts = moe.permutation %e module(moe_preprocess) : (tensor<4x2xi32>) -> (tensor<4x2xi32>, !moe.rows<4, mean = 8>)
  %px = moe.permute %x, %map module(moe_dispatch) : (tensor<4x8xf32>, tensor<4x2xi32>) -> tensor<8x8xf32>
  %w = moe.param ["layers.{i}.experts.{e}.weight"] dims [experts, hidden, hidden] init normal : tensor<4x8x8xf32>
  %y1 = moe.grouped_linear %px, %w, %counts module(moe_experts) : (tensor<8x8xf32>, tensor<4x8x8xf32>, !moe.rows<4, mean = 8>) -> tensor<8x8xf32>
  // expected-error@+1 {{counts rows of experts, but reads no rows}}
  %z = moe.grouped_linear %other, %w, %counts module(moe_experts) : (tensor<8x8xf32>, tensor<4x8x8xf32>, !moe.rows<4, mean = 8>) -> tensor<8x8xf32>
  %y = moe.unpermute %y1, %map module(moe_combine) : (tensor<8x8xf32>, tensor<4x2xi32>) -> tensor<4x8xf32>
  moe.return %y : tensor<4x8xf32>
}
}

// -----

// An op of another dialect does not say how distributions pass through it.
module attributes {moe.phase = "model", moe.layout = #moe.layout<dp = 2, ep = 1, pp = 1, micro_batch = 1, global_batch = 4, seq = 4, capacity = 2.0, layers = [0]>} {
moe.layer @cast(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error@+1 {{can't be partitioned: it does not say how distributions pass through it}}
  %y = builtin.unrealized_conversion_cast %x : tensor<4x8xf32> to tensor<4x8xf32>
  moe.return %y : tensor<4x8xf32>
}
}

// -----

// The layout must place all layers.
module attributes {moe.phase = "model", moe.layout = #moe.layout<dp = 2, ep = 1, pp = 2, micro_batch = 1, global_batch = 4, seq = 4, capacity = 2.0, layers = [2, 2]>} {
moe.layer @embed(%ids: tensor<4xi32>) -> tensor<4x8xf32> {
  %w = moe.param ["model.embed_tokens.weight"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
  %x = moe.embedding %w, %ids module(embedding) : (tensor<16x8xf32>, tensor<4xi32>) -> tensor<4x8xf32>
  moe.return %x : tensor<4x8xf32>
}
moe.layer @norm(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %w = moe.param ["layers.{i}.norm.weight"] dims [hidden] init ones : tensor<8xf32>
  %y = moe.rms_norm %x, %w module(norm) {eps = 1.0e-06 : f64} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  moe.return %y : tensor<4x8xf32>
}
moe.layer @head(%h: tensor<4x8xf32>, %labels: tensor<4xi32>) -> tensor<1xf32> {
  %w = moe.param ["lm_head.weight"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
  %z = moe.linear %h, %w module(head) : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  %loss = moe.cross_entropy %z, %labels module(head) {scale = 0.0625 : f64} : (tensor<4x16xf32>, tensor<4xi32>) -> tensor<1xf32>
  moe.return %loss : tensor<1xf32>
}
// expected-error@+1 {{applies 5 layers, but the layout places 4}}
moe.model @m(%ids: tensor<4xi32>, %labels: tensor<4xi32>) -> tensor<1xf32> {
  %h0 = moe.apply @embed [0 to 1] (%ids) : (tensor<4xi32>) -> tensor<4x8xf32>
  %h1 = moe.apply @norm [0 to 5] (%h0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %loss = moe.apply @head [0 to 1] (%h1, %labels) : (tensor<4x8xf32>, tensor<4xi32>) -> tensor<1xf32>
  moe.return %loss : tensor<1xf32>
}
}

// -----

// Layers follow one another.
module attributes {moe.phase = "model", moe.layout = #moe.layout<dp = 2, ep = 1, pp = 1, micro_batch = 1, global_batch = 4, seq = 4, capacity = 2.0, layers = [3]>} {
moe.layer @embed(%ids: tensor<4xi32>) -> tensor<4x8xf32> {
  %w = moe.param ["model.embed_tokens.weight"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
  %x = moe.embedding %w, %ids module(embedding) : (tensor<16x8xf32>, tensor<4xi32>) -> tensor<4x8xf32>
  moe.return %x : tensor<4x8xf32>
}
moe.layer @norm(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %w = moe.param ["layers.{i}.norm.weight"] dims [hidden] init ones : tensor<8xf32>
  %y = moe.rms_norm %x, %w module(norm) {eps = 1.0e-06 : f64} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  moe.return %y : tensor<4x8xf32>
}
moe.layer @head(%h: tensor<4x8xf32>, %labels: tensor<4xi32>) -> tensor<1xf32> {
  %w = moe.param ["lm_head.weight"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
  %z = moe.linear %h, %w module(head) : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  %loss = moe.cross_entropy %z, %labels module(head) {scale = 0.0625 : f64} : (tensor<4x16xf32>, tensor<4xi32>) -> tensor<1xf32>
  moe.return %loss : tensor<1xf32>
}
moe.model @m(%ids: tensor<4xi32>, %labels: tensor<4xi32>) -> tensor<1xf32> {
  %h0 = moe.apply @embed [0 to 1] (%ids) : (tensor<4xi32>) -> tensor<4x8xf32>
  %h1 = moe.apply @norm [0 to 1] (%h0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-error@+1 {{must go on with layer 1, but starts with layer 2}}
  %h2 = moe.apply @norm [2 to 4] (%h1) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %loss = moe.apply @head [0 to 1] (%h2, %labels) : (tensor<4x8xf32>, tensor<4xi32>) -> tensor<1xf32>
  moe.return %loss : tensor<1xf32>
}
}

// -----

// Nothing to cut.
module attributes {moe.phase = "model", moe.layout = #moe.layout<dp = 2, ep = 1, pp = 2, micro_batch = 1, global_batch = 4, seq = 4, capacity = 2.0, layers = [0, 0]>} {
moe.layer @embed(%ids: tensor<4xi32>) -> tensor<4x8xf32> {
  %w = moe.param ["model.embed_tokens.weight"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
  %x = moe.embedding %w, %ids module(embedding) : (tensor<16x8xf32>, tensor<4xi32>) -> tensor<4x8xf32>
  moe.return %x : tensor<4x8xf32>
}
moe.layer @norm(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %w = moe.param ["layers.{i}.norm.weight"] dims [hidden] init ones : tensor<8xf32>
  %y = moe.rms_norm %x, %w module(norm) {eps = 1.0e-06 : f64} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  moe.return %y : tensor<4x8xf32>
}
moe.layer @head(%h: tensor<4x8xf32>, %labels: tensor<4xi32>) -> tensor<1xf32> {
  %w = moe.param ["lm_head.weight"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
  %z = moe.linear %h, %w module(head) : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  %loss = moe.cross_entropy %z, %labels module(head) {scale = 0.0625 : f64} : (tensor<4x16xf32>, tensor<4xi32>) -> tensor<1xf32>
  moe.return %loss : tensor<1xf32>
}
// expected-error@+1 {{has no layers to cut into pp = 2 stages}}
moe.model @m(%ids: tensor<4xi32>, %labels: tensor<4xi32>) -> tensor<1xf32> {
  %h0 = moe.apply @embed [0 to 1] (%ids) : (tensor<4xi32>) -> tensor<4x8xf32>
  %loss = moe.apply @head [0 to 1] (%h0, %labels) : (tensor<4x8xf32>, tensor<4xi32>) -> tensor<1xf32>
  moe.return %loss : tensor<1xf32>
}
}

// -----

// The micro-batch is the layout's.
module attributes {moe.phase = "model", moe.layout = #moe.layout<dp = 2, ep = 1, pp = 1, micro_batch = 1, global_batch = 4, seq = 8, capacity = 2.0, layers = [1]>} {
moe.layer @embed(%ids: tensor<4xi32>) -> tensor<4x8xf32> {
  %w = moe.param ["model.embed_tokens.weight"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
  %x = moe.embedding %w, %ids module(embedding) : (tensor<16x8xf32>, tensor<4xi32>) -> tensor<4x8xf32>
  moe.return %x : tensor<4x8xf32>
}
moe.layer @norm(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %w = moe.param ["layers.{i}.norm.weight"] dims [hidden] init ones : tensor<8xf32>
  %y = moe.rms_norm %x, %w module(norm) {eps = 1.0e-06 : f64} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  moe.return %y : tensor<4x8xf32>
}
moe.layer @head(%h: tensor<4x8xf32>, %labels: tensor<4xi32>) -> tensor<1xf32> {
  %w = moe.param ["lm_head.weight"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
  %z = moe.linear %h, %w module(head) : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  %loss = moe.cross_entropy %z, %labels module(head) {scale = 0.0625 : f64} : (tensor<4x16xf32>, tensor<4xi32>) -> tensor<1xf32>
  moe.return %loss : tensor<1xf32>
}
// expected-error@+1 {{argument #0 must be the micro-batch's 8 tokens (micro_batch * seq), but is 'tensor<4xi32>'}}
moe.model @m(%ids: tensor<4xi32>, %labels: tensor<4xi32>) -> tensor<1xf32> {
  %h0 = moe.apply @embed [0 to 1] (%ids) : (tensor<4xi32>) -> tensor<4x8xf32>
  %h1 = moe.apply @norm [0 to 1] (%h0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %loss = moe.apply @head [0 to 1] (%h1, %labels) : (tensor<4x8xf32>, tensor<4xi32>) -> tensor<1xf32>
  moe.return %loss : tensor<1xf32>
}
}

// -----

// Tied embeddings, on two stages.
module attributes {moe.phase = "model", moe.layout = #moe.layout<dp = 2, ep = 1, pp = 2, micro_batch = 1, global_batch = 4, seq = 4, capacity = 2.0, layers = [1, 1]>} {
moe.layer @embed(%ids: tensor<4xi32>) -> tensor<4x8xf32> {
  // expected-note@+1 {{also declared here}}
  %w = moe.param ["model.embed_tokens.weight"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
  %x = moe.embedding %w, %ids module(embedding) : (tensor<16x8xf32>, tensor<4xi32>) -> tensor<4x8xf32>
  moe.return %x : tensor<4x8xf32>
}
moe.layer @norm(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %w = moe.param ["layers.{i}.norm.weight"] dims [hidden] init ones : tensor<8xf32>
  %y = moe.rms_norm %x, %w module(norm) {eps = 1.0e-06 : f64} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  moe.return %y : tensor<4x8xf32>
}
moe.layer @head(%h: tensor<4x8xf32>, %labels: tensor<4xi32>) -> tensor<1xf32> {
  // expected-error@+1 {{'model.embed_tokens.weight' is shared by @embed on stage 0 and @head on stage 1: parameters tied over pipeline stages are not supported yet}}
  %w = moe.param ["model.embed_tokens.weight"] dims [vocabulary, hidden] init normal : tensor<16x8xf32>
  %z = moe.linear %h, %w module(head) : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  %loss = moe.cross_entropy %z, %labels module(head) {scale = 0.0625 : f64} : (tensor<4x16xf32>, tensor<4xi32>) -> tensor<1xf32>
  moe.return %loss : tensor<1xf32>
}
moe.model @m(%ids: tensor<4xi32>, %labels: tensor<4xi32>) -> tensor<1xf32> {
  %h0 = moe.apply @embed [0 to 1] (%ids) : (tensor<4xi32>) -> tensor<4x8xf32>
  %h1 = moe.apply @norm [0 to 2] (%h0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %loss = moe.apply @head [0 to 1] (%h1, %labels) : (tensor<4x8xf32>, tensor<4xi32>) -> tensor<1xf32>
  moe.return %loss : tensor<1xf32>
}
}
