//===- RandomTables.h - Tables with random templates ----------------------===//

#ifndef MOE_TEST_UNIT_SCHEDULE_RANDOMTABLES_H
#define MOE_TEST_UNIT_SCHEDULE_RANDOMTABLES_H

#include "moe/Table/Table.h"

#include <random>

namespace moert::test {

/// Streams of the tables: launches run on any, collectives and host reads on
/// the second.
inline constexpr uint32_t kStreams = 3;

/// A table on one rank without templates or programs.
Table emptyTable();

/// Index of a kernel with these effects, added if there is none.
uint32_t kernelOf(Table &table, const std::vector<Effect> &effects);

/// A launch over `operands`.
Op launch(Table &table, uint32_t stream, std::vector<Operand> operands);

/// A template of about `ops` random ops: launches, some of which add to what
/// is there, host reads, all-to-alls over the flag. It has a temporary frame,
/// frames of carried values, the host's frame and the flag. Every read is of
/// something written before it in the template or carried into it.
Template randomTemplate(Table &table, std::mt19937 &random, size_t ops);

/// An order of ops that respects the template's dependences.
std::vector<uint32_t> randomOrder(const Template &tmpl, std::mt19937 &random);

/// Adds to the table a program that calls its templates in random order, with
/// carried frames at random slots; before and after, a template that writes
/// (reads) all slots. Returns which templates those two are, by index, as
/// assignEvents wants them.
std::vector<bool> addProgram(Table &table, std::mt19937 &random, size_t calls);

} // namespace moert::test

#endif // MOE_TEST_UNIT_SCHEDULE_RANDOMTABLES_H
