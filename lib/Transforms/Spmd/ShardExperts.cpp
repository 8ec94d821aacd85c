#include "ShardExperts.h"

#include "moe/Support/Grid.h"
#include "moe/Transforms/Spmd/Distribution.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mlir::moe;

namespace {

/// What lies between the permuted rows and moe.unpermute.
class Experts {
public:
  Experts(PermutationOp permutation, LayoutAttr layout)
      : permutation(permutation), layout(layout), builder(permutation),
        tokens(permutation.getMap().getType().getDimSize(0)),
        k(permutation.getMap().getType().getDimSize(1)),
        experts(permutation.getCounts().getType().getGroups()) {}

  /// Finds it, or says why it can't be cut out.
  LogicalResult find();
  LogicalResult checkParameters();
  void shard();

private:
  LogicalResult checkOp(Operation *op);
  Value exchange(Value value, Value send, Value receive, StringRef grid,
                 Module module);
  Value sort(Value value, bool inverse, Module module);
  void dispatch();
  void combine();

  PermutationOp permutation;
  LayoutAttr layout;
  OpBuilder builder;
  int64_t tokens, k, experts;
  /// Rows that each rank has received: per source rank and local expert.
  Value received;

  /// moe.permute and moe.permute_probs, in order; moe.unpermute.
  SmallVector<Operation *> entries, exits;
  /// What computes on rows, parameters that it reads.
  llvm::SetVector<Operation *> inside;
  llvm::SetVector<ParamOp> parameters;
};

} // namespace

LogicalResult Experts::find() {
  if (experts % layout.getEp() != 0)
    return permutation.emitOpError()
           << "sends tokens to " << experts
           << " experts, which ep = " << layout.getEp() << " does not divide";
  for (Operation *user : permutation.getMap().getUsers()) {
    if (isa<PermuteOp, PermuteProbsOp>(user))
      entries.push_back(user);
    else if (isa<UnpermuteOp, UnpermuteProbsOp>(user))
      exits.push_back(user);
    else
      return user->emitOpError("uses a routing map, but neither permutes nor "
                               "unpermutes");
  }
  auto before = [](Operation *a, Operation *b) {
    return a->isBeforeInBlock(b);
  };
  llvm::sort(entries, before);
  llvm::sort(exits, before);

  SmallVector<Value> rows;
  for (Operation *entry : entries)
    rows.push_back(entry->getResult(0));
  while (!rows.empty())
    for (Operation *user : rows.pop_back_val().getUsers())
      if (!llvm::is_contained(exits, user) && inside.insert(user))
        for (Value result : user->getResults())
          rows.push_back(result);
  for (Operation *op : inside)
    if (failed(checkOp(op)))
      return failure();
  for (Operation *exit : exits) {
    Operation *origin = exit->getOperand(0).getDefiningOp();
    if (!origin ||
        !(inside.contains(origin) || llvm::is_contained(entries, origin)))
      return exit->emitOpError("unpermutes what was not permuted by its map");
  }
  for (Operation *user : permutation.getCounts().getUsers())
    if (!inside.contains(user))
      return user->emitOpError("counts rows of experts, but reads no rows");
  return success();
}

LogicalResult Experts::checkOp(Operation *op) {
  if (op->hasTrait<OpTrait::IsTerminator>())
    return op->emitOpError("returns rows of experts; moe.unpermute them first");
  for (Value operand : op->getOperands()) {
    Operation *origin = operand.getDefiningOp();
    bool ok = origin && (origin == permutation || inside.contains(origin) ||
                         llvm::is_contained(entries, origin));
    if (auto param = dyn_cast_or_null<ParamOp>(origin)) {
      parameters.insert(param);
      ok = true;
    }
    if (ok && operand != permutation.getMap())
      continue;
    InFlightDiagnostic diag = op->emitOpError()
                              << "computes on rows of experts, which move to "
                                 "other ranks, with a value that stays";
    diag.attachNote(operand.getLoc()) << "the value is here";
    return diag;
  }
  for (Value result : op->getResults()) {
    auto type = dyn_cast<RankedTensorType>(result.getType());
    if (!type || type.getRank() < 1 || type.getDimSize(0) != tokens * k)
      return op->emitOpError()
             << "computes on rows of experts, so its results "
                "must have "
             << tokens * k << " rows, but one is " << result.getType();
  }
  return success();
}

