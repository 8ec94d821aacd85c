//===- Dataflow.h - Dependences and order of a template's ops -------------===//

#ifndef MOE_SCHEDULE_DATAFLOW_H
#define MOE_SCHEDULE_DATAFLOW_H

#include "moe/Schedule/Problem.h"
#include "moe/Table/Table.h"

namespace moert {

/// Pairs (i, j), i before j, of ops of which one writes bytes of a frame that
/// the other uses, or of which i is a host read and j uses what it reads: the
/// host may launch j by it. The overflow flag is no reason: all-to-alls only
/// raise it, in any order.
std::vector<PairProblem::Edge> dependences(const Template &tmpl);

/// Brings the ops into `order` (a permutation that respects dependences).
/// Waits are dropped: assignEvents makes them anew.
void reorder(Template &tmpl, const std::vector<uint32_t> &order);

/// Gives the buffers of the temporary frames offsets that share bytes where
/// one is done before the other begins, on whatever stream: by streams, host
/// reads and the events that dependences ask for. Ranges that overlap before
/// stay one buffer.
void packTemporaries(Template &tmpl, uint32_t streams);

} // namespace moert

#endif // MOE_SCHEDULE_DATAFLOW_H
