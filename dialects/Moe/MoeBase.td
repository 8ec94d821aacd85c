//===- MoeBase.td - Base classes of moe ops -------------------*- tablegen -*-===//

#ifndef MOE_BASE_TD
#define MOE_BASE_TD

include "dialects/Moe/MoeAttrs.td"
include "dialects/Moe/MoeInterfaces.td"
include "dialects/Moe/MoeTypes.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

/// An op that becomes a kernel. `computeMethods`: methods of
/// ComputeOpInterface that it overrides. Written as
/// `moe.op %a, %b module(m) {attributes} : (types) -> types`.
class Moe_ComputeOp<string mnemonic, list<string> computeMethods = [],
                    list<Trait> traits = []>
    : Moe_Op<mnemonic, !listconcat([Pure,
        DeclareOpInterfaceMethods<Moe_ComputeOpInterface, computeMethods>],
        traits)> {
  let assemblyFormat = [{
    operands `module` `` $module attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

/// Adds the gradient of a parameter to its accumulator, the last operand.
class Moe_WeightGradOp<string mnemonic, list<string> computeMethods = []>
    : Moe_ComputeOp<mnemonic,
        !listconcat(computeMethods, ["accumulates", "getNumericClass"]),
        [DeclareOpInterfaceMethods<Moe_DistributedOpInterface,
                                   ["inferDistribution"]>]>;

defvar Moe_Rankwise = DeclareOpInterfaceMethods<Moe_DistributedOpInterface>;
defvar Moe_RankwiseParameter =
    DeclareOpInterfaceMethods<Moe_DistributedOpInterface,
                              ["getParameterOperand"]>;
defvar Moe_Differentiable =
    DeclareOpInterfaceMethods<Moe_DifferentiableOpInterface>;
defvar Moe_DifferentiableWeight =
    DeclareOpInterfaceMethods<Moe_DifferentiableOpInterface,
                              ["getWeightOperand", "buildWeightGrad"]>;

#endif // MOE_BASE_TD
