//===- Parameters.h - Stored tensors and the optimizer --------------------===//

#ifndef MOE_LIB_INTERPRET_PARAMETERS_H
#define MOE_LIB_INTERPRET_PARAMETERS_H

#include "Evaluate.h"

namespace mlir::moe {

/// The parameters of a program by stored name, with their optimizer state.
class Parameters {
public:
  /// Adds those of a layer applied with `index`. Fails for a name with two
  /// shapes and for a distribution that has no meaning here.
  LogicalResult declare(ParamOp param, int64_t index, const Grid &grid);

  const std::vector<std::string> &names() const { return order; }
  const StoredTensor *find(StringRef name) const;
  void set(StringRef name, ArrayRef<double> values);
  /// A name without a value; empty: all have one.
  std::string unset() const;
  void initialize(uint64_t seed, double deviation);

  /// Each rank's local tensor.
  RankTensors local(ParamOp param, int64_t index, const Grid &grid) const;

  void zeroGradients();
  /// Adds what the ranks summed for a parameter to the whole gradients.
  void addGradient(ParamOp param, Value sum, const RankTensors &values,
                   int64_t index, const Grid &grid);
  const std::map<std::string, StoredTensor> &gradients() const { return grads; }
  double gradNorm() const;
  /// AdamW; resets nothing of the gradients.
  void update(OptimizerOp optimizer);

private:
  struct Entry {
    StoredTensor value, moment1, moment2;
    Type element;
    Init init;
    bool isSet = false;
  };

  std::vector<std::string> order;
  std::map<std::string, Entry> entries;
  std::map<std::string, StoredTensor> grads;
  int64_t steps = 0;
};

} // namespace mlir::moe

#endif // MOE_LIB_INTERPRET_PARAMETERS_H
