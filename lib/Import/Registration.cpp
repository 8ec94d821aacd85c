#include "dialects/Moe/MoeDialect.h"
#include "mlir/Tools/mlir-translate/Translation.h"
#include "moe/Import/Counts.h"
#include "moe/Import/HuggingFace.h"
#include "moe/Support/Phase.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;
using namespace mlir::moe;

/// Locations name the ops to all later tools, so they are always written.
static LogicalResult print(Operation *op, raw_ostream &os) {
  op->print(os, OpPrintingFlags().enableDebugInfo());
  return success();
}

static LogicalResult count(ModuleOp module, raw_ostream &os) {
  FailureOr<LayoutAttr> layout = getLayout(module);
  if (failed(layout))
    return failure();
  int64_t sequence = layout->getSequence();
  FailureOr<int64_t> parameters = parameterCount(module);
  FailureOr<double> flops = modelFlopsPerToken(module, sequence);
  if (failed(parameters) || failed(flops))
    return failure();
  os << "parameters " << *parameters << "\n"
     << "model GFLOP per token at seq " << sequence << " "
     << llvm::format("%.6g", *flops / 1e9) << "\n";
  return success();
}

static void registerImport() {
  namespace cl = llvm::cl;
  static cl::opt<std::string> target(
      "target", cl::desc("What to train on: h100xN, gb200xN (N GPUs)"));
  static cl::opt<std::string> layout(
      "layout", cl::desc("Layout over ranks, such as \"ep=16,pp=2\"; keys: "
                         "docs/Import.md"));
  static cl::opt<ElementKind> dtype(
      "dtype", cl::desc("Element type instead of the configuration's"),
      cl::values(clEnumValN(ElementKind::F32, "f32", "float32"),
                 clEnumValN(ElementKind::BF16, "bf16", "bfloat16")));
  TranslateRegistration import(
      "import-hf", "Hugging Face config.json to model IR",
      [](const std::shared_ptr<llvm::SourceMgr> &source, raw_ostream &os,
         MLIRContext *context) -> LogicalResult {
        const llvm::MemoryBuffer *buffer =
            source->getMemoryBuffer(source->getMainFileID());
        OwningOpRef<ModuleOp> module = importHuggingFace(
            context, buffer->getBuffer(), buffer->getBufferIdentifier(),
            {target, layout,
             dtype.getNumOccurrences() ? std::optional(dtype.getValue())
                                       : std::nullopt});
        return module ? print(*module, os) : failure();
      });
}

void mlir::moe::registerTranslations() {
  registerImport();
  auto dialects = [](DialectRegistry &registry) {
    registry.insert<MoeDialect>();
  };
  TranslateFromMLIRRegistration counts(
      "count", "Parameters and model FLOP per token of a program", count,
      dialects);
  TranslateFromMLIRRegistration roundTrip(
      "round-trip", "Parse, verify and print a program", print, dialects);
}
