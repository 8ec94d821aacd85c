//===- Interpreter.h - Executes model, spmd and training IR ---------------===//
//
// The reference for what a program means. Arithmetic is f64; each result is
// rounded to its IR type. All ranks of a stage run in lockstep: a value is one
// tensor per rank. Shares no kernel with the host engine.
//
// Rows that a ragged tensor does not use are NaN, so that reading one shows.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_INTERPRET_INTERPRETER_H
#define MOE_INTERPRET_INTERPRETER_H

#include "dialects/Moe/MoeOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "moe/Runtime/Engine.h"

#include <memory>

namespace mlir::moe {

/// One rank's value: a tensor, or the counts of a `!moe.rows` value. Integers
/// are held exactly.
struct Tensor {
  std::vector<int64_t> shape;
  std::vector<double> values;

  int64_t dim(unsigned i) const { return shape[i]; }
  int64_t rows() const { return shape[0]; }
  /// Elements of an index of dimension 0.
  int64_t width() const { return values.size() / std::max<int64_t>(rows(), 1); }
  double *row(int64_t i) { return values.data() + i * width(); }
  const double *row(int64_t i) const { return values.data() + i * width(); }
};

/// A value: one tensor per rank of the stage's grid.
using RankTensors = std::vector<Tensor>;

/// A stored (Hugging Face) tensor.
struct StoredTensor {
  std::vector<int64_t> shape;
  std::vector<double> values;
};

struct InterpretedStep {
  /// Mean over the tokens of the global batch, before the update.
  double loss = 0;
  /// Of the whole gradient, before clipping.
  double gradNorm = 0;
};

/// Errors go to the context's diagnostics, at the op.
class Interpreter {
public:
  /// The module must outlive the interpreter, in phase model, spmd or training.
  static FailureOr<std::unique_ptr<Interpreter>> create(ModuleOp module);
  ~Interpreter();

  /// Stored names, in order of first appearance in the layers.
  std::vector<std::string> parameterNames() const;
  /// Current value, f32 master for an f32 or bf16 parameter; null: no such.
  const StoredTensor *parameter(StringRef name) const;
  /// Sets one parameter; fails if there is none of this name and shape.
  LogicalResult setParameter(StringRef name, ArrayRef<int64_t> shape,
                             ArrayRef<double> values);
  /// Sets all parameters; fails if one is missing or misfits.
  LogicalResult setParameters(const std::vector<moert::NamedTensor> &tensors);
  /// Starts like Engine::initialize: equal seeds, equal values.
  LogicalResult initialize(uint64_t seed);

  /// Tokens of a step, as Engine::step takes them.
  int64_t tokenCount() const;
  /// The tokens that Engine::randomTokens gives.
  FailureOr<std::vector<int32_t>> randomTokens(uint64_t seed,
                                               int64_t step) const;

  /// Loss of [samples of the global batch][sequence + 1] tokens.
  FailureOr<double> forward(ArrayRef<int32_t> tokens);
  /// A training step (phase training only). Commits nothing if it fails.
  FailureOr<InterpretedStep> step(ArrayRef<int32_t> tokens);
  /// Whole gradients of the last step, before the optimizer clips.
  const std::map<std::string, StoredTensor> &gradients() const;

  /// Runs a layer with `{i}` = `index`: its results, then what its
  /// moe.backward, if it has one, saves.
  LogicalResult runLayer(LayerOp layer, int64_t index,
                         ArrayRef<RankTensors> arguments,
                         std::vector<RankTensors> &results,
                         std::vector<RankTensors> &saved);
  /// Runs a layer's backward: gives the cotangents of its float arguments and
  /// adds to `grads`, one per moe.grad, in their order.
  LogicalResult runBackward(LayerOp layer, int64_t index,
                            ArrayRef<RankTensors> cotangents,
                            ArrayRef<RankTensors> saved,
                            std::vector<RankTensors> &results,
                            std::vector<RankTensors> &grads);

private:
  struct Impl;
  explicit Interpreter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace mlir::moe

#endif // MOE_INTERPRET_INTERPRETER_H
