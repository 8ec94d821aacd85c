//===- MoeEnums.td - Enumerations of the moe dialect ----------*- tablegen -*-===//

#ifndef MOE_ENUMS_TD
#define MOE_ENUMS_TD

include "dialects/Moe/MoeDialect.td"
include "mlir/IR/EnumAttr.td"

class Moe_I32Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::mlir::moe";
  let genSpecializedAttr = 0;
}

/// Which module an op belongs to. Recompute, offload and capture scopes name
/// sets of these (`lib/Support/Modules.h` maps user names such as `moe` to
/// sets). Differentiation and cloning copy it; nothing infers it from names.
def Moe_Module : Moe_I32Enum<"Module", "Module that an op belongs to", [
  I32EnumAttrCase<"Embedding", 0, "embedding">,
  I32EnumAttrCase<"Norm", 1, "norm">,
  I32EnumAttrCase<"Attn", 2, "attn">,
  I32EnumAttrCase<"CoreAttn", 3, "core_attn">,
  I32EnumAttrCase<"MoeRouter", 4, "moe_router">,
  I32EnumAttrCase<"MoePreprocess", 5, "moe_preprocess">,
  I32EnumAttrCase<"MoeDispatch", 6, "moe_dispatch">,
  I32EnumAttrCase<"MoeExperts", 7, "moe_experts">,
  I32EnumAttrCase<"MoeAct", 8, "moe_act">,
  I32EnumAttrCase<"MoeCombine", 9, "moe_combine">,
  I32EnumAttrCase<"Residual", 10, "residual">,
  I32EnumAttrCase<"Head", 11, "head">,
]>;
def Moe_ModuleAttr : EnumAttr<Moe_Dialect, Moe_Module, "module"> {
  let assemblyFormat = "`(` $value `)`";
}

/// What a dimension of a parameter counts; `--shrink` divides widths and the
/// vocabulary, never the numbers of heads or experts.
def Moe_DimRole : Moe_I32Enum<"DimRole", "What a parameter's dimension is", [
  I32EnumAttrCase<"Hidden", 0, "hidden">,
  I32EnumAttrCase<"HeadDim", 1, "head_dim">,
  I32EnumAttrCase<"Heads", 2, "heads">,
  I32EnumAttrCase<"KvHeads", 3, "kv_heads">,
  I32EnumAttrCase<"Experts", 4, "experts">,
  I32EnumAttrCase<"ExpertWidth", 5, "expert_width">,
  I32EnumAttrCase<"GateUpWidth", 6, "gate_up_width">,
  I32EnumAttrCase<"Vocabulary", 7, "vocabulary">,
]>;
def Moe_DimRoleAttr : EnumAttr<Moe_Dialect, Moe_DimRole, "dim"> {
  let assemblyFormat = "$value";
}

def Moe_DistKind : Moe_I32Enum<"DistKind", "How a value lies along an axis", [
  I32EnumAttrCase<"Invariant", 0, "invariant">,
  I32EnumAttrCase<"Varying", 1, "varying">,
  I32EnumAttrCase<"Sharded", 2, "sharded">,
  I32EnumAttrCase<"Flat", 3, "flat">,
  I32EnumAttrCase<"PartialSum", 4, "partial_sum">,
  I32EnumAttrCase<"PartialMax", 5, "partial_max">,
]>;

def Moe_Reduction : Moe_I32Enum<"Reduction", "How a reduction combines", [
  I32EnumAttrCase<"Sum", 0, "sum">,
  I32EnumAttrCase<"Max", 1, "max">,
]>;
def Moe_ReductionAttr : EnumAttr<Moe_Dialect, Moe_Reduction, "reduction">;

def Moe_NumericClass : Moe_I32Enum<"NumericClass",
                                   "What is promised of a kernel's bits", [
  I32EnumAttrCase<"NonDeterministic", 0, "non_deterministic">,
  I32EnumAttrCase<"Deterministic", 1, "deterministic">,
  I32EnumAttrCase<"RowInvariant", 2, "row_invariant">,
]>;
def Moe_NumericClassAttr
    : EnumAttr<Moe_Dialect, Moe_NumericClass, "numeric_class">;

/// How a parameter starts without a checkpoint.
def Moe_Init : Moe_I32Enum<"Init", "Initial value of a parameter", [
  I32EnumAttrCase<"Ones", 0, "ones">,
  I32EnumAttrCase<"Normal", 1, "normal">,
]>;
def Moe_InitAttr : EnumAttr<Moe_Dialect, Moe_Init, "init">;

#endif // MOE_ENUMS_TD
