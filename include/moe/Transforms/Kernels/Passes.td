#ifndef MOE_TRANSFORMS_KERNELS_PASSES_TD
#define MOE_TRANSFORMS_KERNELS_PASSES_TD

include "mlir/Pass/PassBase.td"

def FormKernels : Pass<"moe-form-kernels", "::mlir::ModuleOp"> {
  let summary = "Turn compute ops into calls of kernels";
  let description = [{
    From phase `training` to phase `kernels`. Each compute op becomes a call of
    a `moe.kernel` that carries its cost, its numeric class and the numbers it
    needs; equal ops share one kernel. Distributions are erased: from here on
    types say what one rank holds. Collectives stay.

    ```mlir
    // Before
    %y = moe.linear %x, %w module(attn)
        : (tensor<16x32xf32, #attention>, tensor<64x32xf32, #attention>)
        -> tensor<16x64xf32, #attention>
    // After
    moe.kernel @linear_0 op "linear" {bytes = 1.4336e+04 : f64,
        flops = 6.5536e+04 : f64, numbers = {},
        numeric_class = #moe<numeric_class row_invariant>}
        : (tensor<16x32xf32>, tensor<64x32xf32>) -> tensor<16x64xf32>
    %y = moe.call @linear_0(%x, %w) module(attn)
        : (tensor<16x32xf32>, tensor<64x32xf32>) -> tensor<16x64xf32>
    ```
  }];
}

def Recompute : Pass<"moe-recompute", "::mlir::ModuleOp"> {
  let summary = "Compute what a module produced again in backward";
  let description = [{
    A value that a module of `modules` computes and backward needs is no longer
    saved: backward gets a copy of the calls that produce it, fed from what is
    still saved. The modules are one set, so their order doesn't matter. The
    copies call the same kernels: the bits are those of forward.

    Routing decisions are never computed again: what the router and the
    permutation give (probabilities, experts, map, counts) stays saved, also
    when `moe` is named.

    ```mlir
    // Before
    %n = moe.call @rms_norm_0(%x, %w) module(norm) : ...
    moe.backward saved(%x, %n : ...) {
    ^bb0(%dy: ..., %sx: ..., %sn: ...):
      %g1 = moe.call @linear_wgrad_0(%sn, %dy, %g) module(attn) : ...
    // After --moe-recompute=modules=norm
    moe.backward saved(%x : ...) {
    ^bb0(%dy: ..., %sx: ...):
      %w = moe.param ...
      %n = moe.call @rms_norm_0(%sx, %w) module(norm) : ...
      %g1 = moe.call @linear_wgrad_0(%n, %dy, %g) module(attn) : ...
    ```
  }];
  let options = [
    ListOption<"modules", "modules", "std::string",
               "Modules to compute again: norm, core_attn, attn, moe, moe_act">
  ];
}

def VerifyKernels : Pass<"moe-verify-kernels", "::mlir::ModuleOp"> {
  let summary = "Check that a module is well-formed kernels IR";
  let description = [{
    Closes the phase `kernels`: no compute op and no distribution is left, the
    routing decision is not made in backward, every kernel fits the library.
  }];
}

#endif // MOE_TRANSFORMS_KERNELS_PASSES_TD
