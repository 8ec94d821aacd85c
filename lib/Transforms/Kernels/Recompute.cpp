#include "moe/Transforms/Kernels/Passes.h"

#include "dialects/Moe/MoeOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Remarks.h"
#include "moe/Support/Modules.h"
#include "moe/Support/Phase.h"

namespace mlir::moe {
#define GEN_PASS_DEF_RECOMPUTE
#include "moe/Transforms/Kernels/Passes.h.inc"

namespace {

/// Module of a call or collective.
std::optional<Module> moduleOf(Operation *op) {
  if (auto call = dyn_cast<CallOp>(op))
    return call.getModule();
  if (auto collective = dyn_cast<CollectiveOpInterface>(op))
    return collective.getOpModule();
  return std::nullopt;
}

/// Whether `op` makes or carries a routing decision: that is made once.
bool isRouting(Operation *op) {
  std::optional<Module> module = moduleOf(op);
  if (module == Module::MoeRouter || module == Module::MoePreprocess)
    return true;
  return llvm::any_of(op->getResultTypes(), llvm::IsaPred<RowsType>);
}

/// Rewrites one backward region.
class Rewriter {
public:
  Rewriter(BackwardOp backward, ModuleSet modules)
      : backward(backward), modules(modules) {}

  /// Returns the bytes no longer saved.
  int64_t run() {
    // In order of first use, so that what a later copy shares exists already.
    SmallVector<std::pair<Operation *, unsigned>> order;
    for (unsigned i = 0; i < backward.getSaved().size(); ++i) {
      Value saved = backward.getSaved()[i];
      mapping.map(saved, backward.getSavedArgument(i));
      if (isRecomputed(saved))
        order.emplace_back(firstUser(backward.getSavedArgument(i)), i);
    }
    llvm::sort(order, [](auto a, auto b) {
      return a.first == b.first ? a.second < b.second
                                : a.first->isBeforeInBlock(b.first);
    });
    int64_t before = savedBytes();
    for (auto [user, i] : order)
      mapping.erase(backward.getSaved()[i]);
    for (auto [user, i] : order) {
      BlockArgument argument = backward.getSavedArgument(i);
      OpBuilder builder(user);
      argument.replaceAllUsesWith(materialize(builder, backward.getSaved()[i]));
    }
    eraseUnused();
    return before - savedBytes();
  }

private:
  bool isRecomputed(Value value) {
    Operation *op = value.getDefiningOp();
    if (!op || isRouting(op))
      return false;
    std::optional<Module> module = moduleOf(op);
    return module && modules.contains(*module);
  }

  Operation *firstUser(Value value) {
    Operation *first = nullptr;
    for (Operation *user : value.getUsers())
      if (!first || user->isBeforeInBlock(first))
        first = user;
    return first;
  }

  /// The stand-in of a forward value inside the region.
  Value materialize(OpBuilder &builder, Value value) {
    if (Value known = mapping.lookupOrNull(value))
      return known;
    Operation *op = value.getDefiningOp();
    if (op && isa<ParamOp>(op)) {
      // At the top: the parameter is there for whoever comes later.
      OpBuilder top = OpBuilder::atBlockBegin(&backward.getBody().front());
      for (ParamOp param : backward.getBody().getOps<ParamOp>())
        if (param.getPatterns() == cast<ParamOp>(op).getPatterns()) {
          param->moveBefore(&backward.getBody().front(),
                            backward.getBody().front().begin());
          mapping.map(value, param.getResult());
          return param.getResult();
        }
      return top.clone(*op, mapping)->getResult(0);
    }
    if (isRecomputed(value)) {
      for (Value operand : op->getOperands())
        materialize(builder, operand);
      builder.clone(*op, mapping);
      return mapping.lookup(value);
    }
    // One more saved value.
    backward.getSavedMutable().append(value);
    BlockArgument argument =
        backward.getBody().addArgument(value.getType(), value.getLoc());
    mapping.map(value, argument);
    return argument;
  }

  void eraseUnused() {
    for (unsigned i = backward.getSaved().size(); i-- > 0;) {
      BlockArgument argument = backward.getSavedArgument(i);
      if (!argument.use_empty())
        continue;
      backward.getSavedMutable().erase(i);
      backward.getBody().eraseArgument(argument.getArgNumber());
    }
  }

  int64_t savedBytes() {
    int64_t bytes = 0;
    for (Value value : backward.getSaved())
      if (auto tensor = dyn_cast<RankedTensorType>(value.getType()))
        bytes += tensor.getNumElements() * tensor.getElementTypeBitWidth() / 8;
      else if (auto rows = dyn_cast<RowsType>(value.getType()))
        bytes += 4 * rows.getGroups();
    return bytes;
  }

  BackwardOp backward;
  ModuleSet modules;
  IRMapping mapping;
};

struct Recompute : impl::RecomputeBase<Recompute> {
  using RecomputeBase::RecomputeBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (failed(expectPhase(module, Phase::Kernels)))
      return signalPassFailure();
    ModuleSet set;
    std::string error;
    if (!parseModules(llvm::to_vector(modules), set, error)) {
      module.emitError() << "moe-recompute: " << error;
      return signalPassFailure();
    }
    for (LayerOp layer : module.getOps<LayerOp>())
      for (BackwardOp backward :
           llvm::make_early_inc_range(layer.getBody().getOps<BackwardOp>())) {
        int64_t bytes = Rewriter(backward, set).run();
        remark::passed(layer.getLoc(),
                       remark::RemarkOpts::name("Recompute").category("moe"))
            << remark::metric("layer", layer.getSymName())
            << remark::metric("bytesPerMicroBatch", bytes);
      }
  }
};

} // namespace
} // namespace mlir::moe
