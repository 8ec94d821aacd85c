//===- Grid.h - Ranks, axes and groups of a layout ------------------------===//
//
// One place for how ranks are numbered (order tp-cp-ep-dp-pp):
// rank = stage * dp + edp_rank * ep + ep_rank, dp_rank = edp_rank * ep +
// ep_rank.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_SUPPORT_GRID_H
#define MOE_SUPPORT_GRID_H

#include "dialects/Moe/MoeAttrs.h"

namespace mlir::moe {

/// The groups of ranks along an axis, as a formula: members of the group of
/// rank r are base(r) + i * stride, 0 <= i < size.
struct AxisGroup {
  int64_t size = 1;
  int64_t stride = 1;

  /// Position of a rank in its group.
  int64_t position(int64_t rank) const { return rank / stride % size; }
  int64_t base(int64_t rank) const { return rank - position(rank) * stride; }
  /// Member `i` of the group of `rank`.
  int64_t member(int64_t rank, int64_t i) const {
    return base(rank) + i * stride;
  }
};

/// The groups along dp, ep, edp, pp or world; none for another name.
std::optional<AxisGroup> axisGroup(LayoutAttr layout, StringRef axis);

/// Where a rank is.
struct RankCoordinates {
  int64_t stage = 0, dp = 0, ep = 0, edp = 0;
};
RankCoordinates rankCoordinates(LayoutAttr layout, int64_t rank);

/// The axes of a grid (attention, experts) that have more than one rank: those
/// that a #moe.dist names, in order.
SmallVector<StringRef> namedAxes(LayoutAttr layout, StringRef grid);

/// The distribution on `grid` that is `kind` along each of its named axes.
DistAttr uniformDist(LayoutAttr layout, StringRef grid, DistKind kind);

/// Rows of a ragged buffer that receives the copies (k of each token) of all
/// ranks of the ep axis: min(worst, ceil(F * mean)), where mean = tokens * k,
/// worst = ep * tokens * min(k, experts / ep) and F is the layout's capacity
/// factor (0: worst). `tokens` are those of one rank's micro-batch.
int64_t capacityRows(LayoutAttr layout, int64_t tokens, int64_t k,
                     int64_t experts);

} // namespace mlir::moe

#endif // MOE_SUPPORT_GRID_H
