#include "dialects/Moe/MoeInterfaces.h"

#include "dialects/Moe/MoeOps.h"

using namespace mlir;
using namespace mlir::moe;

#include "dialects/Moe/MoeInterfaces.cpp.inc"

/// Mean rows of the `!moe.rows` operand of an op, -1: it has none.
static int64_t meanRows(Operation *op) {
  for (Value operand : op->getOperands())
    if (auto rows = dyn_cast<RowsType>(operand.getType()))
      return rows.getMean();
  return -1;
}

double mlir::moe::usedBytes(Operation *op, Type type) {
  if (auto rows = dyn_cast<RowsType>(type))
    return 4.0 * rows.getGroups();
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor)
    return 0;
  double elements = tensor.getNumElements();
  int64_t mean = meanRows(op);
  if (mean >= 0 && tensor.getRank() <= 2 && tensor.getRank() >= 1 &&
      tensor.getDimSize(0) > mean)
    elements = elements / tensor.getDimSize(0) * mean;
  return elements * tensor.getElementTypeBitWidth() / 8;
}

double mlir::moe::bytesMoved(Operation *op) {
  double bytes = 0;
  for (Type type : op->getOperandTypes())
    bytes += usedBytes(op, type);
  for (Type type : op->getResultTypes())
    bytes += usedBytes(op, type);
  return bytes;
}

double mlir::moe::inputBytes(Operation *op) {
  double bytes = 0;
  for (Type type : op->getOperandTypes())
    if (isa<RankedTensorType>(type))
      bytes += usedBytes(op, type);
  return bytes;
}

/// An error about operand `i`, and a note at the op that made it.
static LogicalResult rejectOperand(Operation *op, unsigned i,
                                   const Twine &what) {
  InFlightDiagnostic diag = op->emitOpError()
                            << "operand #" << i << " " << what;
  diag.attachNote(op->getOperand(i).getLoc()) << "operand #" << i << " is here";
  return diag;
}

static std::string text(DistAttr dist) {
  std::string result;
  llvm::raw_string_ostream(result) << dist;
  return result;
}

/// The distribution that all data among `operands` have, null if there are
/// none; an error if one is partial or a shard, or if they differ. Skips
/// operand `parameter`.
static FailureOr<DistAttr> joinData(Operation *op, ArrayRef<DistAttr> operands,
                                    int64_t parameter) {
  DistAttr joined;
  unsigned first = 0;
  for (auto [i, dist] : llvm::enumerate(operands)) {
    if (!dist || static_cast<int64_t>(i) == parameter)
      continue;
    if (dist.has(DistKind::PartialSum) || dist.has(DistKind::PartialMax))
      return rejectOperand(op, i,
                           "must be a whole value, but is partial (" +
                               text(dist) +
                               "); reduce it first (moe.all_reduce)");
    if (dist.has(DistKind::Flat) || dist.has(DistKind::Sharded))
      return rejectOperand(op, i,
                           "must be whole on each rank, but is a shard (" +
                               text(dist) +
                               "); gather it first (moe.all_gather)");
    if (!joined) {
      joined = dist;
      first = i;
    } else if (joined.getGrid() != dist.getGrid()) {
      return rejectOperand(op, i,
                           "must be on grid '" + joined.getGrid().getValue() +
                               "' like operand #" + Twine(first) +
                               ", but is on grid '" +
                               dist.getGrid().getValue() + "'");
    } else if (joined != dist) {
      return rejectOperand(op, i,
                           "must lie like operand #" + Twine(first) + " (" +
                               text(joined) + "), but is " + text(dist) +
                               "; take it there first (moe.vary)");
    }
  }
  return joined;
}

/// Whether a parameter (or its gradient) of the op is stacked by expert: the
/// op is told the rows of each.
static bool isGrouped(Operation *op) {
  return llvm::any_of(op->getOperandTypes(),
                      [](Type type) { return isa<RowsType>(type); });
}

/// Checks a parameter or accumulator, operand `i`, against the distribution of
/// the rows that it meets. `whole` is its kind where it isn't sharded by
/// expert: of the rows' kind there.
static LogicalResult
checkParameter(Operation *op, unsigned i, DistAttr parameter, DistAttr data,
               llvm::function_ref<DistKind(DistKind)> whole) {
  if (parameter.getGrid() != data.getGrid())
    return rejectOperand(op, i,
                         "must be on grid '" + data.getGrid().getValue() +
                             "' like the rows, but is on grid '" +
                             parameter.getGrid().getValue() + "'");
  for (const AxisDist &axis : data.getAxes()) {
    AxisDist got = parameter.getAxis(axis.axis);
    bool byExpert = isGrouped(op) && axis.kind == DistKind::Varying;
    if (got.kind == whole(axis.kind) ||
        (byExpert && got.kind == DistKind::Sharded && got.dim == 0))
      continue;
    return rejectOperand(op, i,
                         "must be " + stringifyDistKind(whole(axis.kind)) +
                             (byExpert ? " or sharded(0)" : "") + " along '" +
                             axis.axis.getValue() + "', where the rows are " +
                             stringifyDistKind(axis.kind) + ", but is " +
                             text(parameter));
  }
  return success();
}

LogicalResult mlir::moe::inferRankwise(Operation *op,
                                       ArrayRef<DistAttr> operands,
                                       SmallVectorImpl<DistAttr> &results) {
  int64_t number = cast<DistributedOpInterface>(op).getParameterOperand();
  FailureOr<DistAttr> data = joinData(op, operands, number);
  if (failed(data))
    return failure();
  DistAttr parameter = number < 0 ? DistAttr() : operands[number];
  if (parameter && *data &&
      failed(checkParameter(op, number, parameter, *data,
                            [](DistKind) { return DistKind::Invariant; })))
    return failure();
  results.clear();
  for (Type type : op->getResultTypes())
    results.push_back(isa<RankedTensorType>(type) ? *data : DistAttr());
  return success();
}

LogicalResult mlir::moe::inferWeightGrad(Operation *op,
                                         ArrayRef<DistAttr> operands,
                                         SmallVectorImpl<DistAttr> &results) {
  int64_t number = operands.size() - 1;
  FailureOr<DistAttr> data = joinData(op, operands, number);
  if (failed(data))
    return failure();
  results.assign(1, operands[number]);
  if (!operands[number] || !*data)
    return success();
  return checkParameter(op, number, operands[number], *data, [](DistKind rows) {
    return rows == DistKind::Varying ? DistKind::PartialSum
                                     : DistKind::Invariant;
  });
}
