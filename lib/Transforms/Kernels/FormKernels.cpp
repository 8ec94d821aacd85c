#include "moe/Transforms/Kernels/Passes.h"

#include "dialects/Moe/MoeOps.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "moe/Support/KernelTable.h"
#include "moe/Support/Phase.h"
#include "moe/Support/Shrink.h"

namespace mlir::moe {
#define GEN_PASS_DEF_FORMKERNELS
#include "moe/Transforms/Kernels/Passes.h.inc"

namespace {

/// Erases the distributions of all types.
void eraseDistributions(ModuleOp module) {
  AttrTypeReplacer eraser;
  eraser.addReplacement([](RankedTensorType type) -> std::optional<Type> {
    if (!getDist(type))
      return std::nullopt;
    return RankedTensorType::get(type.getShape(), type.getElementType());
  });
  eraser.recursivelyReplaceElementsIn(module, /*replaceAttrs=*/true,
                                      /*replaceLocs=*/false,
                                      /*replaceTypes=*/true);
}

template <typename Interface>
SmallVector<Interface> collectOps(ModuleOp module) {
  SmallVector<Interface> ops;
  module.walk([&](Interface op) { ops.push_back(op); });
  return ops;
}

/// The kernel of `op`. Its cost is that of `original`, the same op before the
/// program was shrunken: ops that differ there don't share a kernel.
KernelOp kernelOf(KernelTable &kernels, ComputeOpInterface op,
                  ComputeOpInterface original) {
  Builder b(op.getContext());
  KernelKey key{op->getName().stripDialect(),
                b.getFunctionType(op->getOperandTypes(), op->getResultTypes()),
                op.getKernelAttributes(),
                b.getF64FloatAttr(original.getFlops()),
                b.getF64FloatAttr(original.getBytes())};
  return kernels.getOrCreate(op.getLoc(), key, op.getNumericClass(),
                             op.accumulates());
}

/// Bytes of the value that layers carry from one to the next.
double carriedBytes(ModuleOp module) {
  double bytes = 0;
  for (LayerOp layer : module.getOps<LayerOp>())
    for (Type type : layer.getArgumentTypes().take_front())
      if (auto tensor = dyn_cast<RankedTensorType>(type))
        if (isa<FloatType>(tensor.getElementType()))
          bytes = std::max(bytes, static_cast<double>(tensor.getNumElements()) *
                                      tensor.getElementTypeBitWidth() / 8);
  return bytes;
}

struct FormKernels : impl::FormKernelsBase<FormKernels> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (failed(expectPhase(module, Phase::Training)))
      return signalPassFailure();

    for (Operation &op : *module.getBody())
      if (!isa<LayerOp, TrainOp>(op)) {
        op.emitOpError("is no part of a training program");
        return signalPassFailure();
      }

    FailureOr<OwningOpRef<ModuleOp>> original = originalProgram(module);
    if (failed(original))
      return signalPassFailure();
    eraseDistributions(module);
    eraseDistributions(**original);

    // Collectives have no kernel that keeps their cost.
    OpBuilder builder(module);
    for (auto [op, same] :
         llvm::zip_equal(collectOps<CollectiveOpInterface>(module),
                         collectOps<CollectiveOpInterface>(**original)))
      op->setAttr(kBytesAttr, builder.getF64FloatAttr(same.getBytes()));

    // Nor do sends of what layers carry.
    for (TrainOp train : module.getOps<TrainOp>())
      train->setAttr(kBytesAttr,
                     builder.getF64FloatAttr(carriedBytes(**original)));

    KernelTable kernels(module);
    for (auto [op, same] :
         llvm::zip_equal(collectOps<ComputeOpInterface>(module),
                         collectOps<ComputeOpInterface>(**original))) {
      KernelOp kernel = kernelOf(kernels, op, same);
      builder.setInsertionPoint(op);
      auto call = CallOp::create(builder, op.getLoc(), op->getResultTypes(),
                                 kernel.getSymName(), op->getOperands(),
                                 op.getOpModule());
      op->replaceAllUsesWith(call);
      op->erase();
    }
    setPhase(module, Phase::Kernels);
  }
};

} // namespace
} // namespace mlir::moe
