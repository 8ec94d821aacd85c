//===- MoeRoutingOps.td - Routing, permutation, experts -------*- tablegen -*-===//
//
// T tokens, k experts per token, E experts, C rows of a ragged tensor. A
// routing decision (indices, probabilities, map, counts) is made once, in
// forward, and saved: nothing recomputes it.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_ROUTING_OPS_TD
#define MOE_ROUTING_OPS_TD

include "dialects/Moe/MoeBase.td"

def Moe_RouteOp : Moe_ComputeOp<"route", ["getKernelAttributes"],
    [Moe_Rankwise, Moe_Differentiable]> {
  let summary = "Choose the k most probable experts of each token";
  let description = [{
    Softmax of the logits [T, E] in f32, the k largest (equal ones: the lowest
    expert first), divided by their sum if `normalize`. Results: probabilities
    [T, k] and experts i32 [T, k].

    ```mlir
    %p, %e = moe.route %logits module(moe_router) {normalize}
        : (tensor<16x8xf32>) -> (tensor<16x2xf32>, tensor<16x2xi32>)
    ```
  }];
  let arguments = (ins Moe_Tensor:$logits, UnitAttr:$normalize,
                       Moe_ModuleAttr:$module);
  let results = (outs Moe_Tensor:$probabilities, Moe_IndexTensor:$experts);
}

def Moe_RouteGradOp : Moe_ComputeOp<"route_grad", ["getKernelAttributes"],
                                    [Moe_Rankwise]> {
  let summary = "Gradient of route's logits";
  let arguments = (ins Moe_Tensor:$logits, Moe_Tensor:$probabilities,
                       Moe_IndexTensor:$experts, Moe_Tensor:$cotangent,
                       UnitAttr:$normalize, Moe_ModuleAttr:$module);
  let results = (outs Moe_Tensor:$result);
}

def Moe_PermutationOp : Moe_ComputeOp<"permutation", ["getNumericClass"],
                                      [Moe_Rankwise, Moe_Differentiable]> {
  let summary = "Row of each token's copies in expert-major order";
  let description = [{
    `map[t, j]` i32 is the row of the copy of token t for its j-th expert, when
    copies are ordered by expert, then token. `counts` are the rows of each
    expert.

    ```mlir
    %map, %counts = moe.permutation %e module(moe_preprocess)
        : (tensor<16x2xi32>) -> (tensor<16x2xi32>, !moe.rows<8, mean = 32>)
    ```
  }];
  let arguments = (ins Moe_IndexTensor:$experts, Moe_ModuleAttr:$module);
  let results = (outs Moe_IndexTensor:$map, Moe_RowsType:$counts);
}

def Moe_PermuteOp : Moe_ComputeOp<"permute", [],
                                  [Moe_Rankwise, Moe_Differentiable]> {
  let summary = "Copy each token to the rows of its map";
  let description = "`y[map[t, j]] = x[t]`; x is [T, w], y is [T*k, w].";
  let arguments = (ins Moe_Tensor:$input, Moe_IndexTensor:$map,
                       Moe_ModuleAttr:$module);
  let results = (outs Moe_Tensor:$result);
}

def Moe_UnpermuteOp : Moe_ComputeOp<"unpermute", [],
                                    [Moe_Rankwise, Moe_Differentiable]> {
  let summary = "Sum each token's copies, in slot order";
  let description = "`x[t] = sum_j y[map[t, j]]`, in f32; the dual of permute.";
  let arguments = (ins Moe_Tensor:$input, Moe_IndexTensor:$map,
                       Moe_ModuleAttr:$module);
  let results = (outs Moe_Tensor:$result);
}

def Moe_PermuteProbsOp : Moe_ComputeOp<"permute_probs", [],
                                       [Moe_Rankwise, Moe_Differentiable]> {
  let summary = "Bring probabilities into the order of permuted rows";
  let description = "`p[map[t, j]] = probs[t, j]`; [T, k] to [T*k].";
  let arguments = (ins Moe_Tensor:$input, Moe_IndexTensor:$map,
                       Moe_ModuleAttr:$module);
  let results = (outs Moe_Tensor:$result);
}

