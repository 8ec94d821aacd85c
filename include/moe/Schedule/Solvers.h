//===- Solvers.h - Orders of issue ----------------------------------------===//
//
// All are deterministic and bounded by counts, never by a clock.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_SCHEDULE_SOLVERS_H
#define MOE_SCHEDULE_SOLVERS_H

#include "moe/Schedule/Problem.h"

namespace moert {

/// List scheduling: of the ops that may run next, the one with the longest
/// path behind it. The problem must be valid (check()).
Schedule listSchedule(const PairProblem &problem, uint32_t repeats = 1);

struct SearchOptions {
  /// Repetitions that the objective, the makespan, is taken over.
  uint32_t repeats = 1;
  /// Times of orders computed, at most.
  uint32_t evaluations = 6000;
  /// Of the perturbations between descents.
  uint64_t seed = 1;
};

/// Local search by re-insertion, from each incumbent and from the list
/// schedule; never worse than the best incumbent. Stops early at the lower
/// bound. Incumbents must respect edges and issueEdges; one that doesn't is an
/// error (empty order, `error` says which).
Schedule search(const PairProblem &problem,
                const std::vector<std::vector<uint32_t>> &incumbents,
                const SearchOptions &options, std::string &error);

/// The optimum by branch and bound over orders. False if it would take more
/// than `nodes` nodes. For about ten ops.
bool solveExactly(const PairProblem &problem, uint32_t repeats, uint64_t nodes,
                  Schedule &result);

} // namespace moert

#endif // MOE_SCHEDULE_SOLVERS_H
