#include "moe/Import/HuggingFace.h"

#include "ConfigReader.h"
#include "Qwen3Moe.h"
#include "dialects/Moe/MoeDialect.h"
#include "mlir/IR/Verifier.h"
#include "moe/Import/Layout.h"
#include "moe/Support/Phase.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace mlir::moe;

/// Number of GPUs of a target.
static FailureOr<int64_t> parseTarget(MLIRContext *context, StringRef target) {
  StringRef rest = target;
  int64_t gpus = 0;
  if ((rest.consume_front("h100x") || rest.consume_front("gb200x")) &&
      !rest.getAsInteger(10, gpus) && gpus >= 1 &&
      gpus <= std::numeric_limits<int32_t>::max())
    return gpus;
  return emitError(UnknownLoc::get(context))
         << "--target: must be h100xN or gb200xN with N from 1, but is '"
         << target << "'";
}

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
  FailureOr<int64_t> gpus = parseTarget(context, options.target);
  if (failed(gpus))
    return nullptr;
  FailureOr<LayoutAttr> layout =
      parseLayout(context, options.layout, *gpus, model.layers, model.experts);
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
