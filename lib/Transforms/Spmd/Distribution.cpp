#include "moe/Transforms/Spmd/Distribution.h"

#include "dialects/Moe/MoeOps.h"
#include "moe/Support/Grid.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::moe;

bool mlir::moe::isStackedByExpert(ArrayAttr patterns) {
  return llvm::any_of(patterns.getAsRange<StringAttr>(), [](StringAttr p) {
    return p.getValue().contains("{e}");
  });
}

namespace {

class Checker {
public:
  explicit Checker(LayoutAttr layout) : layout(layout) {}

  LogicalResult check(Operation *op);

private:
  LogicalResult checkValue(Operation *op, StringRef what, unsigned number,
                           Type type);
  LogicalResult checkInference(Operation *op);
  LogicalResult checkParam(ParamOp param);
  LogicalResult checkGroup(Operation *op, StringRef axis, Value small,
                           Value large);
  LogicalResult checkExchange(AllToAllOp op);
  LogicalResult checkRagged(Operation *op);
  LogicalResult checkRows(Operation *op, RowsType rows, bool perRank);
  LogicalResult expectRows(Operation *op, StringRef what, Value tensor,
                           int64_t rows);

  /// Rows of a buffer on the experts' grid whose use counts `experts`.
  int64_t capacity(int64_t mean, int64_t experts) {
    int64_t tokens = layout.getTokens();
    return capacityRows(layout, tokens, mean / tokens, experts);
  }

  LayoutAttr layout;
};

/// What holds the program together: its types agree by the ops' own verifiers.
bool isStructure(Operation *op) {
  return isa<LayerOp, ModelOp, ReturnOp, ApplyOp, GradOp, BackwardOp,
             BackwardReturnOp, ApplyBackwardOp, TrainOp, ZeroGradsOp,
             MicroBatchesOp, YieldOp, OptimizerOp>(op);
}

/// The forward's value that a saved value of a backward region is.
Value origin(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  if (!argument)
    return value;
  auto backward = dyn_cast<BackwardOp>(argument.getOwner()->getParentOp());
  if (!backward || argument.getArgNumber() < backward.getNumCotangents())
    return value;
  return backward
      .getSaved()[argument.getArgNumber() - backward.getNumCotangents()];
}

} // namespace

LogicalResult Checker::check(Operation *op) {
  bool touches =
      llvm::any_of(op->getOperandTypes(), llvm::IsaPred<TensorType>) ||
      llvm::any_of(op->getResultTypes(), llvm::IsaPred<TensorType>);
  if (touches && !isa<MoeDialect>(op->getDialect()))
    return op->emitOpError("is not a moe op, so it can't read or make tensors "
                           "that are distributed");
  for (auto [i, type] : llvm::enumerate(op->getResultTypes()))
    if (failed(checkValue(op, "result", i, type)))
      return failure();
  for (Region &region : op->getRegions())
    for (Block &block : region)
      for (BlockArgument argument : block.getArguments())
        if (failed(checkValue(op, "argument", argument.getArgNumber(),
                              argument.getType())))
          return failure();
  if (isStructure(op))
    return success();
  if (auto param = dyn_cast<ParamOp>(op))
    return checkParam(param);
  if (failed(checkInference(op)))
    return failure();
  return checkRagged(op);
}

LogicalResult Checker::checkValue(Operation *op, StringRef what,
                                  unsigned number, Type type) {
  auto error = [&]() {
    return op->emitOpError() << what << " #" << number << " ";
  };
  if (!isa<TensorType>(type))
    return success();
  DistAttr dist = getDist(type);
  if (!dist)
    return error() << "must have a distribution (#moe.dist), but is " << type;
  if (!cast<TensorType>(type).hasStaticShape())
    return error() << "must have a static shape, but is " << type;
  SmallVector<StringRef> want = namedAxes(layout, dist.getGrid().getValue());
  bool same =
      llvm::equal(want, dist.getAxes(), [](StringRef a, const AxisDist &b) {
        return a == b.axis.getValue();
      });
  if (same)
    return success();
  InFlightDiagnostic diag = error()
                            << "must name the axes of more than one rank of "
                               "grid '"
                            << dist.getGrid().getValue() << "', [";
  llvm::interleaveComma(want, diag);
  return diag << "], but is " << dist;
}

