#include "dialects/Moe/MoeAttrs.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/SmallSet.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::moe;

#include "dialects/Moe/MoeEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/Moe/MoeAttrs.cpp.inc"

void MoeDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/Moe/MoeAttrs.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// DistAttr
//===----------------------------------------------------------------------===//

Attribute DistAttr::parse(AsmParser &parser, Type) {
  std::string grid;
  SmallVector<AxisDist> axes;
  if (parser.parseLess() || parser.parseKeywordOrString(&grid))
    return {};
  while (succeeded(parser.parseOptionalComma())) {
    AxisDist axis;
    std::string name;
    StringRef keyword;
    SMLoc loc = parser.getCurrentLocation();
    if (parser.parseKeywordOrString(&name) || parser.parseEqual() ||
        parser.parseKeyword(&keyword))
      return {};
    auto kind = symbolizeDistKind(keyword);
    if (!kind) {
      parser.emitError(loc) << "expected invariant, varying, sharded(dim), "
                               "flat, partial_sum or partial_max, but got '"
                            << keyword << "'";
      return {};
    }
    axis.axis = StringAttr::get(parser.getContext(), name);
    axis.kind = *kind;
    if (*kind == DistKind::Sharded &&
        (parser.parseLParen() || parser.parseInteger(axis.dim) ||
         parser.parseRParen()))
      return {};
    axes.push_back(axis);
  }
  if (parser.parseGreater())
    return {};
  return parser.getChecked<DistAttr>(
      parser.getContext(), StringAttr::get(parser.getContext(), grid), axes);
}

void DistAttr::print(AsmPrinter &printer) const {
  printer << "<" << getGrid().getValue();
  for (const AxisDist &axis : getAxes()) {
    printer << ", " << axis.axis.getValue() << " = "
            << stringifyDistKind(axis.kind);
    if (axis.kind == DistKind::Sharded)
      printer << "(" << axis.dim << ")";
  }
  printer << ">";
}

LogicalResult DistAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                               StringAttr grid, ArrayRef<AxisDist> axes) {
  ArrayRef<StringRef> known = gridAxes(grid.getValue());
  if (known.empty())
    return emitError() << "unknown grid '" << grid.getValue()
                       << "', expected attention or experts";
  llvm::SmallDenseSet<StringAttr> seen;
  const StringRef *last = known.begin();
  for (const AxisDist &axis : axes) {
    const StringRef *at = llvm::find(known, axis.axis.getValue());
    if (at == known.end())
      return emitError() << "grid '" << grid.getValue() << "' has no axis '"
                         << axis.axis.getValue() << "'";
    if (!seen.insert(axis.axis).second)
      return emitError() << "axis '" << axis.axis.getValue()
                         << "' is named twice";
    if (at < last)
      return emitError() << "axis '" << axis.axis.getValue()
                         << "' must come before '" << *last << "'";
    last = at;
    if (axis.kind == DistKind::Sharded && axis.dim < 0)
      return emitError() << "sharded dimension must not be negative";
  }
  return success();
}

LogicalResult
DistAttr::verifyEncoding(ArrayRef<int64_t> shape, Type elementType,
                         function_ref<InFlightDiagnostic()> emitError) const {
  for (const AxisDist &axis : getAxes())
    if (axis.kind == DistKind::Sharded &&
        axis.dim >= static_cast<int64_t>(shape.size()))
      return emitError() << "axis '" << axis.axis.getValue()
                         << "' shards dimension " << axis.dim
                         << " of a tensor of rank " << shape.size();
  return success();
}

AxisDist DistAttr::getAxis(StringRef name) const {
  for (const AxisDist &axis : getAxes())
    if (axis.axis.getValue() == name)
      return axis;
  return {StringAttr::get(getContext(), name), DistKind::Invariant, 0};
}

DistAttr DistAttr::with(StringRef name, DistKind kind, int64_t dim) const {
  SmallVector<AxisDist> axes(getAxes());
  for (AxisDist &axis : axes)
    if (axis.axis.getValue() == name) {
      axis.kind = kind;
      axis.dim = dim;
      return get(getContext(), getGrid(), axes);
    }
  axes.push_back({StringAttr::get(getContext(), name), kind, dim});
  return get(getContext(), getGrid(), axes);
}

DistAttr DistAttr::dual() const {
  SmallVector<AxisDist> axes(getAxes());
  for (AxisDist &axis : axes) {
    if (axis.kind == DistKind::Invariant)
      axis.kind = DistKind::PartialSum;
    else if (axis.kind == DistKind::PartialSum)
      axis.kind = DistKind::Invariant;
  }
  return get(getContext(), getGrid(), axes);
}

bool DistAttr::has(DistKind kind) const {
  return llvm::any_of(getAxes(),
                      [&](const AxisDist &a) { return a.kind == kind; });
}

