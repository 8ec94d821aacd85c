#include "LowerKernels.h"

#include "dialects/Moe/MoeOps.h"
#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/Passes.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/Dialect/SCF/Transforms/Passes.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "moe/Transforms/Kernels/Passes.h"

using namespace mlir;
using namespace mlir::moe;

std::string mlir::moe::hostSymbol(StringRef kernel) {
  return ("moe_kernel_" + kernel).str();
}

/// Name of the function over memrefs.
static std::string bodySymbol(StringRef kernel) {
  return hostSymbol(kernel) + "_body";
}

/// The kernel's body as a function.
static void outline(KernelOp kernel, OpBuilder &builder) {
  auto type =
      builder.getFunctionType(kernel.getBody().getArgumentTypes(), TypeRange());
  auto function = func::FuncOp::create(builder, kernel.getLoc(),
                                       bodySymbol(kernel.getSymName()), type);
  function->setAttr("llvm.linkage",
                    LLVM::LinkageAttr::get(builder.getContext(),
                                           LLVM::linkage::Linkage::Internal));
  IRMapping mapping;
  kernel.getBody().cloneInto(&function.getBody(), mapping);
  Block &block = function.getBody().front();
  // One iteration at a time: scratch memory of a row is that of all rows.
  function.walk([&](memref::AllocaOp alloca) {
    if (alloca->getBlock() != &block)
      alloca->moveBefore(&block, block.begin());
  });
  OpBuilder end = OpBuilder::atBlockEnd(&block);
  func::ReturnOp::create(end, kernel.getLoc());
}

/// `void kernel(ptr pointers)`, which calls the body with each pointer.
static void createEntry(LLVM::LLVMFuncOp body, StringRef name) {
  ImplicitLocOpBuilder builder(body.getLoc(), body);
  Type pointer = LLVM::LLVMPointerType::get(builder.getContext());
  auto entry = LLVM::LLVMFuncOp::create(
      builder, name,
      LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(builder.getContext()),
                                  pointer));
  Block *block = entry.addEntryBlock(builder);
  builder.setInsertionPointToStart(block);
  SmallVector<Value> pointers;
  for (unsigned i = 0; i < body.getNumArguments(); ++i) {
    Value place =
        LLVM::GEPOp::create(builder, pointer, pointer, block->getArgument(0),
                            ArrayRef<LLVM::GEPArg>{int32_t(i)});
    pointers.push_back(LLVM::LoadOp::create(builder, pointer, place));
  }
  LLVM::CallOp::create(builder, body, pointers);
  LLVM::ReturnOp::create(builder, ValueRange());
}

namespace {

/// bf16 in memory is i16: LLVM would move a bfloat through f32, by a call.
/// Comes when arithmetic on bf16 has been expanded to bits.
struct StoreBF16AsInteger
    : PassWrapper<StoreBF16AsInteger, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(StoreBF16AsInteger)

  void runOnOperation() override {
    AttrTypeReplacer replacer;
    Type bits = IntegerType::get(&getContext(), 16);
    replacer.addReplacement([=](BFloat16Type) { return bits; });
    replacer.addReplacement([=](FloatAttr value) -> std::optional<Attribute> {
      if (!value.getType().isBF16())
        return std::nullopt;
      return IntegerAttr::get(bits, value.getValue().bitcastToAPInt());
    });
    replacer.addReplacement(
        [=](DenseElementsAttr values) -> std::optional<Attribute> {
          if (!values.getElementType().isBF16())
            return std::nullopt;
          return values.bitcast(bits);
        });
    replacer.recursivelyReplaceElementsIn(getOperation(), /*replaceAttrs=*/true,
                                          /*replaceLocs=*/false,
                                          /*replaceTypes=*/true);
  }
};

} // namespace

static void buildPipeline(OpPassManager &pm) {
  pm.addNestedPass<func::FuncOp>(createForallToForLoopPass());
  pm.addPass(createVectorizeKernels());
  pm.addNestedPass<func::FuncOp>(createConvertLinalgToLoopsPass());
  pm.addPass(createExpandMath());
  arith::ArithExpandOpsPassOptions expand;
  expand.includeBf16 = true;
  pm.addNestedPass<func::FuncOp>(arith::createArithExpandOpsPass(expand));
  pm.addPass(std::make_unique<StoreBF16AsInteger>());
  pm.addPass(memref::createExpandStridedMetadataPass());
  pm.addPass(createLowerAffinePass());
  pm.addPass(createCSEPass());
  pm.addPass(createSCFToControlFlowPass());
  pm.addPass(createConvertVectorToLLVMPass());
  pm.addPass(createFinalizeMemRefToLLVMConversionPass());
  pm.addPass(createConvertMathToLLVMPass());
  pm.addPass(createConvertIndexToLLVMPass());
  ConvertFuncToLLVMPassOptions functions;
  functions.useBarePtrCallConv = true;
  pm.addPass(createConvertFuncToLLVMPass(functions));
  pm.addPass(createArithToLLVMConversionPass());
  pm.addPass(createConvertControlFlowToLLVMPass());
  pm.addPass(createReconcileUnrealizedCastsPass());
}

FailureOr<OwningOpRef<ModuleOp>>
mlir::moe::lowerKernelsToLLVM(ModuleOp module) {
  OwningOpRef<ModuleOp> result = ModuleOp::create(module.getLoc());
  OpBuilder builder = OpBuilder::atBlockEnd(result->getBody());
  SmallVector<StringRef> names;
  module.getContext()->loadDialect<func::FuncDialect, LLVM::LLVMDialect>();
  for (KernelOp kernel : module.getOps<KernelOp>())
    if (!kernel.getBody().empty()) {
      outline(kernel, builder);
      names.push_back(kernel.getSymName());
    }
  PassManager pm(module.getContext());
  buildPipeline(pm);
  if (failed(pm.run(*result)))
    return failure();
  for (StringRef name : names)
    createEntry(result->lookupSymbol<LLVM::LLVMFuncOp>(bodySymbol(name)),
                hostSymbol(name));
  return result;
}