LogicalResult Checker::checkInference(Operation *op) {
  auto distributed = dyn_cast<DistributedOpInterface>(op);
  if (!distributed)
    return op->emitOpError("does not say how distributions pass through it "
                           "(DistributedOpInterface)");
  SmallVector<DistAttr> operands, results;
  for (Value operand : op->getOperands())
    operands.push_back(getDist(operand));
  if (failed(distributed.inferDistribution(operands, results)))
    return failure();
  for (auto [i, want] : llvm::enumerate(results)) {
    DistAttr got = getDist(op->getResult(i));
    if (got == want)
      continue;
    InFlightDiagnostic diag = op->emitOpError() << "result #" << i;
    if (want)
      diag << " must be " << want << " by its operands, but is " << got;
    else
      diag << " is " << got << ", but no operand has a distribution";
    for (auto [j, operand] : llvm::enumerate(op->getOperands()))
      if (operands[j]) {
        diag.attachNote(operand.getLoc())
            << "operand #" << j << " is " << operands[j];
        break;
      }
    return diag;
  }
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case<ReduceScatterOp, SliceOp>([&](auto o) {
        return checkGroup(o, o.getAxis(), o.getResult(), o.getInput());
      })
      .Case<AllGatherOp>([&](AllGatherOp o) {
        return checkGroup(o, o.getAxis(), o.getInput(), o.getResult());
      })
      .Default(success());
}

/// Rows of a shard and of the whole along an axis.
LogicalResult Checker::checkGroup(Operation *op, StringRef axis, Value small,
                                  Value large) {
  int64_t size = axisGroup(layout, axis)->size;
  int64_t rows = cast<RankedTensorType>(small.getType()).getDimSize(0);
  int64_t whole = cast<RankedTensorType>(large.getType()).getDimSize(0);
  if (rows * size == whole)
    return success();
  return op->emitOpError() << "must have " << size << " shards along '" << axis
                           << "', but has " << rows << " of " << whole
                           << " rows";
}

LogicalResult Checker::checkParam(ParamOp param) {
  DistAttr dist = getDist(param.getType());
  bool stacked = isStackedByExpert(param.getPatterns());
  DistAttr want = uniformDist(layout, dist.getGrid(), DistKind::Invariant);
  if (stacked && layout.getEp() > 1)
    want = uniformDist(layout, "experts", DistKind::Invariant)
               .with("ep", DistKind::Sharded, 0);
  if (dist == want)
    return success();
  return param.emitOpError() << "'" << param.getKey() << "' must be " << want
                             << (stacked ? ", as it is stacked by expert," : "")
                             << " but is " << dist;
}

//===----------------------------------------------------------------------===//
// Ragged tensors
//===----------------------------------------------------------------------===//

LogicalResult Checker::expectRows(Operation *op, StringRef what, Value tensor,
                                  int64_t rows) {
  int64_t got = cast<RankedTensorType>(tensor.getType()).getDimSize(0);
  if (got == rows)
    return success();
  return op->emitOpError() << what << " must have " << rows << " rows, but has "
                           << got;
}

/// Whether `rows` can be the copies of a micro-batch's tokens, counted per
/// expert (all, of `perRank`) or per local expert.
LogicalResult Checker::checkRows(Operation *op, RowsType rows, bool perRank) {
  int64_t tokens = layout.getTokens(), k = rows.getMean() / tokens;
  int64_t experts = rows.getGroups() * (perRank ? 1 : layout.getEp());
  if (rows.getMean() % tokens != 0 || k < 1 || k > experts)
    return op->emitOpError()
           << "mean of " << rows << " must be a multiple of the micro-batch's "
           << tokens << " tokens, of at most " << experts << " experts each";
  if (experts % layout.getEp() != 0)
    return op->emitOpError() << "groups of " << rows
                             << " must be divisible by ep = " << layout.getEp();
  return success();
}

LogicalResult Checker::checkExchange(AllToAllOp op) {
  if (op.getAxis() != "ep")
    return op.emitOpError() << "must go over 'ep', the axis of the experts, "
                               "but goes over '"
                            << op.getAxis() << "'";
  RowsType send = op.getSend().getType(), receive = op.getReceive().getType();
  if (failed(checkRows(op, send, /*perRank=*/true)))
    return failure();
  if (send != receive)
    return op.emitOpError() << "send counts " << send << " and receive counts "
                            << receive << " must have one type";
  bool dispatch = getDist(op.getInput()).getGrid() == "attention";
  Value counts = origin(dispatch ? op.getSend() : op.getReceive());
  Value received = origin(dispatch ? op.getReceive() : op.getSend());
  auto exchange = received.getDefiningOp<ExchangeCountsOp>();
  if (!exchange || origin(exchange.getCounts()) != counts) {
    InFlightDiagnostic diag =
        op.emitOpError() << (dispatch ? "receive" : "send")
                         << " counts must be what moe.exchange_counts gives of "
                            "the other counts";
    diag.attachNote(received.getLoc()) << "they are made here";
    return diag;
  }
  int64_t mean = send.getMean();
  int64_t rows = capacity(mean, send.getGroups());
  if (failed(expectRows(op, "input", op.getInput(), dispatch ? mean : rows)))
    return failure();
  return expectRows(op, "result", op.getResult(), dispatch ? rows : mean);
}

