#include "moe/Support/Grid.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace mlir::moe;

std::optional<AxisGroup> mlir::moe::axisGroup(LayoutAttr layout,
                                              StringRef axis) {
  if (axis == "dp")
    return AxisGroup{layout.getDp(), 1};
  if (axis == "ep")
    return AxisGroup{layout.getEp(), 1};
  if (axis == "edp")
    return AxisGroup{layout.getEdp(), layout.getEp()};
  if (axis == "pp")
    return AxisGroup{layout.getPp(), layout.getDp()};
  if (axis == "world")
    return AxisGroup{layout.getRanks(), 1};
  return std::nullopt;
}

RankCoordinates mlir::moe::rankCoordinates(LayoutAttr layout, int64_t rank) {
  auto position = [&](StringRef axis) {
    return axisGroup(layout, axis)->position(rank);
  };
  return {position("pp"), position("dp"), position("ep"), position("edp")};
}

SmallVector<StringRef> mlir::moe::namedAxes(LayoutAttr layout, StringRef grid) {
  SmallVector<StringRef> names;
  for (StringRef axis : gridAxes(grid))
    if (axisGroup(layout, axis)->size > 1)
      names.push_back(axis);
  return names;
}

DistAttr mlir::moe::uniformDist(LayoutAttr layout, StringRef grid,
                                DistKind kind) {
  MLIRContext *context = layout.getContext();
  SmallVector<AxisDist> axes;
  for (StringRef axis : namedAxes(layout, grid))
    axes.push_back({StringAttr::get(context, axis), kind, 0});
  return DistAttr::get(context, StringAttr::get(context, grid), axes);
}

int64_t mlir::moe::capacityRows(LayoutAttr layout, int64_t tokens, int64_t k,
                                int64_t experts) {
  int64_t ep = layout.getEp();
  int64_t worst = ep * tokens * std::min(k, experts / ep);
  double factor = layout.getCapacityFactor();
  if (factor == 0)
    return worst;
  double rows = std::ceil(factor * static_cast<double>(tokens * k));
  return rows < static_cast<double>(worst) ? static_cast<int64_t>(rows) : worst;
}
