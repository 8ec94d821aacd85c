#include "moe/Target/HostKernels.h"

#include "LowerKernels.h"
#include "dialects/Moe/MoeOps.h"
#include "lib/Runtime/Cuda/Twin.h"
#include "mlir/ExecutionEngine/OptUtils.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

using namespace mlir;
using namespace mlir::moe;

struct HostKernels::Code {
  std::unique_ptr<llvm::orc::LLJIT> jit;
};

HostKernels::HostKernels(std::unique_ptr<Code> code) : code(std::move(code)) {}
HostKernels::HostKernels(HostKernels &&) = default;
HostKernels &HostKernels::operator=(HostKernels &&) = default;
HostKernels::~HostKernels() = default;

/// Reports an LLVM error at the module.
static LogicalResult report(ModuleOp module, llvm::Error error) {
  return module.emitError("generated kernels: ")
         << llvm::toString(std::move(error));
}

/// This machine, or the least one of `triple`, without contraction: a multiply
/// and an add are fused only where the IR says so.
static llvm::Expected<llvm::orc::JITTargetMachineBuilder>
hostMachine(StringRef triple = "") {
  using llvm::orc::JITTargetMachineBuilder;
  llvm::InitializeAllTargetInfos();
  llvm::InitializeAllTargets();
  llvm::InitializeAllTargetMCs();
  llvm::InitializeAllAsmPrinters();
  auto builder = triple.empty() ? JITTargetMachineBuilder::detectHost()
                                : JITTargetMachineBuilder(llvm::Triple(triple));
  if (!builder)
    return builder.takeError();
  builder->setCodeGenOptLevel(llvm::CodeGenOptLevel::Default);
  builder->getOptions().AllowFPOpFusion = llvm::FPOpFusion::Strict;
  return builder;
}

/// The module's kernels as optimised LLVM IR for `machine`.
static FailureOr<std::unique_ptr<llvm::Module>>
compileToLLVM(ModuleOp module, llvm::TargetMachine &machine,
              llvm::LLVMContext &context) {
  DialectRegistry registry;
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  module.getContext()->appendDialectRegistry(registry);
  FailureOr<OwningOpRef<ModuleOp>> lowered = lowerKernelsToLLVM(module);
  if (failed(lowered))
    return failure();
  std::unique_ptr<llvm::Module> code =
      translateModuleToLLVMIR(**lowered, context, "moe_kernels");
  if (!code)
    return failure();
  code->setDataLayout(machine.createDataLayout());
  code->setTargetTriple(machine.getTargetTriple());
  if (llvm::Error error = makeOptimizingTransformer(
          /*optLevel=*/2, /*sizeLevel=*/0, &machine)(code.get()))
    return report(module, std::move(error));
  return code;
}

FailureOr<HostKernels> HostKernels::compile(ModuleOp module) {
  auto builder = hostMachine();
  if (!builder)
    return report(module, builder.takeError());
  auto machine = builder->createTargetMachine();
  if (!machine)
    return report(module, machine.takeError());
  auto context = std::make_unique<llvm::LLVMContext>();
  auto ir = compileToLLVM(module, **machine, *context);
  if (failed(ir))
    return failure();
  auto jit = llvm::orc::LLJITBuilder()
                 .setJITTargetMachineBuilder(std::move(*builder))
                 .create();
  if (!jit)
    return report(module, jit.takeError());
  if (llvm::Error error = (*jit)->addIRModule(
          llvm::orc::ThreadSafeModule(std::move(*ir), std::move(context))))
    return report(module, std::move(error));

  HostKernels kernels(std::make_unique<Code>(Code{std::move(*jit)}));
  for (KernelOp kernel : module.getOps<KernelOp>()) {
    if (kernel.getBody().empty())
      continue;
    auto address = kernels.code->jit->lookup(hostSymbol(kernel.getSymName()));
    if (!address)
      return report(module, address.takeError());
    kernels.functions[kernel.getSymName().str()] =
        address->toPtr<moert::GeneratedKernel>();
  }
  return kernels;
}

