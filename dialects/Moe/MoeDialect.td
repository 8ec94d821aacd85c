//===- MoeDialect.td - Training of Mixture-of-Experts models --*- tablegen -*-===//

#ifndef MOE_DIALECT_TD
#define MOE_DIALECT_TD

include "mlir/IR/OpBase.td"

def Moe_Dialect : Dialect {
  let name = "moe";
  let cppNamespace = "::mlir::moe";
  let summary = "Training of Mixture-of-Experts models, from model to kernels";
  let description = [{
    A program in this dialect passes through the phases `model`, `spmd`,
    `training` and `kernels` (the module's `moe.phase`); the `sched` dialect
    takes over from there.

    * **model**: `moe.layer` templates hold the math of one layer over logical
      tensors of one rank's micro-batch; `moe.model` applies them.
    * **spmd**: the same, with a distribution in every tensor type
      (`tensor<4096x2048xbf16, #moe.dist<attention, dp = varying>>`) and
      explicit collectives.
    * **training**: every layer holds an isolated `moe.backward` region whose
      operands are exactly what forward saves for it; `moe.train` loops over
      micro-batches and ends in the optimizer.
    * **kernels**: compute ops have become calls of `moe.kernel` symbols, with
      cost, effects and numeric class; distributions are erased.

    Ragged tensors have a static capacity of rows; how many are in use, per
    expert, is a `!moe.rows` value that lives on the device.

    Files: `MoeStructureOps.td` (templates, model, training loop),
    `MoeComputeOps.td` (dense math), `MoeRoutingOps.td` (routing, permutation,
    experts), `MoeCollectiveOps.td`, `MoeKernelOps.td`; `MoeAttrs.td`,
    `MoeTypes.td`, `MoeEnums.td`, `MoeInterfaces.td`.
  }];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let extraClassDeclaration = [{
    void registerTypes();
    void registerAttributes();
  }];
}

class Moe_Op<string mnemonic, list<Trait> traits = []>
    : Op<Moe_Dialect, mnemonic, traits>;

#endif // MOE_DIALECT_TD
