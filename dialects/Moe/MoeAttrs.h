#ifndef DIALECTS_MOE_MOEATTRS_H
#define DIALECTS_MOE_MOEATTRS_H

#include "dialects/Moe/MoeDialect.h"
#include "dialects/Moe/MoeEnums.h"
#include "mlir/IR/BuiltinAttributeInterfaces.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/TensorEncoding.h"

namespace mlir::moe {

/// How a value lies along one axis; `dim` only for DistKind::Sharded.
struct AxisDist {
  StringAttr axis;
  DistKind kind = DistKind::Invariant;
  int64_t dim = 0;

  bool operator==(const AxisDist &o) const {
    return axis == o.axis && kind == o.kind && dim == o.dim;
  }
};

inline llvm::hash_code hash_value(const AxisDist &d) {
  return llvm::hash_combine(d.axis.getAsOpaquePointer(),
                            static_cast<int>(d.kind), d.dim);
}

} // namespace mlir::moe

#define GET_ATTRDEF_CLASSES
#include "dialects/Moe/MoeAttrs.h.inc"

namespace mlir::moe {

/// The distribution of a value's type, null if it has none.
DistAttr getDist(Type type);
DistAttr getDist(Value value);
/// The type with another distribution (null: none).
RankedTensorType withDist(RankedTensorType type, DistAttr dist);
/// Type of the cotangent of data: same shape, element and distribution, except
/// that the cotangent of a partial value is varying (each rank holds that of
/// its own part). So the dual of moe.vary is an all_reduce, and that of an
/// all_reduce moe.vary.
RankedTensorType cotangentType(Type type);
/// Type of the gradient accumulator of a parameter: same shape, f32 (f64 of an
/// f64 parameter), DistAttr::dual of its distribution.
RankedTensorType gradientType(Type type);
/// Axes of a grid, in order; empty for an unknown grid.
ArrayRef<StringRef> gridAxes(StringRef grid);

/// Names of module attributes.
inline constexpr StringLiteral kPhaseAttr = "moe.phase";
inline constexpr StringLiteral kLayoutAttr = "moe.layout";
inline constexpr StringLiteral kTargetAttr = "moe.target";
inline constexpr StringLiteral kConfigAttr = "moe.config";
/// Of a shrunken program: its sizes before, a dictionary of `hidden`,
/// `head_dim`, `expert_width`, `vocabulary`, `sequence`.
inline constexpr StringLiteral kOriginalAttr = "moe.original";
/// On a collective: bytes of its input at the sizes that were imported; on
/// moe.train: of the value that layers carry.
inline constexpr StringLiteral kBytesAttr = "moe.bytes";

} // namespace mlir::moe

#endif // DIALECTS_MOE_MOEATTRS_H
