//===- Train.h - Steps of training, as programs print them ----------------===//

#ifndef MOE_RUNTIME_TRAIN_H
#define MOE_RUNTIME_TRAIN_H

#include "moe/Runtime/Engine.h"

namespace moert {

struct TrainingRun {
  uint64_t steps = 1;
  /// Of random weights and tokens.
  uint64_t seed = 0;
  /// Files (.safetensors); empty: none. Tokens: a tensor 'tokens' of
  /// [steps][samples][sequence + 1], used again from the start when steps
  /// exceed them.
  std::string weights, tokens, save, saveGradients;
  /// Print tokens/s, too.
  bool timing = true;
};

/// Empty, or why what is trained could not be saved: to be asked before.
std::string checkOutputs(const TrainingRun &run);

/// Trains, and prints to the standard output, where this is rank 0,
/// `step N loss X grad_norm Y tokens/s Z` for each step. Returns why it ended
/// early (such as a loss that is not finite); empty: all done.
std::string train(Engine &engine, const TrainingRun &run);

} // namespace moert

#endif // MOE_RUNTIME_TRAIN_H
