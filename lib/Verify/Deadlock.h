//===- Deadlock.h - Whether the job comes to its end ----------------------===//

#ifndef MOE_LIB_VERIFY_DEADLOCK_H
#define MOE_LIB_VERIFY_DEADLOCK_H

#include "Flat.h"

namespace moert::verifier {

/// Plays one rank of each program: hosts issue ops and stop at host reads,
/// streams and communicators are queues, a send and its receive, or the members
/// of a collective, are done once all are at the heads of theirs. Collectives
/// and channels must agree. Returns true if everything gets done.
bool proveNoDeadlock(const Table &table,
                     const std::vector<FlatProgram> &programs,
                     const Peers &peers, Faults &faults);

} // namespace moert::verifier

#endif // MOE_LIB_VERIFY_DEADLOCK_H
