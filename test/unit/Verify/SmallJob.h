//===- SmallJob.h - A whole job for tests of proofs -----------------------===//
//
// Pipeline stages of layers with experts over `experts` ranks; all forwards,
// then all backwards, then a sharded optimizer. Streams: main, comm, p2p. The
// kernels have the effects of real ones; nothing here runs them.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_UNIT_VERIFY_SMALLJOB_H
#define MOE_TEST_UNIT_VERIFY_SMALLJOB_H

#include "moe/Table/Table.h"

#include <string>

namespace moert::test {

struct JobSize {
  /// `experts`: ranks of a stage; 1, 2 or 4.
  int64_t stages = 2, layers = 2, microBatches = 3, experts = 2;
  /// Bytes that each program leaves free below its buffers.
  int64_t shift = 0;
};

/// Templates of the job, as indices into Table::templates.
enum JobTemplate : uint32_t {
  kBegin,
  kEmbed,
  kForward,
  kHead,
  kBackward,
  kSendForward,
  kReceiveForward,
  kSendBackward,
  kReceiveBackward,
  kOptimizer
};

/// A well-formed table that all proofs accept.
Table smallJob(const JobSize &size = {});

/// First call of a template in a program, -1: none.
int64_t callOf(const Table &table, uint32_t program, uint32_t tmpl,
               int64_t number = 0);
/// Gives one call a copy of its template and returns that copy's index.
uint32_t specialise(Table &table, uint32_t program, int64_t call);

} // namespace moert::test

#endif // MOE_TEST_UNIT_VERIFY_SMALLJOB_H
