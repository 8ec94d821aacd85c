//===- StandIn.h - Ranks of the CUDA engine on the stand-in ---------------===//

#ifndef MOE_TEST_UNIT_CUDA_STANDIN_H
#define MOE_TEST_UNIT_CUDA_STANDIN_H

#include "moe/Runtime/CudaEngine.h"

#include <string>
#include <vector>

namespace moert::test {

/// What some steps of training leave.
struct Outcome {
  /// Loss and norm of each step.
  std::vector<float> steps;
  /// Of the last step.
  std::vector<NamedTensor> gradients;
};

/// Two steps from weights and tokens of seed 1. Returns what goes wrong, or
/// nothing. All processes of the job make this call.
std::string train(Engine &engine, Outcome &outcome);

/// The same on the stand-in in the order of `seed`, with a new process for each
/// rank of the table. `outcome` has its sizes already; `twins` is a library of
/// twins of the kernels in `image`. Nothing of CUDA may have been called in
/// this process. Returns what ranks say is wrong.
std::string trainOnStandIn(const Table &table, const std::string &image,
                           const std::string &twins, uint64_t seed,
                           Outcome &outcome);

} // namespace moert::test

#endif // MOE_TEST_UNIT_CUDA_STANDIN_H
