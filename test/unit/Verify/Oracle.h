//===- Oracle.h - What a table computes, in some order --------------------===//

#ifndef MOE_TEST_UNIT_VERIFY_ORACLE_H
#define MOE_TEST_UNIT_VERIFY_ORACLE_H

#include "moe/Table/Table.h"

namespace moert::test {

/// Runs all ranks of a well-formed table symbolically, op by op, each time any
/// op that host, streams, events and peers permit, chosen by `seed`. Shares
/// nothing with verify but hashes and ValueMap. Collectives depend on the
/// operands of all members. Returns one text per rank and final range, in a
/// fixed order; "deadlock" if nothing can run before the end.
std::vector<std::string> runInSomeOrder(const Table &table, uint64_t seed);

} // namespace moert::test

#endif // MOE_TEST_UNIT_VERIFY_ORACLE_H
