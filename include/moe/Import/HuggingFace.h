//===- HuggingFace.h - From a config.json to model IR ---------------------===//
//
// Families: qwen3_moe. docs/Import.md lists what becomes of each key.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_IMPORT_HUGGINGFACE_H
#define MOE_IMPORT_HUGGINGFACE_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <optional>

namespace mlir::moe {

/// Types that a model's tensors can have.
enum class ElementKind { F32, BF16 };

struct ImportOptions {
  /// "h100xN" or "gb200xN".
  std::string target;
  /// As moe/Import/Layout.h reads it; empty: all defaults.
  std::string layout;
  /// Instead of the configuration's own.
  std::optional<ElementKind> elementKind;
};

/// Model IR of the model that a Hugging Face `config.json` describes, laid out
/// for a target. `file` is the name that messages show. Null, and errors that
/// name the key, if the configuration, the target or the layout is wrong or
/// not supported yet. Loads the dialect.
OwningOpRef<ModuleOp> importHuggingFace(MLIRContext *context, StringRef config,
                                        StringRef file,
                                        const ImportOptions &options);

/// Registers moe-translate's flags: `--import-hf` with `--target`, `--layout`
/// and `--dtype`; `--count`; `--round-trip`.
void registerTranslations();

} // namespace mlir::moe

#endif // MOE_IMPORT_HUGGINGFACE_H
