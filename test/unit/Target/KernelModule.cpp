#include "KernelModule.h"

#include "dialects/Moe/MoeDialect.h"
#include "moe/Transforms/Kernels/Passes.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

using namespace moert;
using namespace moert::test;

KernelModule::KernelModule() { context.loadDialect<mlir::moe::MoeDialect>(); }

static std::string typeOf(const Operand &operand, bool rows) {
  if (rows)
    return "!moe.rows<" + std::to_string(operand.shape[0]) + ", mean = 1>";
  std::string text = "tensor<";
  for (int64_t d : operand.shape)
    text += std::to_string(d) + "x";
  const char *element = operand.type == F32    ? "f32"
                        : operand.type == BF16 ? "bf16"
                                               : "i32";
  return text + element + ">";
}

void KernelModule::add(const Launched &launched, int rows) {
  std::string inputs, results;
  bool accumulates = false;
  for (size_t i = 0; i < launched.operands.size(); ++i) {
    const Operand &operand = launched.operands[i];
    std::string type = typeOf(operand, int(i) == rows);
    if (operand.effect != Effect::Write)
      inputs += (inputs.empty() ? "" : ", ") + type;
    if (operand.effect != Effect::Read)
      results += (results.empty() ? "" : ", ") + type;
    accumulates |= operand.effect == Effect::ReadWrite;
  }
  std::string numbers;
  for (auto [name, value] : launched.kernel.attributes)
    numbers += (numbers.empty() ? "" : ", ") + name + " = " +
               std::to_string(value) + " : f64";
  kernels += "moe.kernel @k" + std::to_string(count++) + " op \"" +
             launched.kernel.op + "\" {" +
             (accumulates ? "accumulates, " : "") +
             "bytes = 1.0 : f64, flops = 1.0 : f64, numbers = {" + numbers +
             "}, numeric_class = #moe<numeric_class row_invariant>} : (" +
             inputs + ") -> (" + results + ")\n";
}

bool KernelModule::compile() {
  module = mlir::parseSourceString<mlir::ModuleOp>(
      "module attributes {moe.phase = \"kernels\"} {\n" + kernels + "}",
      &context);
  if (!module)
    return false;
  mlir::PassManager pm(&context);
  pm.addPass(mlir::moe::createGenerateKernels());
  if (mlir::failed(pm.run(*module)))
    return false;
  auto compiled = mlir::moe::HostKernels::compile(*module);
  if (mlir::failed(compiled))
    return false;
  code.emplace(std::move(*compiled));
  return code->getFunctions().size() == count;
}

GeneratedKernel KernelModule::function(size_t i) const {
  return code->getFunctions().at("k" + std::to_string(i));
}
