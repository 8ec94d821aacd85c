#include "moe/Import/HuggingFace.h"

#include "ConfigReader.h"
#include "Qwen3Moe.h"
#include "dialects/Moe/MoeDialect.h"
#include "mlir/IR/Verifier.h"
#include "moe/Cost/System.h"
#include "moe/Import/Layout.h"
#include "moe/Support/Phase.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace mlir::moe;

OwningOpRef<ModuleOp>
mlir::moe::importHuggingFace(MLIRContext *context, StringRef config,
                             StringRef file, const ImportOptions &options) {
  context->loadDialect<MoeDialect>();
  ConfigReader reader(context, file);
  if (failed(reader.parse(config)))
    return nullptr;
  std::string family = reader.string("model_type", "");
  if (reader.hasErrors())
    return nullptr;
  if (family != "qwen3_moe") {
    if (family.empty())
      reader.error("model_type")
          << "'model_type' is missing; supported: \"qwen3_moe\"";
    else
      reader.error("model_type")
          << "'model_type' " << nlohmann::json(family).dump()
          << " is not supported yet; supported: \"qwen3_moe\"";
    return nullptr;
  }

  auto model = Qwen3MoeConfig::read(reader, options.elementKind);
  if (reader.hasErrors())
    return nullptr;
  moert::System system;
  std::string error;
  if (!moert::parseSystem(options.target, system, error)) {
    emitError(UnknownLoc::get(context)) << "--target: " << error;
    return nullptr;
  }
  FailureOr<LayoutAttr> layout = parseLayout(
      context, options.layout, system.gpus, model.layers, model.experts);
  if (failed(layout) || failed(checkSizes(reader, model, *layout)))
    return nullptr;

  Builder builder(context);
  OwningOpRef<ModuleOp> module = ModuleOp::create(FileLineColLoc::get(
      context, llvm::sys::path::filename(file), /*line=*/1, /*column=*/1));
  setPhase(*module, Phase::Model);
  (*module)->setAttr(kTargetAttr, builder.getStringAttr(options.target));
  (*module)->setAttr(kLayoutAttr, *layout);
  (*module)->setAttr(kConfigAttr, model.toAttribute(builder));
  buildQwen3Moe(*module, model, *layout);
  if (failed(verify(*module)))
    return nullptr;
  return module;
}