DistAttr mlir::moe::getDist(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor ? dyn_cast_or_null<DistAttr>(tensor.getEncoding()) : DistAttr();
}

DistAttr mlir::moe::getDist(Value value) { return getDist(value.getType()); }

RankedTensorType mlir::moe::withDist(RankedTensorType type, DistAttr dist) {
  return RankedTensorType::get(type.getShape(), type.getElementType(), dist);
}

RankedTensorType mlir::moe::cotangentType(Type type) {
  DistAttr dist = getDist(type);
  if (!dist)
    return cast<RankedTensorType>(type);
  SmallVector<AxisDist> axes(dist.getAxes());
  for (AxisDist &axis : axes)
    if (axis.kind == DistKind::PartialSum || axis.kind == DistKind::PartialMax)
      axis.kind = DistKind::Varying;
  return withDist(cast<RankedTensorType>(type),
                  DistAttr::get(type.getContext(), dist.getGrid(), axes));
}

RankedTensorType mlir::moe::gradientType(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  Type element = tensor.getElementType();
  if (!element.isF64())
    element = Float32Type::get(type.getContext());
  DistAttr dist = getDist(type);
  return RankedTensorType::get(tensor.getShape(), element,
                               dist ? dist.dual() : DistAttr());
}

ArrayRef<StringRef> mlir::moe::gridAxes(StringRef grid) {
  static const StringRef attention[] = {"dp"}, experts[] = {"ep", "edp"};
  if (grid == "attention")
    return attention;
  if (grid == "experts")
    return experts;
  return {};
}

//===----------------------------------------------------------------------===//
// LayoutAttr
//===----------------------------------------------------------------------===//

namespace {
/// The integer keys of a layout, in print order.
const StringRef layoutKeys[] = {"dp",          "ep",           "pp",
                                "micro_batch", "global_batch", "seq"};
} // namespace

Attribute LayoutAttr::parse(AsmParser &parser, Type) {
  int64_t values[6];
  SmallVector<int64_t> layers;
  if (parser.parseLess())
    return {};
  for (unsigned i = 0; i < 6; ++i)
    if (parser.parseKeyword(layoutKeys[i]) || parser.parseEqual() ||
        parser.parseInteger(values[i]) || parser.parseComma())
      return {};
  FloatAttr factor;
  if (parser.parseKeyword("capacity") || parser.parseEqual() ||
      parser.parseAttribute(factor, Float64Type::get(parser.getContext())) ||
      parser.parseComma() || parser.parseKeyword("layers") ||
      parser.parseEqual() ||
      parser.parseCommaSeparatedList(
          AsmParser::Delimiter::Square,
          [&] { return parser.parseInteger(layers.emplace_back()); }) ||
      parser.parseGreater())
    return {};
  return parser.getChecked<LayoutAttr>(parser.getContext(), values[0],
                                       values[1], values[2], values[3],
                                       values[4], values[5], factor, layers);
}

void LayoutAttr::print(AsmPrinter &printer) const {
  const int64_t values[] = {getDp(),         getEp(),          getPp(),
                            getMicroBatch(), getGlobalBatch(), getSequence()};
  printer << "<";
  for (unsigned i = 0; i < 6; ++i)
    printer << layoutKeys[i] << " = " << values[i] << ", ";
  printer << "capacity = ";
  printer.printFloat(getCapacity().getValue());
  printer << ", layers = [";
  llvm::interleaveComma(getLayers(), printer);
  printer << "]>";
}

LogicalResult LayoutAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                 int64_t dp, int64_t ep, int64_t pp,
                                 int64_t microBatch, int64_t globalBatch,
                                 int64_t sequence, FloatAttr capacity,
                                 ArrayRef<int64_t> layers) {
  const int64_t values[] = {dp, ep, pp, microBatch, globalBatch, sequence};
  for (unsigned i = 0; i < 6; ++i)
    if (values[i] < 1)
      return emitError() << layoutKeys[i] << " must be at least 1, but got "
                         << values[i];
  if (dp % ep != 0)
    return emitError() << "ep = " << ep << " must divide dp = " << dp;
  if (globalBatch % (dp * microBatch) != 0)
    return emitError() << "global_batch = " << globalBatch
                       << " must be a multiple of dp * micro_batch = "
                       << dp * microBatch;
  double factor = capacity.getValueAsDouble();
  if (!(factor == 0 || factor >= 1))
    return emitError() << "capacity must be 0 (worst) or at least 1";
  if (static_cast<int64_t>(layers.size()) != pp)
    return emitError() << "layers must list " << pp << " stages, but lists "
                       << layers.size();
  for (int64_t n : layers)
    if (n < 0)
      return emitError() << "a stage can't have " << n << " layers";
  return success();
}
