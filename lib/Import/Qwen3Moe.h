//===- Qwen3Moe.h - The qwen3_moe family ----------------------------------===//

#ifndef MOE_LIB_IMPORT_QWEN3MOE_H
#define MOE_LIB_IMPORT_QWEN3MOE_H

#include "ConfigReader.h"
#include "dialects/Moe/MoeAttrs.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "moe/Import/HuggingFace.h"

namespace mlir::moe {

/// What a qwen3_moe configuration says, named as there.
struct Qwen3MoeConfig {
  int64_t hiddenSize, layers, heads, kvHeads, headDim, experts, expertsPerToken,
      expertWidth, vocabulary, maxPositions;
  double normEps, ropeTheta, initializerRange;
  bool normalizeTopK, tiedEmbeddings;
  ElementKind elementKind;

  /// Reads all keys of the family. Errors are the reader's.
  static Qwen3MoeConfig read(ConfigReader &reader,
                             std::optional<ElementKind> elementKind);
  /// As the module's `moe.config`.
  DictionaryAttr toAttribute(Builder &builder) const;
};

/// Error if a tensor of the model has more elements than can be counted.
LogicalResult checkSizes(ConfigReader &reader, const Qwen3MoeConfig &config,
                         LayoutAttr layout);

/// Fills an empty module with the model.
void buildQwen3Moe(ModuleOp module, const Qwen3MoeConfig &config,
                   LayoutAttr layout);

} // namespace mlir::moe

#endif // MOE_LIB_IMPORT_QWEN3MOE_H
