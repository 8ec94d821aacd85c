//===- Bounds.h - What no order can beat ----------------------------------===//
//
// Computed from the problem alone; no schedule is read or made.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_SCHEDULE_BOUNDS_H
#define MOE_SCHEDULE_BOUNDS_H

#include "moe/Schedule/Problem.h"

namespace moert {

/// Lower bounds on the makespan of some repetitions.
struct PairBounds {
  /// Largest sum of seconds on one stream; sum of host seconds.
  double stream = 0, host = 0;
  /// Longest chain of edges and carried edges, with the host's work before it.
  double path = 0;
  /// Over the streams and the host: the optimum of the machine alone, with
  /// preemption, where each op has the head and tail that paths give it
  /// (Jackson's rule). At least as large as the others.
  double oneMachine = 0;

  double best() const;
};

PairBounds lowerBounds(const PairProblem &problem, uint32_t repeats = 1);

} // namespace moert

#endif // MOE_SCHEDULE_BOUNDS_H