LogicalResult Checker::checkRagged(Operation *op) {
  if (auto exchange = dyn_cast<AllToAllOp>(op))
    return checkExchange(exchange);
  if (auto exchange = dyn_cast<ExchangeCountsOp>(op)) {
    if (exchange.getAxis() != "ep")
      return op->emitOpError() << "must go over 'ep', but goes over '"
                               << exchange.getAxis() << "'";
    if (exchange.getCounts().getType() != exchange.getResult().getType())
      return op->emitOpError()
             << "result must be " << exchange.getCounts().getType()
             << ", but is " << exchange.getResult().getType();
    return checkRows(op, exchange.getCounts().getType(), /*perRank=*/true);
  }
  if (auto permutation = dyn_cast<PermutationOp>(op)) {
    RowsType counts = permutation.getCounts().getType();
    if (counts.getMean() != permutation.getMap().getType().getNumElements())
      return op->emitOpError()
             << "counts must have mean = "
             << permutation.getMap().getType().getNumElements()
             << ", the copies of the map, but are " << counts;
    return checkRows(op, counts, /*perRank=*/true);
  }
  if (auto local = dyn_cast<LocalRowsOp>(op)) {
    RowsType received = local.getReceived().getType();
    auto want =
        RowsType::get(op->getContext(), received.getGroups() / layout.getEp(),
                      received.getMean());
    if (layout.getEp() > 1 && local.getResult().getType() != want)
      return op->emitOpError() << "result must be " << want << ", but is "
                               << local.getResult().getType();
    return checkRows(op, received, /*perRank=*/true);
  }
  if (auto sort = dyn_cast<SortChunksOp>(op)) {
    RowsType received = sort.getReceived().getType();
    if (layout.getEp() > 1 &&
        static_cast<int64_t>(sort.getRanks()) != layout.getEp())
      return op->emitOpError() << "ranks must be ep = " << layout.getEp()
                               << ", but is " << sort.getRanks();
    if (failed(checkRows(op, received, /*perRank=*/true)))
      return failure();
    return expectRows(op, "input", sort.getInput(),
                      capacity(received.getMean(), received.getGroups()));
  }

  // What computes on rows: all tensors but the parameter and its gradient.
  auto rows = llvm::find_if(op->getOperands(), [](Value operand) {
    return isa<RowsType>(operand.getType());
  });
  if (rows == op->getOperands().end())
    return success();
  auto type = cast<RowsType>((*rows).getType());
  if (failed(checkRows(op, type, /*perRank=*/false)))
    return failure();
  int64_t want =
      layout.getEp() == 1
          ? type.getMean()
          : capacity(type.getMean(), type.getGroups() * layout.getEp());
  auto compute = dyn_cast<ComputeOpInterface>(op);
  bool accumulates = compute && compute.accumulates();
  int64_t parameter =
      accumulates ? op->getNumOperands() - 1
                  : cast<DistributedOpInterface>(op).getParameterOperand();
  for (auto [i, operand] : llvm::enumerate(op->getOperands()))
    if (static_cast<int64_t>(i) != parameter &&
        isa<RankedTensorType>(operand.getType()) &&
        failed(expectRows(op, ("operand #" + Twine(i)).str(), operand, want)))
      return failure();
  return success();
}

LogicalResult mlir::moe::verifyDistribution(ModuleOp module,
                                            LayoutAttr layout) {
  Checker checker(layout);
  for (Operation &root : module.getOps()) {
    if (!isa<LayerOp, ModelOp, TrainOp>(root))
      continue;
    WalkResult result = root.walk<WalkOrder::PreOrder>(
        [&](Operation *op) { return WalkResult(checker.check(op)); });
    if (result.wasInterrupted())
      return failure();
  }
  return success();
}
