//===- PairTest.cpp -------------------------------------------------------===//

#include "moe/Schedule/Pair.h"
#include "RandomTables.h"
#include "moe/Schedule/Dataflow.h"

#include "gtest/gtest.h"

#include <algorithm>

using namespace moert;
using namespace moert::test;

namespace {

System h100() {
  System system;
  std::string error;
  EXPECT_TRUE(parseSystem("h100x4", system, error)) << error;
  return system;
}

Operand at(uint32_t frame, int64_t offset, Effect effect) {
  return {frame, offset, ElementType::F32, {4, 4}, effect};
}

/// One op of a half: what it reads and writes are blocks of frame 1 (block -1:
/// the frame `in`, -2: `out`).
struct Node {
  const char *name, *half, *module;
  bool exchanges;
  int64_t read, write;
};

/// A template with frames in, temp, out over nodes; exchanges are collectives.
Template half(Table &table, const char *name, const char *in, const char *out,
              const std::vector<Node> &nodes) {
  Template tmpl;
  tmpl.name = name;
  tmpl.frames = {{in, FrameKind::Carried, 256},
                 {"temp", FrameKind::Temporary, 4096},
                 {out, FrameKind::Carried, 256}};
  for (const Node &node : nodes) {
    auto operand = [&](int64_t block, Effect effect) {
      if (block == -1)
        return at(0, 0, effect);
      return block == -2 ? at(2, 0, effect) : at(1, block * 256, effect);
    };
    Op op = launch(
        table, kCompute,
        {operand(node.read, Effect::Read), operand(node.write, Effect::Write)});
    if (node.exchanges) {
      op.kind = OpKind::Collective;
      op.collective = CollectiveKind::AllReduceSum;
      op.stream = kComm;
      op.bytes = 1e6;
    }
    op.location = node.name;
    op.half = node.half;
    op.module = node.module;
    tmpl.ops.push_back(op);
  }
  return tmpl;
}

Template forwardHalf(Table &table) {
  return half(table, "fwd", "in", "out",
              {{"attention", "F", "attn", false, -1, 0},
               {"dispatch", "F", "moe_dispatch", true, 0, 1},
               {"experts", "F", "moe_experts", false, 1, 2},
               {"combine", "F", "moe_combine", true, 2, 3},
               {"add", "F", "moe_combine", false, 3, -2}});
}

Template backwardHalf(Table &table) {
  return half(table, "bwd", "dout", "din",
              {{"scatter", "B", "moe_combine", false, -1, 0},
               {"combine_grad", "B", "moe_combine", true, 0, 1},
               {"experts_wgrad", "W", "moe_experts", false, 1, 6},
               {"experts_dgrad", "B", "moe_experts", false, 1, 2},
               {"dispatch_grad", "B", "moe_dispatch", true, 2, 3},
               {"attention_grad", "B", "attn", false, 3, -2}});
}

std::vector<std::string> names(const Template &tmpl,
                               const std::vector<uint32_t> &order) {
  std::vector<std::string> result;
  for (uint32_t i : order)
    result.push_back(tmpl.ops[i].location);
  return result;
}

bool respects(const std::vector<PairProblem::Edge> &edges,
              const std::vector<uint32_t> &order) {
  std::vector<size_t> position(order.size());
  for (size_t i = 0; i < order.size(); ++i)
    position[order[i]] = i;
  return std::all_of(edges.begin(), edges.end(), [&](const auto &edge) {
    return position[edge.from] < position[edge.to];
  });
}

TEST(MergeTemplates, KeepsHalvesApart) {
  Table table = emptyTable();
  Template forward = forwardHalf(table), backward = backwardHalf(table);
  backward.ops[2].waits = {{false, 1}};
  Template pair = mergeTemplates(forward, backward);
  EXPECT_EQ(pair.name, "pair_fwd_bwd");
  ASSERT_EQ(pair.frames.size(), 6u);
  EXPECT_EQ(pair.frames[0].name, "f.in");
  EXPECT_EQ(pair.frames[3].name, "b.dout");
  ASSERT_EQ(pair.ops.size(), 11u);
  EXPECT_EQ(pair.ops[5].operands[0].frame, 3u);
  EXPECT_TRUE(pair.ops[7].waits.empty());
  // No op of one half depends on the other.
  for (const PairProblem::Edge &edge : dependences(pair))
    EXPECT_EQ(edge.from < 5, edge.to < 5);
}

TEST(FormUnits, ConsecutiveLaunchesOfCapturedModules) {
  Table table = emptyTable();
  Template forward = half(table, "fwd", "in", "out",
                          {{"norm", "F", "norm", false, -1, 0},
                           {"scores", "F", "moe_router", false, 0, 1},
                           {"route", "F", "moe_router", false, 1, 2},
                           {"counts", "F", "moe_router", true, 2, 3},
                           {"again", "F", "moe_router", false, 2, -2}});
  EXPECT_EQ(formUnits(forward, {"moe_router"}),
            (std::vector<Unit>{{0}, {1, 2}, {3}, {4}}));
  EXPECT_EQ(formUnits(forward, {}).size(), 5u);
  // Two halves are never one graph.
  Template backward = half(table, "bwd", "dout", "din",
                           {{"route_grad", "B", "moe_router", false, -1, -2}});
  EXPECT_EQ(formUnits(mergeTemplates(forward, backward), {"moe_router"}),
            (std::vector<Unit>{{0}, {1, 2}, {3}, {4}, {5}}));
}

// Of Megatron-LM's combined 1F1B: each exchange of one half is issued before
// the computation of the other that hides it, and weight gradients wait for
// the exchange after them.
TEST(MegatronOrder, HidesEachHalfBehindTheOther) {
  Table table = emptyTable();
  Template pair = mergeTemplates(forwardHalf(table), backwardHalf(table));
  std::vector<uint32_t> order = megatronOrder(pair, formUnits(pair, {}));
  EXPECT_EQ(names(pair, order),
            (std::vector<std::string>{
                "scatter", "combine_grad", "attention", "experts_dgrad",
                "dispatch", "dispatch_grad", "experts_wgrad", "experts",
                "attention_grad", "combine", "add"}));
}

TEST(PairProblem, KnowsStreamsHostAndCarriedValues) {
  Table table = emptyTable();
  Template pair = mergeTemplates(forwardHalf(table), backwardHalf(table));
  System system = h100();
  PairProblem problem = pairProblem(table, pair, formUnits(pair, {}), system);
  EXPECT_EQ(problem.check(), "");
  ASSERT_EQ(problem.ops.size(), 11u);
  EXPECT_EQ(problem.ops[0].stream, static_cast<uint32_t>(kCompute));
  EXPECT_EQ(problem.ops[1].stream, static_cast<uint32_t>(kComm));
  for (const PairProblem::Op &op : problem.ops)
    EXPECT_GT(op.host, 0) << op.name;
  // out of one pair is in of the next; so are din and dout.
  EXPECT_EQ(problem.carried, (std::vector<PairProblem::Edge>{{4, 0}, {10, 5}}));
  // As a graph two launches cost the host one.
  Template forward = half(table, "fwd", "in", "out",
                          {{"scores", "F", "moe_router", false, -1, 0},
                           {"route", "F", "moe_router", false, 0, -2}});
  PairProblem graph =
      pairProblem(table, forward, formUnits(forward, {"moe_router"}), system);
  ASSERT_EQ(graph.ops.size(), 1u);
  EXPECT_EQ(graph.ops[0].host, system.hostGraph);
}

TEST(ScheduleTemplate, NeverWorseThanMegatronAndNeverBelowTheBound) {
  Table table = emptyTable();
  Template pair = mergeTemplates(forwardHalf(table), backwardHalf(table));
  Template before = pair;
  std::string error;
  OrderReport report = scheduleTemplate(table, pair, {}, h100(), error);
  EXPECT_EQ(error, "");
  EXPECT_LE(report.chosen, report.megatron * (1 + 1e-9));
  EXPECT_GE(report.chosen, report.bound * (1 - 1e-9));
  // The same ops, in an order that their dependences permit.
  std::vector<uint32_t> order;
  for (const Op &op : pair.ops)
    for (uint32_t i = 0; i < before.ops.size(); ++i)
      if (before.ops[i].location == op.location &&
          before.ops[i].half == op.half)
        order.push_back(i);
  ASSERT_EQ(order.size(), before.ops.size());
  EXPECT_TRUE(respects(dependences(before), order));
}

TEST(ScheduleTemplate, CapturesAreContiguous) {
  Table table = emptyTable();
  Template pair = mergeTemplates(forwardHalf(table), backwardHalf(table));
  std::string error;
  scheduleTemplate(table, pair, {"moe_experts", "attn"}, h100(), error);
  EXPECT_EQ(error, "");
  // attention, experts; experts_wgrad with experts_dgrad; attention_grad.
  ASSERT_EQ(pair.captures.size(), 4u);
  std::vector<int32_t> runs;
  for (const Op &op : pair.ops) {
    EXPECT_EQ(op.capture >= 0,
              op.module == "moe_experts" || op.module == "attn" ? true : false)
        << op.location;
    if (op.capture >= 0 && (runs.empty() || runs.back() != op.capture))
      runs.push_back(op.capture);
  }
  EXPECT_EQ(runs, (std::vector<int32_t>{0, 1, 2, 3}));
}

// Any template: the order is one of its orders.
TEST(ScheduleTemplate, RandomTemplatesKeepTheirDependences) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 10; ++trial) {
    Table table = emptyTable();
    Template forward = randomTemplate(table, random, 4 + random() % 8);
    Template backward = randomTemplate(table, random, 4 + random() % 8);
    for (Op &op : backward.ops)
      op.half = "B";
    Template pair = mergeTemplates(forward, backward);
    for (uint32_t i = 0; i < pair.ops.size(); ++i)
      pair.ops[i].location = std::to_string(i);
    Template before = pair;
    std::string error;
    OrderReport report = scheduleTemplate(table, pair, {}, h100(), error);
    EXPECT_EQ(error, "") << trial;
    EXPECT_LE(report.chosen, report.megatron * (1 + 1e-9)) << trial;
    std::vector<uint32_t> order;
    for (const Op &op : pair.ops)
      order.push_back(std::stoul(op.location));
    EXPECT_TRUE(respects(dependences(before), order)) << trial;
  }
}

} // namespace
