#include "dialects/Moe/MoeDialect.h"

#include "dialects/Moe/MoeOps.h"
#include "mlir/Transforms/InliningUtils.h"

using namespace mlir;
using namespace mlir::moe;

#include "dialects/Moe/MoeDialect.cpp.inc"

namespace {
/// Distributions print as aliases that name the grid and what is not invariant:
/// `#attention_dp_varying`.
struct MoeAsmInterface : OpAsmDialectInterface {
  using OpAsmDialectInterface::OpAsmDialectInterface;

  AliasResult getAlias(Attribute attr, raw_ostream &os) const override {
    auto dist = dyn_cast<DistAttr>(attr);
    if (!dist)
      return AliasResult::NoAlias;
    os << dist.getGrid().getValue();
    for (const AxisDist &axis : dist.getAxes()) {
      os << "_" << axis.axis.getValue() << "_" << stringifyDistKind(axis.kind);
      if (axis.kind == DistKind::Sharded)
        os << axis.dim;
    }
    return AliasResult::FinalAlias;
  }
};
} // namespace

void MoeDialect::initialize() {
  registerTypes();
  registerAttributes();
  addOperations<
#define GET_OP_LIST
#include "dialects/Moe/MoeOps.cpp.inc"
      >();
  addInterfaces<MoeAsmInterface>();
}

LogicalResult MoeDialect::verifyOperationAttribute(Operation *op,
                                                   NamedAttribute attribute) {
  StringRef name = attribute.getName();
  auto expect = [&](bool holds, StringRef what) -> LogicalResult {
    if (holds)
      return success();
    return op->emitOpError() << "attribute '" << name << "' must be " << what;
  };
  if (name == kPhaseAttr) {
    auto phase = dyn_cast<StringAttr>(attribute.getValue());
    static const StringRef phases[] = {"model", "spmd", "training", "kernels",
                                       "sched"};
    return expect(phase && llvm::is_contained(phases, phase.getValue()),
                  "one of \"model\", \"spmd\", \"training\", \"kernels\", "
                  "\"sched\"");
  }
  if (name == kLayoutAttr)
    return expect(isa<LayoutAttr>(attribute.getValue()), "a #moe.layout");
  if (name == kTargetAttr)
    return expect(isa<StringAttr>(attribute.getValue()), "a string");
  if (name == kOriginalAttr) {
    auto sizes = dyn_cast<DictionaryAttr>(attribute.getValue());
    static const StringRef known[] = {"hidden", "head_dim", "expert_width",
                                      "vocabulary", "sequence"};
    auto isSize = [](NamedAttribute entry) {
      auto size = dyn_cast<IntegerAttr>(entry.getValue());
      return llvm::is_contained(known, entry.getName().getValue()) && size &&
             size.getType().isInteger(64) && size.getInt() > 0;
    };
    return expect(sizes && llvm::all_of(sizes, isSize),
                  "a dictionary of positive sizes (i64): hidden, head_dim, "
                  "expert_width, vocabulary, sequence");
  }
  return success();
}
