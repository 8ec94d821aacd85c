//===- MoeTypes.td - Types of the moe dialect -----------------*- tablegen -*-===//

#ifndef MOE_TYPES_TD
#define MOE_TYPES_TD

include "dialects/Moe/MoeDialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinTypeInterfaces.td"

class Moe_Type<string name, string typeMnemonic>
    : TypeDef<Moe_Dialect, name> {
  let mnemonic = typeMnemonic;
}

def Moe_RowsType : Moe_Type<"Rows", "rows"> {
  let summary = "Rows in use of a ragged tensor, per group, on the device";
  let description = [{
    i32 counts of `groups` groups (experts, or rank-major blocks of experts).
    The groups' rows are contiguous from row 0 of the tensor that the value
    goes with. `mean` is the expected sum under balanced routing: what costs
    are computed from, never correctness.

    Example: `!moe.rows<8, mean = 32768>`
  }];
  let parameters = (ins "int64_t":$groups, "int64_t":$mean);
  let assemblyFormat = "`<` $groups `,` `mean` `=` $mean `>`";
  let genVerifyDecl = 1;
}

def Moe_SavedType : Moe_Type<"Saved", "saved"> {
  let summary = "What the forward of a range of layers keeps for backward";
  let description = [{
    Opaque to programs, so that recompute changes no caller: the contents are
    the operands of the layer's `moe.backward`. Example: `!moe.saved<@decoder>`
  }];
  let parameters = (ins "::mlir::FlatSymbolRefAttr":$layer);
  let assemblyFormat = "`<` $layer `>`";
}

def Moe_GradsType : Moe_Type<"Grads", "grads"> {
  let summary = "Gradient accumulators of a range of layers, f32";
  let description = [{
    One accumulator per `moe.param` of the layer and layer of the range.
    Example: `!moe.grads<@decoder>`
  }];
  let parameters = (ins "::mlir::FlatSymbolRefAttr":$layer);
  let assemblyFormat = "`<` $layer `>`";
}

def Moe_Float : AnyTypeOf<[F32, BF16, F64], "f32, bf16 or f64">;
def Moe_Tensor : RankedTensorOf<[Moe_Float]>;
def Moe_IndexTensor : RankedTensorOf<[I32]>;
def Moe_Any : AnyTypeOf<[AnyRankedTensor, Moe_RowsType]>;

#endif // MOE_TYPES_TD
