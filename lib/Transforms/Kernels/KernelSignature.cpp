#include "KernelSignature.h"

#include "moe/Runtime/Kernels.h"

using namespace mlir;
using namespace mlir::moe;

LogicalResult mlir::moe::checkSignature(KernelOp op) {
  moert::Kernel kernel;
  kernel.name = op.getSymName().str();
  kernel.op = op.getOp().str();
  for (NamedAttribute number : op.getNumbers())
    kernel.attributes[number.getName().str()] =
        cast<FloatAttr>(number.getValue()).getValueAsDouble();
  std::vector<moert::Operand> operands;
  for (auto [i, type] : llvm::enumerate(op.getBodyArgumentTypes())) {
    auto memref = dyn_cast<MemRefType>(type);
    Type element = memref ? memref.getElementType() : Type();
    if (!memref || !memref.hasStaticShape() ||
        !(element.isF32() || element.isBF16() || element.isInteger(32)))
      return op.emitOpError() << "operand " << i << " is " << type
                              << "; kernels take static tensors of "
                                 "f32, bf16 or i32";
    moert::Operand operand;
    operand.shape.assign(memref.getShape().begin(), memref.getShape().end());
    operand.type = element.isF32()    ? moert::ElementType::F32
                   : element.isBF16() ? moert::ElementType::BF16
                                      : moert::ElementType::I32;
    bool output = i >= op.getFunctionType().getNumInputs();
    bool last = i + 1 == op.getFunctionType().getNumInputs();
    operand.effect = output                        ? moert::Effect::Write
                     : op.getAccumulates() && last ? moert::Effect::ReadWrite
                                                   : moert::Effect::Read;
    kernel.effects.push_back(operand.effect);
    operands.push_back(std::move(operand));
  }
  std::string problem = moert::checkSignature(kernel, operands);
  return problem.empty() ? success() : op.emitOpError() << problem;
}
