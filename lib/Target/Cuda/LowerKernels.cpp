#include "LowerKernels.h"

#include "dialects/Moe/MoeOps.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/IndexToLLVM/IndexToLLVM.h"
#include "mlir/Conversion/MemRefToLLVM/MemRefToLLVM.h"
#include "mlir/Conversion/Passes.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVM.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "moe/Transforms/Kernels/Passes.h"

using namespace mlir;
using namespace mlir::moe;

namespace {

/// For these the conversion to NVVM calls libdevice; LLVM's intrinsics are
/// one instruction each: a root that rounds to nearest, a maximum that passes
/// over NaNs.
struct KeepIntrinsics
    : PassWrapper<KeepIntrinsics, OperationPass<gpu::GPUModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(KeepIntrinsics)

  void runOnOperation() override {
    getOperation()->walk([](Operation *op) {
      StringRef name = isa<LLVM::SqrtOp>(op)       ? "llvm.sqrt"
                       : isa<arith::MaxNumFOp>(op) ? "llvm.maxnum"
                                                   : "";
      if (name.empty())
        return;
      OpBuilder builder(op);
      auto call = LLVM::CallIntrinsicOp::create(
          builder, op->getLoc(), op->getResult(0).getType(),
          builder.getStringAttr(name), op->getOperands());
      op->replaceAllUsesWith(call);
      op->erase();
    });
  }
};

} // namespace

static void buildPipeline(OpPassManager &pm) {
  pm.addPass(createMapToGpu());
  OpPassManager &device = pm.nest<gpu::GPUModuleOp>();
  ExpandMathOptions math;
  math.log = true;
  device.addPass(createExpandMath(math));
  device.addPass(memref::createExpandStridedMetadataPass());
  device.addPass(createLowerAffinePass());
  device.addPass(createCanonicalizerPass());
  device.addPass(createCSEPass());
  device.addPass(createSCFToControlFlowPass());
  // First: the conversion to NVVM would call libdevice's functions.
  device.addPass(createConvertMathToLLVMPass());
  device.addPass(std::make_unique<KeepIntrinsics>());
  ConvertGpuOpsToNVVMOpsOptions nvvm;
  nvvm.indexBitwidth = 64;
  nvvm.useBarePtrCallConv = true;
  device.addPass(createConvertGpuOpsToNVVMOps(nvvm));
  device.addPass(createReconcileUnrealizedCastsPass());
}

FailureOr<OwningOpRef<ModuleOp>>
mlir::moe::lowerKernelsToNVVM(ModuleOp module) {
  DialectRegistry registry;
  arith::registerConvertArithToLLVMInterface(registry);
  cf::registerConvertControlFlowToLLVMInterface(registry);
  index::registerConvertIndexToLLVMInterface(registry);
  registerConvertMemRefToLLVMInterface(registry);
  vector::registerConvertVectorToLLVMInterface(registry);
  module.getContext()->appendDialectRegistry(registry);

  OwningOpRef<ModuleOp> result = ModuleOp::create(module.getLoc());
  OpBuilder builder = OpBuilder::atBlockEnd(result->getBody());
  for (KernelOp kernel : module.getOps<KernelOp>())
    if (!kernel.getBody().empty())
      builder.clone(*kernel);
  PassManager pm(module.getContext());
  buildPipeline(pm);
  if (failed(pm.run(*result)))
    return failure();
  for (KernelOp kernel : llvm::make_early_inc_range(result->getOps<KernelOp>()))
    kernel.erase();
  return result;
}
