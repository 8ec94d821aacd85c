#include "moe/Support/Phase.h"

using namespace mlir;
using namespace mlir::moe;

static const StringLiteral names[] = {"model", "spmd", "training", "kernels",
                                      "sched"};

StringRef mlir::moe::phaseName(Phase phase) {
  return names[static_cast<unsigned>(phase)];
}

FailureOr<Phase> mlir::moe::getPhase(ModuleOp module) {
  auto attr = module->getAttrOfType<StringAttr>(kPhaseAttr);
  if (!attr)
    return module.emitError()
           << "module has no '" << kPhaseAttr
           << "'; import a model with moe-translate --import-hf";
  for (auto [i, name] : llvm::enumerate(names))
    if (attr.getValue() == name)
      return static_cast<Phase>(i);
  return module.emitError() << "unknown phase '" << attr.getValue() << "'";
}

LogicalResult mlir::moe::expectPhase(ModuleOp module, Phase phase) {
  FailureOr<Phase> got = getPhase(module);
  if (failed(got))
    return failure();
  if (*got == phase)
    return success();
  return module.emitError() << "expected a module in phase " << phaseName(phase)
                            << ", but it is in phase " << phaseName(*got);
}

void mlir::moe::setPhase(ModuleOp module, Phase phase) {
  module->setAttr(kPhaseAttr,
                  StringAttr::get(module.getContext(), phaseName(phase)));
}

FailureOr<LayoutAttr> mlir::moe::getLayout(ModuleOp module) {
  if (auto layout = module->getAttrOfType<LayoutAttr>(kLayoutAttr))
    return layout;
  return module.emitError() << "module has no '" << kLayoutAttr << "'";
}
