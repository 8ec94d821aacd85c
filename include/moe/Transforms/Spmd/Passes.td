#ifndef MOE_TRANSFORMS_SPMD_PASSES_TD
#define MOE_TRANSFORMS_SPMD_PASSES_TD

include "mlir/Pass/PassBase.td"

def VerifyModel : Pass<"moe-verify-model", "::mlir::ModuleOp"> {
  let summary = "Check that a module is well-formed model IR";
  let description = [{
    Closes the phase `model`: one `moe.model` and its layers, compute ops and
    parameters only; no distribution, no collective, no backward. Attention and
    rotary embeddings have the layout's sequence.
  }];
}

def Partition : Pass<"moe-partition", "::mlir::ModuleOp"> {
  let summary = "Divide a model over the ranks of its layout";
  let description = [{
    From phase `model` to `spmd`, by the module's `moe.layout`:

    * Every tensor gets its distribution. Activations vary along dp (each rank
      has its own micro-batch), parameters are invariant; the rest follows from
      each op's DistributedOpInterface, so the loss is a partial sum.
    * With ep > 1, experts lie on the grid `experts`: weights stacked by `{e}`
      are sharded along ep, permuted rows and their probabilities are exchanged
      (`moe.all_to_all`) into buffers of the capacity's rows, sorted by local
      expert if there are several, and exchanged back before `moe.unpermute`.
      With ep = 1 the two grids are the same ranks in the same order, and
      everything stays on `attention`.
    * Applies of the repeated layers (those that name `{i}`) are cut into the
      stages that the layout lists; what is before them is on stage 0, what is
      after them on the last stage.

    A parameter that two stages share (tied embeddings) is an error.

    Before, with ep = 2, capacity = 2 and two experts for each of 16 tokens:

    ```mlir
    %map, %counts = moe.permutation %e module(moe_preprocess)
        : (tensor<16x2xi32>) -> (tensor<16x2xi32>, !moe.rows<8, mean = 32>)
    %x = moe.permute %n, %map module(moe_dispatch) : ... -> tensor<32x64xf32>
    %y = moe.grouped_linear %x, %w, %counts module(moe_experts)
        : (tensor<32x64xf32>, tensor<8x64x64xf32>, !moe.rows<8, mean = 32>)
        -> tensor<32x64xf32>
    %o = moe.unpermute %y, %map module(moe_combine) : ... -> tensor<16x64xf32>
    ```

    After (`#v`: varying; encodings of the rows left out):

    ```mlir
    %map, %counts = moe.permutation %e ...
    %received = moe.exchange_counts %counts over "ep" module(moe_dispatch) ...
    %local = moe.local_rows %received module(moe_dispatch)
        : (!moe.rows<8, mean = 32>) -> !moe.rows<4, mean = 32>
    %x = moe.permute %n, %map ... -> tensor<32x64xf32, #attention_dp_varying>
    %a = moe.all_to_all %x, %counts, %received over "ep" ...
        -> tensor<64x64xf32, #experts_ep_varying>
    %s = moe.sort_chunks %a, %received module(moe_dispatch) {ranks = 2 : i64} ...
    %y = moe.grouped_linear %s, %w, %local ...
        : (..., tensor<4x64x64xf32, #experts_ep_sharded0>, ...) -> ...
    %t = moe.sort_chunks %y, %received ... {inverse, ranks = 2 : i64} ...
    %b = moe.all_to_all %t, %received, %counts over "ep" ...
        -> tensor<32x64xf32, #attention_dp_varying>
    %o = moe.unpermute %b, %map ...
    ```
  }];
}

def VerifySpmd : Pass<"moe-verify-spmd", "::mlir::ModuleOp"> {
  let summary = "Check that a module is well-formed spmd IR";
  let description = [{
    Closes the phase `spmd`:

    * every tensor has a distribution, which names exactly the axes of its grid
      that have more than one rank;
    * only moe ops that implement DistributedOpInterface read or make tensors,
      and each result lies as the op's operands imply: so a partial sum is
      nowhere used as a whole value;
    * parameters are invariant, or sharded along ep if stacked by `{e}`;
    * ragged tensors have the rows that the layout's capacity gives, `mean` is
      one micro-batch's copies, and both sides of an exchange of rows count by
      one `moe.exchange_counts`;
    * the model's applies name ascending stages and hold the layers that the
      layout lists for each.

    ```mlir
    %z = moe.linear %n, %w module(head) : ... -> tensor<16x64xf32, #varying>
    %loss = moe.cross_entropy %z, %labels ... -> tensor<1xf32, #partial_sum>
    %n = moe.rms_norm %loss, %w ...   // error: operand #0 must be a whole value
    ```
  }];
}

#endif // MOE_TRANSFORMS_SPMD_PASSES_TD
