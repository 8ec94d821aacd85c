//===- ImportTesting.h - Configurations and what is said of them ----------===//

#ifndef MOE_TEST_UNIT_IMPORT_IMPORTTESTING_H
#define MOE_TEST_UNIT_IMPORT_IMPORTTESTING_H

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "moe/Import/HuggingFace.h"

#include <nlohmann/json.hpp>

namespace mlir::moe {

/// A small model: hidden 32, 2 layers, 8 experts of width 16, top-2.
inline nlohmann::ordered_json tinyConfig() {
  return {{"model_type", "qwen3_moe"},
          {"hidden_size", 32},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"head_dim", 8},
          {"num_experts", 8},
          {"num_experts_per_tok", 2},
          {"moe_intermediate_size", 16},
          {"vocab_size", 64},
          {"max_position_embeddings", 4096}};
}

/// Collects the messages emitted while it lives.
struct Messages {
  std::vector<std::string> errors, warnings;
  ScopedDiagnosticHandler handler;

  explicit Messages(MLIRContext *context)
      : handler(context, [this](Diagnostic &diag) {
          auto &list = diag.getSeverity() == DiagnosticSeverity::Error
                           ? errors
                           : warnings;
          list.push_back(diag.str());
        }) {}
};

} // namespace mlir::moe

#endif // MOE_TEST_UNIT_IMPORT_IMPORTTESTING_H