/// Writes the code as an object file, with what `extend` adds to it.
static LogicalResult
emitObject(ModuleOp module, StringRef triple, llvm::raw_pwrite_stream &stream,
           function_ref<void(llvm::Module &)> extend = nullptr) {
  auto builder = hostMachine(triple);
  if (!builder)
    return report(module, builder.takeError());
  builder->setRelocationModel(llvm::Reloc::PIC_);
  auto machine = builder->createTargetMachine();
  if (!machine)
    return report(module, machine.takeError());
  llvm::LLVMContext context;
  auto ir = compileToLLVM(module, **machine, context);
  if (failed(ir))
    return failure();
  if (extend)
    extend(**ir);
  llvm::legacy::PassManager passes;
  if ((*machine)->addPassesToEmitFile(passes, stream, nullptr,
                                      llvm::CodeGenFileType::ObjectFile))
    return module.emitError("the host's machine has no object files");
  passes.run(**ir);
  return success();
}

LogicalResult mlir::moe::emitHostObject(ModuleOp module, StringRef triple,
                                        llvm::raw_pwrite_stream &stream) {
  return emitObject(module, triple, stream);
}

/// The lists of Twin.h, lib/Runtime/Cuda.
static void addTwins(ModuleOp module, llvm::Module &code) {
  llvm::LLVMContext &context = code.getContext();
  auto constant = [&](llvm::Constant *value, StringRef name,
                      llvm::GlobalValue::LinkageTypes linkage) {
    return new llvm::GlobalVariable(code, value->getType(), /*isConstant=*/true,
                                    linkage, value, name);
  };
  constexpr auto internal = llvm::GlobalValue::PrivateLinkage;
  constexpr auto external = llvm::GlobalValue::ExternalLinkage;
  auto *pointer = llvm::PointerType::get(context, 0);
  auto *count = llvm::Type::getInt32Ty(context);
  auto *twin = llvm::StructType::get(
      context, {pointer, pointer, pointer, pointer, count});
  SmallVector<llvm::Constant *> twins;
  for (KernelOp kernel : module.getOps<KernelOp>()) {
    if (kernel.getBody().empty())
      continue;
    SmallVector<uint64_t> bytes;
    SmallVector<uint8_t> effects;
    unsigned inputs = kernel.getFunctionType().getNumInputs();
    for (auto [i, type] : llvm::enumerate(kernel.getBodyArgumentTypes())) {
      auto memref = cast<MemRefType>(type);
      bytes.push_back(memref.getNumElements() *
                      memref.getElementTypeBitWidth() / 8);
      bool updated = kernel.getAccumulates() && i + 1 == inputs;
      effects.push_back(i >= inputs ? MOE_WRITE
                        : updated   ? MOE_READ_WRITE
                                    : MOE_READ);
    }
    std::string name = hostSymbol(kernel.getSymName());
    twins.push_back(llvm::ConstantStruct::get(
        twin,
        {constant(llvm::ConstantDataArray::getString(context, name), "",
                  internal),
         code.getFunction(name),
         constant(llvm::ConstantDataArray::get(context, bytes), "", internal),
         constant(llvm::ConstantDataArray::get(context, effects), "", internal),
         llvm::ConstantInt::get(count, bytes.size())}));
  }
  constant(
      llvm::ConstantArray::get(llvm::ArrayType::get(twin, twins.size()), twins),
      "moe_generated_twins", external);
  constant(
      llvm::ConstantInt::get(llvm::Type::getInt64Ty(context), twins.size()),
      "moe_generated_twin_count", external);
}

LogicalResult mlir::moe::emitTwinObject(ModuleOp module, StringRef triple,
                                        llvm::raw_pwrite_stream &stream) {
  return emitObject(module, triple, stream,
                    [&](llvm::Module &code) { addTwins(module, code); });
}
