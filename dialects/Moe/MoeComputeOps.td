//===- MoeComputeOps.td - Dense math --------------------------*- tablegen -*-===//
//
// T: tokens of a micro-batch (samples * sequence). Weights are [out, in].
//
//===----------------------------------------------------------------------===//

#ifndef MOE_COMPUTE_OPS_TD
#define MOE_COMPUTE_OPS_TD

include "dialects/Moe/MoeBase.td"

def Moe_EmbeddingOp : Moe_ComputeOp<"embedding", [],
    [Moe_Rankwise, Moe_DifferentiableWeight]> {
  let summary = "Rows of a table";
  let description = [{
    `y[t] = table[ids[t]]`.

    ```mlir
    %y = moe.embedding %table, %ids module(embedding)
        : (tensor<64x32xf32>, tensor<16xi32>) -> tensor<16x32xf32>
    ```
  }];
  let arguments = (ins Moe_Tensor:$table, Moe_IndexTensor:$ids,
                       Moe_ModuleAttr:$module);
  let results = (outs Moe_Tensor:$result);
}

def Moe_EmbeddingWgradOp : Moe_WeightGradOp<"embedding_wgrad"> {
  let summary = "Gradient of embedding's table, in token order";
  let description = "`acc[ids[t]] += dy[t]` for t ascending.";
  let arguments = (ins Moe_IndexTensor:$ids, Moe_Tensor:$cotangent,
                       Moe_Tensor:$accumulator, Moe_ModuleAttr:$module);
  let results = (outs Moe_Tensor:$result);
}

def Moe_RmsNormOp : Moe_ComputeOp<"rms_norm", ["getKernelAttributes"],
    [Moe_Rankwise, Moe_DifferentiableWeight]> {
  let summary = "Root-mean-square norm of each run of |weight| columns";
  let description = [{
    With d = |weight|, each run of d columns of a row is normalised on its own:
    `y = x / sqrt(mean(x^2) + eps) * weight`. One run: the norm of the residual
    stream; several: the norm of the query or key heads.

    ```mlir
    %y = moe.rms_norm %x, %w module(norm) {eps = 1.0e-06 : f64}
        : (tensor<16x32xf32>, tensor<32xf32>) -> tensor<16x32xf32>
    ```
  }];
  let arguments = (ins Moe_Tensor:$input, Moe_Tensor:$weight, F64Attr:$eps,
                       Moe_ModuleAttr:$module);
  let results = (outs Moe_Tensor:$result);
}

def Moe_RmsNormDgradOp : Moe_ComputeOp<"rms_norm_dgrad",
    ["getKernelAttributes"], [Moe_RankwiseParameter]> {
  let summary = "Gradient of rms_norm's input";
  let arguments = (ins Moe_Tensor:$input, Moe_Tensor:$weight,
                       Moe_Tensor:$cotangent, F64Attr:$eps,
                       Moe_ModuleAttr:$module);
  let results = (outs Moe_Tensor:$result);
}

def Moe_RmsNormWgradOp : Moe_WeightGradOp<"rms_norm_wgrad",
                                          ["getKernelAttributes"]> {
  let summary = "Gradient of rms_norm's weight";
  let arguments = (ins Moe_Tensor:$input, Moe_Tensor:$cotangent,
                       Moe_Tensor:$accumulator, F64Attr:$eps,
                       Moe_ModuleAttr:$module);
  let results = (outs Moe_Tensor:$result);
}

def Moe_LinearOp : Moe_ComputeOp<"linear", ["getFlops"],
    [Moe_Rankwise, Moe_DifferentiableWeight]> {
  let summary = "x * transpose(weight)";
  let description = [{
    ```mlir
    %y = moe.linear %x, %w module(attn)
        : (tensor<16x32xf32>, tensor<64x32xf32>) -> tensor<16x64xf32>
    ```
  }];
  let arguments = (ins Moe_Tensor:$input, Moe_Tensor:$weight,
                       Moe_ModuleAttr:$module);
  let results = (outs Moe_Tensor:$result);
}

def Moe_LinearDgradOp : Moe_ComputeOp<"linear_dgrad", ["getFlops"],
                                      [Moe_RankwiseParameter]> {
  let summary = "Gradient of linear's input: dy * weight";
  let arguments = (ins Moe_Tensor:$cotangent, Moe_Tensor:$weight,
                       Moe_ModuleAttr:$module);
  let results = (outs Moe_Tensor:$result);
}

def Moe_LinearWgradOp : Moe_WeightGradOp<"linear_wgrad", ["getFlops"]> {
  let summary = "Gradient of linear's weight: acc + transpose(dy) * x";
  let arguments = (ins Moe_Tensor:$input, Moe_Tensor:$cotangent,
                       Moe_Tensor:$accumulator, Moe_ModuleAttr:$module);
  let results = (outs Moe_Tensor:$result);
}

