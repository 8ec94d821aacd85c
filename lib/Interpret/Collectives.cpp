//===- Collectives.cpp - Collectives over a stage's ranks -----------------===//

#include "Evaluate.h"

#include "llvm/ADT/TypeSwitch.h"
#include <cmath>
#include <numeric>

using namespace mlir;
using namespace mlir::moe;

//===----------------------------------------------------------------------===//
// The grid
//===----------------------------------------------------------------------===//

int64_t Grid::size(StringRef axis) const {
  return axis == "dp" ? dp : axis == "ep" ? ep : dp / ep;
}

int64_t Grid::position(StringRef axis, int64_t rank) const {
  return axis == "dp" ? rank : axis == "ep" ? rank % ep : rank / ep;
}

SmallVector<int64_t> Grid::group(StringRef axis, int64_t rank) const {
  int64_t stride = axis == "edp" ? ep : 1;
  int64_t first = rank - position(axis, rank) * stride;
  SmallVector<int64_t> ranks;
  for (int64_t i = 0; i < size(axis); ++i)
    ranks.push_back(first + i * stride);
  return ranks;
}

//===----------------------------------------------------------------------===//
// Collectives: the result of one rank
//===----------------------------------------------------------------------===//

namespace {
/// A rank's view of a collective: its group and its place there.
struct Member {
  SmallVector<int64_t> group;
  int64_t rank, position, layer;
};
using Inputs = ArrayRef<const RankTensors *>;
} // namespace

static LogicalResult evaluate(ExchangeCountsOp op, const Member &me, Inputs in,
                              Tensor &out) {
  int64_t block = out.rows() / me.group.size();
  for (auto [i, source] : llvm::enumerate(me.group))
    std::copy_n((*in[0])[source].values.begin() + me.position * block, block,
                out.values.begin() + i * block);
  return success();
}

/// Sum of the i-th of `parts` blocks of counts.
static int64_t blockSum(const Tensor &counts, int64_t i, int64_t parts) {
  int64_t block = counts.rows() / parts;
  auto first = counts.values.begin() + i * block;
  return std::accumulate(first, first + block, 0.0);
}

static LogicalResult evaluate(AllToAllOp op, const Member &me, Inputs in,
                              Tensor &out) {
  int64_t parts = me.group.size(), next = 0;
  int64_t received = usedRows((*in[2])[me.rank]);
  if (received > out.rows())
    return op.emitOpError() << "capacity overflow: layer " << me.layer
                            << ", rank " << me.rank << " receives " << received
                            << " rows, but has room for " << out.rows();
  for (auto [i, source] : llvm::enumerate(me.group)) {
    const Tensor &x = (*in[0])[source], &send = (*in[1])[source];
    int64_t begin = 0, count = blockSum(send, me.position, parts);
    if (count != blockSum((*in[2])[me.rank], i, parts))
      return op.emitOpError()
             << "rank " << source << " sends " << count << " rows to rank "
             << me.rank << ", which expects "
             << blockSum((*in[2])[me.rank], i, parts);
    for (int64_t j = 0; j < me.position; ++j)
      begin += blockSum(send, j, parts);
    if (begin + count > x.rows())
      return op.emitOpError() << "rank " << source << " sends more rows than "
                              << "the " << x.rows() << " it has";
    std::copy_n(x.row(begin), count * x.width(), out.row(next));
    next += count;
  }
  return success();
}

static LogicalResult evaluate(AllReduceOp op, const Member &me, Inputs in,
                              Tensor &out) {
  bool sum = op.getReduction() == Reduction::Sum;
  for (size_t i = 0; i < out.values.size(); ++i) {
    double value = sum ? 0 : -INFINITY;
    for (int64_t rank : me.group)
      value = sum ? value + (*in[0])[rank].values[i]
                  : std::max(value, (*in[0])[rank].values[i]);
    out.values[i] = value;
  }
  return success();
}

static LogicalResult evaluate(ReduceScatterOp op, const Member &me, Inputs in,
                              Tensor &out) {
  size_t offset = me.position * out.values.size();
  for (size_t i = 0; i < out.values.size(); ++i) {
    double sum = 0;
    for (int64_t rank : me.group)
      sum += (*in[0])[rank].values[offset + i];
    out.values[i] = sum;
  }
  return success();
}

static LogicalResult evaluate(AllGatherOp op, const Member &me, Inputs in,
                              Tensor &out) {
  auto to = out.values.begin();
  for (int64_t rank : me.group)
    to = llvm::copy((*in[0])[rank].values, to);
  return success();
}

static LogicalResult evaluate(SliceOp op, const Member &me, Inputs in,
                              Tensor &out) {
  const Tensor &x = (*in[0])[me.rank];
  std::copy_n(x.values.begin() + me.position * out.values.size(),
              out.values.size(), out.values.begin());
  return success();
}

static LogicalResult evaluate(VaryOp op, const Member &me, Inputs in,
                              Tensor &out) {
  out.values = (*in[0])[me.rank].values;
  return success();
}

/// Rows of the whole over rows of a block, as the op's types say; 0: no ratio
/// is wanted.
static int64_t blocksOf(Operation *op) {
  auto rows = [](Value value) {
    return cast<RankedTensorType>(value.getType()).getDimSize(0);
  };
  if (isa<AllGatherOp>(op))
    return rows(op->getResult(0)) / rows(op->getOperand(0));
  if (isa<ReduceScatterOp, SliceOp>(op))
    return rows(op->getOperand(0)) / rows(op->getResult(0));
  return 0;
}

LogicalResult mlir::moe::evaluateCollective(Operation *op, const Grid &grid,
                                            int64_t layer, Inputs in,
                                            RankTensors &result) {
  StringRef axis = cast<CollectiveOpInterface>(op).getAxisName();
  if (!llvm::is_contained({"dp", "ep", "edp"}, axis))
    return op->emitOpError() << "has an unknown axis '" << axis << "'";
  int64_t blocks = blocksOf(op);
  if (blocks && blocks != grid.size(axis))
    return op->emitOpError() << "divides rows by " << blocks << ", but axis '"
                             << axis << "' has " << grid.size(axis) << " ranks";
  if (isa<ExchangeCountsOp, AllToAllOp>(op)) {
    auto counts =
        cast<RowsType>(op->getOperand(isa<AllToAllOp>(op) ? 1 : 0).getType());
    if (counts.getGroups() % grid.size(axis) != 0)
      return op->emitOpError() << "has counts of " << counts.getGroups()
                               << " groups, which axis '" << axis << "' of "
                               << grid.size(axis) << " ranks does not divide";
  }
  for (int64_t rank = 0; rank < grid.dp; ++rank) {
    Member me{grid.group(axis, rank), rank, grid.position(axis, rank), layer};
    LogicalResult status =
        llvm::TypeSwitch<Operation *, LogicalResult>(op)
            .Case<ExchangeCountsOp, AllToAllOp, AllReduceOp, ReduceScatterOp,
                  AllGatherOp, SliceOp, VaryOp>(
                [&](auto x) { return evaluate(x, me, in, result[rank]); })
            .Default([](Operation *other) {
              return other->emitOpError("is no collective known here");
            });
    if (failed(status))
      return failure();
  }
  return success();
}
