//===- MoeAttrs.td - Attributes of the moe dialect ------------*- tablegen -*-===//

#ifndef MOE_ATTRS_TD
#define MOE_ATTRS_TD

include "dialects/Moe/MoeDialect.td"
include "dialects/Moe/MoeEnums.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/TensorEncoding.td"

class Moe_Attr<string name, string attrMnemonic, list<Trait> traits = []>
    : AttrDef<Moe_Dialect, name, traits> {
  let mnemonic = attrMnemonic;
}

def Moe_DistAttr : Moe_Attr<"Dist", "dist", [
    DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]> {
  let summary = "How a tensor lies on the ranks of a grid";
  let description = [{
    Every axis of the grid with more than one rank is named, in the grid's
    order:

    * `invariant`: equal on all ranks by construction
    * `varying`: each rank has its own
    * `sharded(d)`: rank i holds block i of dimension d
    * `flat`: rank i holds block i of the flattened, padded bucket
    * `partial_sum`, `partial_max`: the value is the reduction over the ranks

    The lattice: along an axis, all data that an op reads must lie in the same
    way, and whole (not partial); `moe.vary` takes invariant to varying. A
    parameter may be invariant where the rows vary; one that is stacked by
    expert may be sharded there. Nothing but collectives reads shards of data.

    The grid is `attention` (axes dp) or `experts` (axes ep, edp): two
    factorings of the same ranks of a pipeline stage.

    Example: `#moe.dist<experts, ep = sharded(0), edp = partial_sum>`
  }];
  let parameters = (ins "::mlir::StringAttr":$grid,
                        ArrayRefParameter<"AxisDist">:$axes);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Entry of an axis, null kind Invariant if it is not named (size 1).
    AxisDist getAxis(StringRef name) const;
    /// The same with one entry replaced (added if absent).
    DistAttr with(StringRef axis, DistKind kind, int64_t dim = 0) const;
    /// Distribution of a parameter's gradient before it is reduced: invariant
    /// and partial_sum are dual, the others their own. (A cotangent of data is
    /// another thing: see cotangentType.)
    DistAttr dual() const;
    /// Whether some axis has this kind.
    bool has(DistKind kind) const;
  }];
}

def Moe_LayoutAttr : Moe_Attr<"Layout", "layout"> {
  let summary = "How the job is laid out over ranks";
  let description = [{
    `dp` = ranks / pp; the experts' axes are ep and edp = dp / ep. Rank =
    stage * dp + edp_rank * ep + ep_rank. `layers` are the decoder layers of
    each stage. `capacity` is the factor F of ragged buffers: rows =
    min(worst, ceil(F * mean)); 0 means worst.
  }];
  let parameters = (ins
    "int64_t":$dp, "int64_t":$ep, "int64_t":$pp,
    "int64_t":$microBatch, "int64_t":$globalBatch, "int64_t":$sequence,
    "::mlir::FloatAttr":$capacity,
    ArrayRefParameter<"int64_t">:$layers);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    int64_t getEdp() const { return getDp() / getEp(); }
    int64_t getRanks() const { return getDp() * getPp(); }
    /// Factor F, 0: worst case.
    double getCapacityFactor() const {
      return getCapacity().getValueAsDouble();
    }
    /// Micro-batches of one rank in a step.
    int64_t getMicroBatches() const {
      return getGlobalBatch() / (getDp() * getMicroBatch());
    }
    /// Tokens of one rank's micro-batch.
    int64_t getTokens() const { return getMicroBatch() * getSequence(); }
  }];
}

#endif // MOE_ATTRS_TD
