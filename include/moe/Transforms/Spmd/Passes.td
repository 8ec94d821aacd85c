#ifndef MOE_TRANSFORMS_SPMD_PASSES_TD
#define MOE_TRANSFORMS_SPMD_PASSES_TD

include "mlir/Pass/PassBase.td"

def VerifyModel : Pass<"moe-verify-model", "::mlir::ModuleOp"> {
  let summary = "Check that a module is well-formed model IR";
  let description = [{
    Closes the phase `model`: one `moe.model` and its layers, compute ops and
    parameters only; no distribution, no collective, no backward.
  }];
}

#endif // MOE_TRANSFORMS_SPMD_PASSES_TD