def Moe_RopeOp : Moe_ComputeOp<"rope", ["getKernelAttributes"],
    [Moe_Rankwise, Moe_Differentiable]> {
  let summary = "Rotary position embedding of each head, by halves";
  let description = [{
    Position of row t is `t mod sequence`; angle of pair i is
    `position * base^(-2i/head_dim)`; halves (a, b) of a head become
    `(a cos - b sin, b cos + a sin)`. `inverse` turns back (the gradient).

    ```mlir
    %y = moe.rope %x module(attn)
        {base = 1.0e+06 : f64, head_dim = 8 : i64, sequence = 16 : i64}
        : (tensor<16x32xf32>) -> tensor<16x32xf32>
    ```
  }];
  let arguments = (ins Moe_Tensor:$input, I64Attr:$head_dim, F64Attr:$base,
                       I64Attr:$sequence, UnitAttr:$inverse,
                       Moe_ModuleAttr:$module);
  let results = (outs Moe_Tensor:$result);
}

def Moe_AttentionOp : Moe_ComputeOp<"attention",
    ["getFlops", "getKernelAttributes"], [Moe_Rankwise, Moe_Differentiable]> {
  let summary = "Causal grouped-query attention within each sequence";
  let description = [{
    q is [T, heads * head_dim], k and v [T, kv_heads * head_dim]; head j reads
    key/value head j / (heads / kv_heads). `lse` f32 [T, heads] is the natural
    logarithm of the sum of exponentials, which backward needs.
  }];
  let arguments = (ins Moe_Tensor:$query, Moe_Tensor:$key, Moe_Tensor:$value,
                       I64Attr:$heads, I64Attr:$kv_heads, I64Attr:$head_dim,
                       I64Attr:$sequence, F64Attr:$scale,
                       Moe_ModuleAttr:$module);
  let results = (outs Moe_Tensor:$output, Moe_Tensor:$lse);
}

def Moe_AttentionGradOp : Moe_ComputeOp<"attention_grad",
    ["getFlops", "getKernelAttributes", "getNumericClass"], [Moe_Rankwise]> {
  let summary = "Gradients of attention's query, key and value";
  let arguments = (ins Moe_Tensor:$query, Moe_Tensor:$key, Moe_Tensor:$value,
                       Moe_Tensor:$output, Moe_Tensor:$lse,
                       Moe_Tensor:$cotangent,
                       I64Attr:$heads, I64Attr:$kv_heads, I64Attr:$head_dim,
                       I64Attr:$sequence, F64Attr:$scale,
                       Moe_ModuleAttr:$module);
  let results = (outs Moe_Tensor:$dquery, Moe_Tensor:$dkey,
                      Moe_Tensor:$dvalue);
}

def Moe_AddOp : Moe_ComputeOp<"add", [],
    [DeclareOpInterfaceMethods<Moe_DistributedOpInterface,
                               ["inferDistribution"]>,
     Moe_Differentiable]> {
  let summary = "Elementwise sum";
  let description = [{
    Linear: two partial sums, or two shards, that lie alike may be added.
  }];
  let arguments = (ins Moe_Tensor:$lhs, Moe_Tensor:$rhs,
                       Moe_ModuleAttr:$module);
  let results = (outs Moe_Tensor:$result);
}

def Moe_CrossEntropyOp : Moe_ComputeOp<"cross_entropy",
    ["getKernelAttributes", "getNumericClass"],
    [DeclareOpInterfaceMethods<Moe_DistributedOpInterface,
                               ["inferDistribution"]>,
     Moe_Differentiable]> {
  let summary = "Scaled sum of the rows' cross entropy";
  let description = [{
    `loss = scale * sum_t (logsumexp(logits[t]) - logits[t, labels[t]])`, f32
    [1]. With scale = 1 / (tokens of the global batch) the sum of it over
    micro-batches and ranks is the step's loss: it is partial_sum along every
    axis that the logits vary along.
  }];
  let arguments = (ins Moe_Tensor:$logits, Moe_IndexTensor:$labels,
                       F64Attr:$scale, Moe_ModuleAttr:$module);
  let results = (outs Moe_Tensor:$loss);
}

def Moe_CrossEntropyGradOp : Moe_ComputeOp<"cross_entropy_grad",
    ["getKernelAttributes"], [Moe_Rankwise]> {
  let summary = "Gradient of cross_entropy's logits, for a loss cotangent of 1";
  let arguments = (ins Moe_Tensor:$logits, Moe_IndexTensor:$labels,
                       F64Attr:$scale, Moe_ModuleAttr:$module);
  let results = (outs Moe_Tensor:$result);
}

#endif // MOE_COMPUTE_OPS_TD
