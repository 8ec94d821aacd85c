//===- Mutate.h - Plants one fault in a table -----------------------------===//
//
// A tool of tests: what changes a table at random either breaks it, and then
// checkTable or verify must say so, or leaves its results as they are.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_VERIFY_MUTATE_H
#define MOE_VERIFY_MUTATE_H

#include "moe/Table/Table.h"

namespace moert {

/// What was changed. Indices are of the mutated table; -1: not of this kind.
struct Mutation {
  /// "drop-wait", "swap-calls", ...; empty: the table has nothing to change.
  std::string kind;
  std::string description;
  int64_t tmpl = -1, op = -1, otherOp = -1;
  int64_t program = -1, call = -1, otherCall = -1;
};

/// Changes one thing of a well-formed table; the same seed, the same change.
/// The result may be ill-formed (see checkTable). Half of the changes of ops
/// are of one call only, which gets its own copy of the template.
Mutation mutate(Table &table, uint64_t seed);

} // namespace moert

#endif // MOE_VERIFY_MUTATE_H