LogicalResult Experts::checkParameters() {
  for (ParamOp param : parameters) {
    for (Operation *user : param->getUsers())
      if (!inside.contains(user)) {
        InFlightDiagnostic diag =
            param.emitOpError("is used by experts, which ep places on other "
                              "ranks, and elsewhere");
        diag.attachNote(user->getLoc()) << "elsewhere is here";
        return diag;
      }
    if (isStackedByExpert(param.getPatterns()) &&
        (param.getType().getRank() < 1 ||
         param.getType().getDimSize(0) != experts))
      return param.emitOpError()
             << "stacks experts, so dimension 0 must be " << experts
             << ", but it is " << param.getType();
  }
  return success();
}

static RankedTensorType withRows(Type type, int64_t rows, Attribute encoding) {
  auto tensor = cast<RankedTensorType>(type);
  SmallVector<int64_t> shape(tensor.getShape());
  shape[0] = rows;
  return RankedTensorType::get(shape, tensor.getElementType(), encoding);
}

/// To the grid `grid`, where each rank holds rows of its own.
Value Experts::exchange(Value value, Value send, Value receive, StringRef grid,
                        Module module) {
  int64_t rows =
      grid == "experts" ? capacityRows(layout, tokens, k, experts) : tokens * k;
  Type type = withRows(value.getType(), rows,
                       uniformDist(layout, grid, DistKind::Varying));
  return AllToAllOp::create(builder, value.getLoc(), type, value, send, receive,
                            "ep", module);
}

/// From rank-major to expert-major order or back; with one local expert they
/// are the same.
Value Experts::sort(Value value, bool inverse, Module module) {
  if (experts == layout.getEp())
    return value;
  return SortChunksOp::create(builder, value.getLoc(), value.getType(), value,
                              received, layout.getEp(), inverse, module);
}

void Experts::dispatch() {
  // Counts first: the exchange of rows needs them on both sides.
  builder.setInsertionPointAfter(permutation);
  RowsType counts = permutation.getCounts().getType();
  Location loc = permutation.getLoc();
  auto exchanged = ExchangeCountsOp::create(
      builder, loc, counts, permutation.getCounts(), "ep", Module::MoeDispatch);
  received = exchanged.getResult();
  Value local = LocalRowsOp::create(builder, loc,
                                    RowsType::get(counts.getContext(),
                                                  experts / layout.getEp(),
                                                  counts.getMean()),
                                    received, Module::MoeDispatch);
  permutation.getCounts().replaceUsesWithIf(
      local, [&](OpOperand &use) { return inside.contains(use.getOwner()); });

  // Exchanges of rows and probabilities together, after both are permuted, if
  // nothing uses one before the other.
  bool together = llvm::all_of(entries, [&](Operation *entry) {
    return llvm::all_of(entry->getUsers(), [&](Operation *user) {
      return entries.back()->isBeforeInBlock(user);
    });
  });
  SmallVector<Value> moved;
  for (Operation *entry : entries) {
    Value rows = entry->getResult(0);
    if (!together)
      builder.setInsertionPointAfter(entry);
    else if (entry == entries.front())
      builder.setInsertionPointAfter(entries.back());
    moved.push_back(exchange(rows, permutation.getCounts(), received, "experts",
                             Module::MoeDispatch));
  }
  for (auto [entry, arrived] : llvm::zip_equal(entries, moved)) {
    if (!together)
      builder.setInsertionPointAfter(arrived.getDefiningOp());
    Value sorted = sort(arrived, /*inverse=*/false, Module::MoeDispatch);
    entry->getResult(0).replaceAllUsesExcept(sorted, arrived.getDefiningOp());
  }
}

void Experts::combine() {
  for (Operation *exit : exits) {
    builder.setInsertionPoint(exit);
    Value sorted =
        sort(exit->getOperand(0), /*inverse=*/true, Module::MoeCombine);
    exit->setOperand(0, exchange(sorted, received, permutation.getCounts(),
                                 "attention", Module::MoeCombine));
  }
}

void Experts::shard() {
  int64_t capacity = capacityRows(layout, tokens, k, experts);
  for (Operation *op : inside)
    for (Value result : op->getResults())
      result.setType(withRows(result.getType(), capacity, {}));
  DistAttr invariant = uniformDist(layout, "experts", DistKind::Invariant);
  for (ParamOp param : parameters)
    param.getResult().setType(
        isStackedByExpert(param.getPatterns())
            ? withRows(param.getType(), experts / layout.getEp(),
                       invariant.with("ep", DistKind::Sharded, 0))
            : withDist(param.getType(), invariant));
  dispatch();
  combine();
}

LogicalResult mlir::moe::shardExperts(PermutationOp permutation,
                                      LayoutAttr layout) {
  Experts experts(permutation, layout);
  if (failed(experts.find()) || failed(experts.checkParameters()))
    return failure();
  experts.shard();
  return success();
}
