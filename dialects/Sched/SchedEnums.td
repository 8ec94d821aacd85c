//===- SchedEnums.td - Enumerations of the sched dialect ------*- tablegen -*-===//
//
// Values are those of the enumerations in include/moe/Table/Table.h.
//
//===----------------------------------------------------------------------===//

#ifndef SCHED_ENUMS_TD
#define SCHED_ENUMS_TD

include "dialects/Sched/SchedDialect.td"
include "mlir/IR/EnumAttr.td"

class Sched_I32Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::mlir::sched";
  let genSpecializedAttr = 0;
}
class Sched_EnumAttr<EnumInfo info, string mnemonic>
    : EnumAttr<Sched_Dialect, info, mnemonic> {
  let assemblyFormat = "$value";
}

def Sched_Effect : Sched_I32Enum<"Effect", "What an op does with a buffer", [
  I32EnumAttrCase<"Read", 0, "read">,
  I32EnumAttrCase<"Write", 1, "write">,
  I32EnumAttrCase<"ReadWrite", 2, "read_write">,
]>;

def Sched_FrameKind : Sched_I32Enum<"FrameKind", "What a frame holds", [
  I32EnumAttrCase<"Weights", 0, "weights">,
  I32EnumAttrCase<"Gradients", 1, "gradients">,
  I32EnumAttrCase<"Saved", 2, "saved">,
  I32EnumAttrCase<"Temporary", 3, "temporary">,
  I32EnumAttrCase<"Carried", 4, "carried">,
  I32EnumAttrCase<"Host", 5, "host">,
  I32EnumAttrCase<"Global", 6, "global">,
]>;

def Sched_CollectiveKind : Sched_I32Enum<"CollectiveKind", "A collective", [
  I32EnumAttrCase<"ExchangeCounts", 0, "exchange_counts">,
  I32EnumAttrCase<"AllToAll", 1, "all_to_all">,
  I32EnumAttrCase<"AllReduceSum", 2, "all_reduce_sum">,
  I32EnumAttrCase<"AllReduceMax", 3, "all_reduce_max">,
  I32EnumAttrCase<"ReduceScatter", 4, "reduce_scatter">,
  I32EnumAttrCase<"AllGather", 5, "all_gather">,
]>;
def Sched_CollectiveKindAttr
    : Sched_EnumAttr<Sched_CollectiveKind, "collective_kind">;

def Sched_NumericClass : Sched_I32Enum<"NumericClass",
                                       "What is promised of a kernel's bits", [
  I32EnumAttrCase<"NonDeterministic", 0, "non_deterministic">,
  I32EnumAttrCase<"Deterministic", 1, "deterministic">,
  I32EnumAttrCase<"RowInvariant", 2, "row_invariant">,
]>;
def Sched_NumericClassAttr
    : Sched_EnumAttr<Sched_NumericClass, "numeric_class">;

def Sched_Init : Sched_I32Enum<"Init", "How a parameter starts", [
  I32EnumAttrCase<"Ones", 0, "ones">,
  I32EnumAttrCase<"Normal", 1, "normal">,
]>;
def Sched_InitAttr : Sched_EnumAttr<Sched_Init, "init">;

#endif // SCHED_ENUMS_TD
