#include "moe/Transforms/Kernels/Passes.h"

#include "dialects/Moe/MoeOps.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "moe/Support/Phase.h"
#include "llvm/ADT/StringMap.h"

namespace mlir::moe {
#define GEN_PASS_DEF_FORMKERNELS
#include "moe/Transforms/Kernels/Passes.h.inc"

namespace {

/// The kernels made so far, by everything that tells two apart.
class KernelTable {
public:
  explicit KernelTable(ModuleOp module)
      : builder(OpBuilder::atBlockBegin(module.getBody())) {}

  KernelOp getOrCreate(ComputeOpInterface op) {
    StringRef name = op->getName().stripDialect();
    auto type =
        builder.getFunctionType(op->getOperandTypes(), op->getResultTypes());
    DictionaryAttr numbers = op.getKernelAttributes();
    auto key =
        std::make_pair(builder.getStringAttr(name),
                       builder.getArrayAttr({TypeAttr::get(type), numbers}));
    KernelOp &kernel = kernels[key];
    if (!kernel)
      kernel = KernelOp::create(
          builder, op.getLoc(), (name + "_" + Twine(counters[name]++)).str(),
          name, type, op.getNumericClass(), APFloat(op.getFlops()),
          APFloat(op.getBytes()), numbers, op.accumulates());
    return kernel;
  }

private:
  OpBuilder builder;
  DenseMap<std::pair<StringAttr, ArrayAttr>, KernelOp> kernels;
  llvm::StringMap<unsigned> counters;
};

struct FormKernels : impl::FormKernelsBase<FormKernels> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (failed(expectPhase(module, Phase::Training)))
      return signalPassFailure();

    AttrTypeReplacer eraser;
    eraser.addReplacement([](RankedTensorType type) -> std::optional<Type> {
      if (!getDist(type))
        return std::nullopt;
      return RankedTensorType::get(type.getShape(), type.getElementType());
    });
    eraser.recursivelyReplaceElementsIn(module, /*replaceAttrs=*/true,
                                        /*replaceLocs=*/false,
                                        /*replaceTypes=*/true);

    KernelTable kernels(module);
    module.walk([&](ComputeOpInterface op) {
      KernelOp kernel = kernels.getOrCreate(op);
      OpBuilder builder(op);
      auto call = CallOp::create(builder, op.getLoc(), op->getResultTypes(),
                                 kernel.getSymName(), op->getOperands(),
                                 op.getOpModule());
      op->replaceAllUsesWith(call);
      op->erase();
    });
    // Collectives have no kernel that keeps their cost.
    OpBuilder builder(module);
    module.walk([&](CollectiveOpInterface op) {
      op->setAttr(kBytesAttr, builder.getF64FloatAttr(op.getBytes()));
    });
    setPhase(module, Phase::Kernels);
  }
};

} // namespace
} // namespace mlir::moe
