#include "moe/Target/CudaKernels.h"

#include "LowerKernels.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/ExecutionEngine/OptUtils.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/GPU/GPUToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

#include <map>

using namespace mlir;
using namespace mlir::moe;

ArrayRef<CudaChip> mlir::moe::cudaChips() {
  // LLVM aborts the process where the PTX version is below the chip's.
  static constexpr CudaChip chips[] = {{"sm_90a", "+ptx83"},
                                       {"sm_100a", "+ptx86"}};
  return chips;
}

//===----------------------------------------------------------------------===//
// PTX
//===----------------------------------------------------------------------===//

/// Without contraction: a multiply and an add are fused only where the IR says
/// so, as on the host.
static std::unique_ptr<llvm::TargetMachine> createMachine(const CudaChip &chip,
                                                          std::string &error) {
  LLVMInitializeNVPTXTarget();
  LLVMInitializeNVPTXTargetInfo();
  LLVMInitializeNVPTXTargetMC();
  LLVMInitializeNVPTXAsmPrinter();
  llvm::Triple triple("nvptx64-nvidia-cuda");
  const llvm::Target *target =
      llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return nullptr;
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(
      triple, chip.name, chip.features, options, std::nullopt, std::nullopt,
      llvm::CodeGenOptLevel::Aggressive));
}

FailureOr<std::string> mlir::moe::emitPtx(ModuleOp module,
                                          const CudaChip &chip) {
  std::string text;
  auto machine = createMachine(chip, text);
  if (!machine)
    return module.emitError("generated kernels: ") << text;
  DialectRegistry registry;
  registerBuiltinDialectTranslation(registry);
  registerGPUDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  registerNVVMDialectTranslation(registry);
  module.getContext()->appendDialectRegistry(registry);
  FailureOr<OwningOpRef<ModuleOp>> lowered = lowerKernelsToNVVM(module);
  if (failed(lowered))
    return failure();
  auto kernels = (*lowered)->getOps<gpu::GPUModuleOp>();
  if (kernels.empty())
    return module.emitError("has no generated kernels");

  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> code =
      translateModuleToLLVMIR(*kernels.begin(), context, "moe_kernels");
  if (!code)
    return failure();
  code->setDataLayout(machine->createDataLayout());
  code->setTargetTriple(machine->getTargetTriple());
  if (llvm::Error error = makeOptimizingTransformer(
          /*optLevel=*/3, /*sizeLevel=*/0, machine.get())(code.get()))
    return module.emitError("generated kernels: ")
           << llvm::toString(std::move(error));
  llvm::SmallString<0> ptx;
  llvm::raw_svector_ostream stream(ptx);
  llvm::legacy::PassManager passes;
  if (machine->addPassesToEmitFile(passes, stream, nullptr,
                                   llvm::CodeGenFileType::AssemblyFile))
    return module.emitError("generated kernels: this LLVM emits no PTX");
  passes.run(*code);
  return ptx.str().str();
}

//===----------------------------------------------------------------------===//
// Machine code
//===----------------------------------------------------------------------===//

namespace {

/// Runs programs of the toolkit on files that go away with it.
class Toolkit {
public:
  Toolkit(ModuleOp module, StringRef path) : module(module), path(path) {}
  ~Toolkit() {
    for (const std::string &file : files)
      llvm::sys::fs::remove(file);
  }

  /// The program, or an error that says what to install.
  FailureOr<std::string> find(StringRef program) {
    SmallString<128> bin(path);
    llvm::sys::path::append(bin, "bin");
    if (auto found = llvm::sys::findProgramByName(program, {bin}))
      return *found;
    return module.emitError("generated kernels: no '")
           << program << "' in " << bin
           << "; install the CUDA toolkit, 13.0 or later (its packages "
              "cuda-nvcc and cuda-fatbinary), and name its folder";
  }

  FailureOr<std::string> makeFile(StringRef suffix, StringRef text = "") {
    SmallString<128> name;
    int fd;
    if (std::error_code code =
            llvm::sys::fs::createTemporaryFile("moe-kernels", suffix, fd, name))
      return module.emitError("generated kernels: ") << code.message();
    files.push_back(name.str().str());
    llvm::raw_fd_ostream(fd, /*shouldClose=*/true) << text;
    return files.back();
  }

  LogicalResult run(StringRef program, ArrayRef<StringRef> arguments) {
    FailureOr<std::string> found = find(program);
    FailureOr<std::string> log = makeFile("log");
    if (failed(found) || failed(log))
      return failure();
    SmallVector<StringRef> all = {*found};
    llvm::append_range(all, arguments);
    std::optional<StringRef> redirects[] = {"", *log, *log};
    std::string error;
    if (llvm::sys::ExecuteAndWait(*found, all, std::nullopt, redirects,
                                  /*SecondsToWait=*/0, /*MemoryLimit=*/0,
                                  &error) == 0)
      return success();
    auto text = llvm::MemoryBuffer::getFile(*log);
    return module.emitError("generated kernels: ")
           << program << " failed: " << error
           << (text ? (*text)->getBuffer().rtrim() : StringRef());
  }

private:
  ModuleOp module;
  StringRef path;
  std::vector<std::string> files;
};

} // namespace

FailureOr<std::string> mlir::moe::emitCudaImage(ModuleOp module,
                                                StringRef toolkit) {
  Toolkit tools(module, toolkit);
  // Before anything is compiled.
  if (failed(tools.find("ptxas")) || failed(tools.find("fatbinary")))
    return failure();
  FailureOr<std::string> image = tools.makeFile("fatbin");
  if (failed(image))
    return failure();
  std::vector<std::string> arguments = {"-64", "--create=" + *image};
  for (const CudaChip &chip : cudaChips()) {
    FailureOr<std::string> ptx = emitPtx(module, chip);
    if (failed(ptx))
      return failure();
    FailureOr<std::string> source = tools.makeFile("ptx", *ptx);
    FailureOr<std::string> code = tools.makeFile("cubin");
    if (failed(source) || failed(code) ||
        failed(tools.run("ptxas", {"-O3", "--fmad=false", "-arch", chip.name,
                                   *source, "-o", *code})))
      return failure();
    arguments.push_back("--image3=kind=elf,sm=" +
                        chip.name.drop_front(3).str() + ",file=" + *code);
  }
  if (failed(tools.run("fatbinary", SmallVector<StringRef>(arguments.begin(),
                                                           arguments.end()))))
    return failure();
  auto bytes = llvm::MemoryBuffer::getFile(*image);
  if (!bytes)
    return module.emitError("generated kernels: ")
           << bytes.getError().message();
  return (*bytes)->getBuffer().str();
}
