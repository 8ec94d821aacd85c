//===- SchedAttrs.td - Attributes of the sched dialect --------*- tablegen -*-===//

#ifndef SCHED_ATTRS_TD
#define SCHED_ATTRS_TD

include "dialects/Sched/SchedEnums.td"
include "mlir/IR/AttrTypeBase.td"

def Sched_FrameAttr : AttrDef<Sched_Dialect, "Frame"> {
  let mnemonic = "frame";
  let summary = "Name, kind and bytes of a template's frame";
  let description = [{
    Without `bytes` the frame has the size of its buffers. Templates print it
    as the type of their argument: `%saved: saved<4096>`.

    Example: `#sched.frame<"x", saved, bytes = 4096>`
  }];
  let parameters = (ins "::mlir::StringAttr":$name, "FrameKind":$kind,
                        DefaultValuedParameter<"int64_t", "-1">:$bytes);
  let assemblyFormat = "`<` $name `,` $kind (`,` `bytes` `=` $bytes^)? `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    bool hasBytes() const { return getBytes() >= 0; }
  }];
}
def Sched_FrameArrayAttr : TypedArrayAttrBase<Sched_FrameAttr, "frames">;

#endif // SCHED_ATTRS_TD
