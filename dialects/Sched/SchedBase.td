//===- SchedBase.td - Base classes of sched ops ---------------*- tablegen -*-===//

#ifndef SCHED_BASE_TD
#define SCHED_BASE_TD

include "dialects/Sched/SchedAttrs.td"
include "dialects/Sched/SchedInterfaces.td"
include "dialects/Sched/SchedTypes.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/SymbolInterfaces.td"

defvar Sched_SymbolUser = DeclareOpInterfaceMethods<SymbolUserOpInterface>;
def Sched_String : DefaultValuedStrAttr<StrAttr, "">;

/// An op that runs on a stream. What it uses is written in its order, with
/// `out` for what it writes and `inout` for what it updates; events that its
/// stream waits for follow. It has a result only if something waits for it.
class Sched_IssuedOp<string mnemonic, string asmPrefix, dag specific>
    : Sched_Op<mnemonic, [Sched_IssuedOpInterface, Sched_SymbolUser,
        DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>,
        AttrSizedOperandSegments]> {
  let arguments = !con(specific, (ins FlatSymbolRefAttr:$stream,
    Variadic<Sched_Buffer>:$buffers, DenseI32ArrayAttr:$effects,
    Variadic<Sched_Event>:$waits, Sched_String:$half, Sched_String:$module,
    DefaultValuedAttr<F64Attr, "0.0">:$bytes, Sched_String:$location));
  let results = (outs Optional<Sched_Event>:$done);
  let assemblyFormat = asmPrefix # [{
    `on` $stream `` custom<Buffers>($buffers, $effects)
    (`after` `(` $waits^ `)`)? (`half` $half^)? (`module` $module^)?
    (`bytes` `(` $bytes^ `)`)? (`at` $location^)? attr-dict
    `` custom<Events>(type($done))
  }];
}

#endif // SCHED_BASE_TD
