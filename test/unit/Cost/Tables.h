//===- Tables.h - Small tables to price -----------------------------------===//

#ifndef MOE_TEST_UNIT_COST_TABLES_H
#define MOE_TEST_UNIT_COST_TABLES_H

#include "moe/Cost/Simulate.h"

#include "gtest/gtest.h"

namespace moert {

/// A machine of round numbers: a kernel takes its bytes as seconds, a
/// collective of two its bytes over NVLink or a tenth over the network; no
/// contention and no host time unless set.
inline System plainSystem() {
  System s;
  s.name = "plain";
  s.gpus = 64;
  s.gpusPerDomain = 8;
  s.memoryBandwidth = s.peakF32 = s.peakBF16 = 1;
  s.nvlink = s.nvlinkAllReduce = 0.5;
  s.network = 0.05;
  s.sms = 100;
  return s;
}

/// Builds a table of one template a program; ops are given by seconds.
struct TableBuilder {
  Table table;

  TableBuilder() {
    table.streams = {{"compute", 0}, {"comm", 0}, {"comm2", 0}};
    table.communicators = {{"ep", 2, 1, 0}, {"pp", 2, 8, 0}};
    table.ranks = 8;
  }

  Template &program(const std::string &name, int64_t repeats = 1) {
    uint32_t index = static_cast<uint32_t>(table.programs.size());
    Program program;
    program.name = name;
    program.firstRank = 8 * index;
    program.rankCount = 8;
    for (int64_t i = 0; i < repeats; ++i) {
      Call call;
      call.tmpl = index;
      call.layer = 0;
      call.microBatch = i;
      program.calls.push_back(call);
    }
    table.programs.push_back(program);
    table.ranks = 8 * (index + 1);
    table.templates.emplace_back();
    table.templates.back().name = name;
    return table.templates.back();
  }

  uint32_t kernel(double seconds, const std::string &op = "add") {
    Kernel kernel;
    kernel.name = op;
    kernel.op = op;
    kernel.bytes = seconds;
    table.kernels.push_back(kernel);
    return static_cast<uint32_t>(table.kernels.size() - 1);
  }

  Op &launch(Template &tmpl, double seconds, std::vector<uint32_t> waits = {},
             uint32_t stream = 0) {
    Op op;
    op.kernel = kernel(seconds);
    return append(tmpl, op, stream, waits);
  }
  Op &collective(Template &tmpl, double seconds,
                 std::vector<uint32_t> waits = {}, uint32_t stream = 1,
                 uint32_t communicator = 0) {
    Op op;
    op.kind = OpKind::Collective;
    op.bytes = seconds;
    op.communicator = communicator;
    return append(tmpl, op, stream, waits);
  }
  Op &sendOrRecv(Template &tmpl, OpKind kind, int32_t peer, double bytes,
                 std::vector<uint32_t> waits = {}, uint32_t stream = 1) {
    Op op;
    op.kind = kind;
    op.communicator = 1;
    op.peer = peer;
    op.bytes = bytes;
    return append(tmpl, op, stream, waits);
  }
  Op &append(Template &tmpl, Op op, uint32_t stream,
             const std::vector<uint32_t> &waits) {
    op.stream = stream;
    for (uint32_t wait : waits)
      op.waits.push_back({false, wait});
    op.location = "op" + std::to_string(tmpl.ops.size()) + " mb {mb}";
    tmpl.ops.push_back(op);
    return tmpl.ops.back();
  }
};

inline Simulation simulated(const Table &table, const System &system) {
  Simulation result;
  std::string error;
  EXPECT_TRUE(simulate(table, system, true, result, error)) << error;
  for (const ProgramTimes &t : result.programs) {
    // Every moment is booked once.
    EXPECT_NEAR(t.compute + t.exposed + t.host + t.bubble + t.copy,
                result.makespan, 1e-9 * result.makespan);
    EXPECT_LE(t.exposed, t.communication * (1 + 1e-12));
  }
  double bound = stepLowerBound(table, system).best();
  EXPECT_LE(bound, result.makespan * (1 + 1e-9));
  return result;
}

} // namespace moert

#endif // MOE_TEST_UNIT_COST_TABLES_H
