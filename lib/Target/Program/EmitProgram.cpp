//===- EmitProgram.cpp - A program as an object file ----------------------===//

#include "moe/Target/Program.h"

#include "llvm/IR/Constants.h"
#include "llvm/IR/GlobalVariable.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Triple.h"

using namespace mlir;
using namespace mlir::moe;

namespace {

/// Makes moe_program.
class Constants {
public:
  explicit Constants(llvm::Module &module)
      : module(module), pointer(llvm::PointerType::get(context(), 0)),
        size(llvm::Type::getInt64Ty(context())) {}

  void build(const ProgramObject &program) {
    std::vector<llvm::Constant *> kernels;
    for (const std::string &name : program.hostKernels)
      kernels.push_back(llvm::ConstantStruct::getAnon(
          {bytes("name", name + '\0'), function("moe_kernel_" + name)}));
    llvm::Constant *data = llvm::ConstantStruct::getAnon(
        {bytes("table", program.table), number(program.table.size()),
         array("kernels", kernels), number(kernels.size()),
         bytes("image", program.image), number(program.image.size())});
    auto *symbol = new llvm::GlobalVariable(
        module, data->getType(), /*isConstant=*/true,
        llvm::GlobalValue::ExternalLinkage, data, "moe_program");
    symbol->setAlignment(llvm::Align(16));
  }

private:
  llvm::LLVMContext &context() { return module.getContext(); }

  llvm::Constant *number(uint64_t value) {
    return llvm::ConstantInt::get(size, value);
  }

  llvm::Constant *hidden(StringRef name, llvm::Constant *value) {
    auto *symbol = new llvm::GlobalVariable(
        module, value->getType(), /*isConstant=*/true,
        llvm::GlobalValue::PrivateLinkage, value, "moe_program_" + name);
    symbol->setAlignment(llvm::Align(16));
    return symbol;
  }

  /// The address of a copy; null: nothing to copy.
  llvm::Constant *bytes(StringRef name, StringRef data) {
    if (data.empty())
      return llvm::ConstantPointerNull::get(pointer);
    return hidden(name, llvm::ConstantDataArray::getString(context(), data,
                                                           /*AddNull=*/false));
  }

  llvm::Constant *array(StringRef name, ArrayRef<llvm::Constant *> elements) {
    if (elements.empty())
      return llvm::ConstantPointerNull::get(pointer);
    return hidden(
        name, llvm::ConstantArray::get(
                  llvm::ArrayType::get(elements[0]->getType(), elements.size()),
                  elements));
  }

  llvm::Constant *function(StringRef name) {
    auto *type = llvm::FunctionType::get(llvm::Type::getVoidTy(context()),
                                         {pointer}, /*isVarArg=*/false);
    return llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage,
                                  name, module);
  }

  llvm::Module &module;
  llvm::PointerType *pointer;
  llvm::Type *size;
};

} // namespace

std::string mlir::moe::emitProgramObject(const ProgramObject &program,
                                         StringRef triple,
                                         llvm::raw_pwrite_stream &stream) {
  llvm::InitializeAllTargetInfos();
  llvm::InitializeAllTargets();
  llvm::InitializeAllTargetMCs();
  llvm::InitializeAllAsmPrinters();
  std::string error;
  llvm::Triple parsed(triple);
  const llvm::Target *target =
      llvm::TargetRegistry::lookupTarget(parsed, error);
  if (!target)
    return error;
  std::unique_ptr<llvm::TargetMachine> machine(
      target->createTargetMachine(parsed, /*CPU=*/"", /*Features=*/"",
                                  llvm::TargetOptions(), llvm::Reloc::PIC_));
  llvm::LLVMContext context;
  llvm::Module module("moe_program", context);
  module.setTargetTriple(parsed);
  module.setDataLayout(machine->createDataLayout());
  Constants(module).build(program);
  llvm::legacy::PassManager passes;
  if (machine->addPassesToEmitFile(passes, stream, nullptr,
                                   llvm::CodeGenFileType::ObjectFile))
    return triple.str() + " has no object files";
  passes.run(module);
  return "";
}