def Moe_UnpermuteProbsOp : Moe_ComputeOp<"unpermute_probs", [],
                                         [Moe_Rankwise, Moe_Differentiable]> {
  let summary = "The inverse of permute_probs";
  let arguments = (ins Moe_Tensor:$input, Moe_IndexTensor:$map,
                       Moe_ModuleAttr:$module);
  let results = (outs Moe_Tensor:$result);
}

def Moe_LocalRowsOp : Moe_ComputeOp<"local_rows",
    ["getKernelAttributes", "getNumericClass"],
    [Moe_Rankwise, Moe_Differentiable]> {
  let summary = "Rows of each local expert, over all source ranks";
  let description = [{
    `received` are the counts [rank][local expert] that `exchange_counts`
    brought; the result their sums over ranks.
  }];
  let arguments = (ins Moe_RowsType:$received, Moe_ModuleAttr:$module);
  let results = (outs Moe_RowsType:$result);
}

def Moe_SortChunksOp : Moe_ComputeOp<"sort_chunks", ["getKernelAttributes"],
                                     [Moe_Rankwise, Moe_Differentiable]> {
  let summary = "Reorder received chunks from rank-major to expert-major";
  let description = [{
    Rows arrive as [source rank][local expert]; grouped linears want [local
    expert][source rank]. `inverse` goes back. `ranks` source ranks; input is
    [C, w] or [C].
  }];
  let arguments = (ins Moe_Tensor:$input, Moe_RowsType:$received,
                       I64Attr:$ranks, UnitAttr:$inverse,
                       Moe_ModuleAttr:$module);
  let results = (outs Moe_Tensor:$result);
}

def Moe_GroupedLinearOp : Moe_ComputeOp<"grouped_linear", ["getFlops"],
    [Moe_Rankwise, Moe_DifferentiableWeight]> {
  let summary = "Each expert's rows times its transposed weight";
  let description = [{
    ```mlir
    %y = moe.grouped_linear %x, %w, %rows module(moe_experts)
        : (tensor<32x64xf32>, tensor<8x128x64xf32>, !moe.rows<8, mean = 32>)
        -> tensor<32x128xf32>
    ```
  }];
  let arguments = (ins Moe_Tensor:$input, Moe_Tensor:$weight,
                       Moe_RowsType:$rows, Moe_ModuleAttr:$module);
  let results = (outs Moe_Tensor:$result);
}

def Moe_GroupedLinearDgradOp : Moe_ComputeOp<"grouped_linear_dgrad",
    ["getFlops"], [Moe_RankwiseParameter]> {
  let summary = "Gradient of grouped_linear's input";
  let arguments = (ins Moe_Tensor:$cotangent, Moe_Tensor:$weight,
                       Moe_RowsType:$rows, Moe_ModuleAttr:$module);
  let results = (outs Moe_Tensor:$result);
}

def Moe_GroupedLinearWgradOp : Moe_WeightGradOp<"grouped_linear_wgrad",
                                                ["getFlops"]> {
  let summary = "Gradient of grouped_linear's weight";
  let arguments = (ins Moe_Tensor:$input, Moe_Tensor:$cotangent,
                       Moe_RowsType:$rows, Moe_Tensor:$accumulator,
                       Moe_ModuleAttr:$module);
  let results = (outs Moe_Tensor:$result);
}

def Moe_SwigluOp : Moe_ComputeOp<"swiglu", [],
                                 [Moe_Rankwise, Moe_Differentiable]> {
  let summary = "Gated activation times the routing probability";
  let description = [{
    `y = silu(x[:, :f]) * x[:, f:] * p`; x is [C, 2f], p [C], y [C, f].
  }];
  let arguments = (ins Moe_Tensor:$input, Moe_Tensor:$probabilities,
                       Moe_RowsType:$rows, Moe_ModuleAttr:$module);
  let results = (outs Moe_Tensor:$result);
}

def Moe_SwigluGradOp : Moe_ComputeOp<"swiglu_grad", [], [Moe_Rankwise]> {
  let summary = "Gradients of swiglu's input and probabilities";
  let arguments = (ins Moe_Tensor:$input, Moe_Tensor:$probabilities,
                       Moe_Tensor:$cotangent, Moe_RowsType:$rows,
                       Moe_ModuleAttr:$module);
  let results = (outs Moe_Tensor:$dinput, Moe_Tensor:$dprobabilities);
}

#endif // MOE_ROUTING_OPS_TD
