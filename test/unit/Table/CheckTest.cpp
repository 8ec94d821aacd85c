//===- CheckTest.cpp ------------------------------------------------------===//

#include "SmallTable.h"

#include <gtest/gtest.h>

#include <functional>

using namespace moert;

namespace {

/// The problems after one edit, joined.
std::string after(const std::function<void(Table &)> &edit) {
  Table table = smallTable();
  edit(table);
  std::string all;
  for (const std::string &problem : checkTable(table))
    all += problem + "\n";
  return all;
}

#define EXPECT_PROBLEM(text, ...)                                              \
  EXPECT_NE(after([](Table &t) { __VA_ARGS__; }).find(text),                   \
            std::string::npos)                                                 \
      << after([](Table &t) { __VA_ARGS__; })

TEST(Check, SmallTableIsWellFormed) {
  EXPECT_EQ(after([](Table &) {}), "");
}

TEST(Check, Job) {
  EXPECT_PROBLEM("unknown version", t.version = 2);
  EXPECT_PROBLEM("ranks: must be", t.ranks = 0);
  EXPECT_PROBLEM("at least 1", t.communicators[0].size = 0);
  EXPECT_PROBLEM("must divide the number of ranks",
                 t.communicators[0].size = 3);
  EXPECT_PROBLEM("must divide", t.communicators[0].stride = INT64_MAX);
  EXPECT_PROBLEM("finite", t.kernels[0].attributes["eps"] = 1.0 / 0.0);
}

TEST(Check, Operands) {
  EXPECT_PROBLEM("template 'forward', op 0 (layers.{i}.add mb {mb}): frame 9",
                 t.templates[0].ops[0].operands[0].frame = 9);
  EXPECT_PROBLEM("leaves its frame",
                 t.templates[0].ops[0].operands[0].offset = 52);
  EXPECT_PROBLEM("leaves its frame",
                 t.templates[0].ops[0].operands[0].offset = -4);
  EXPECT_PROBLEM("bad shape", t.templates[0].ops[0].operands[0].shape = {
                                  INT64_MAX, INT64_MAX});
  EXPECT_PROBLEM("misaligned", t.templates[0].ops[0].operands[0].offset = 2);
  EXPECT_PROBLEM("writes a host frame",
                 t.templates[0].ops[0].operands[2] = {
                     1, 0, ElementType::I32, {2}, Effect::Write});
  EXPECT_PROBLEM("has 2 operands, must have 3",
                 t.templates[0].ops[0].operands.pop_back());
  EXPECT_PROBLEM("operand 0 has the wrong effect",
                 t.templates[0].ops[0].operands[0].effect = Effect::Write);
}

TEST(Check, Ops) {
  EXPECT_PROBLEM("stream 7", t.templates[0].ops[0].stream = 7);
  EXPECT_PROBLEM("kernel 3", t.templates[0].ops[0].kernel = 3);
  EXPECT_PROBLEM("communicator 3", t.templates[0].ops[2].communicator = 3);
  EXPECT_PROBLEM("comes later", t.templates[0].ops[1].waits[0].index = 1);
  EXPECT_PROBLEM("import 1", t.templates[1].ops[0].waits[0].index = 1);
  EXPECT_PROBLEM("capture 2", t.templates[1].ops[0].capture = 2);
  EXPECT_PROBLEM("not consecutive", Template &f = t.templates[0];
                 f.captures = {{"g"}}; f.ops[0].capture = f.ops[2].capture = 0);
  EXPECT_PROBLEM("must write a host frame",
                 t.templates[0].ops[1].operands[1].frame = 0);
  EXPECT_PROBLEM("different sizes",
                 t.templates[0].ops[1].operands[1].shape = {1});
}

TEST(Check, Collectives) {
  EXPECT_PROBLEM("rows differ in width",
                 t.templates[0].ops[2].operands[0].shape = {2, 2});
  EXPECT_PROBLEM("counts must be i32",
                 t.templates[0].ops[2].operands[1].type = ElementType::F32);
  EXPECT_PROBLEM("must be in a host frame",
                 t.templates[0].ops[2].operands[1].frame = 0);
  EXPECT_PROBLEM("must divide the counts",
                 t.templates[0].ops[2].operands[1].shape = {1});
  EXPECT_PROBLEM("the flag must be one i32",
                 t.templates[0].ops[2].operands[3].type = ElementType::F32);
  auto two = [](CollectiveKind kind, int64_t read, int64_t written) {
    return after([&](Table &t) {
      Op &op = t.templates[0].ops[2];
      op.collective = kind;
      op.operands = {{0, 0, ElementType::F32, {read}, Effect::Read},
                     {0, 32, ElementType::F32, {written}, Effect::Write}};
    });
  };
  EXPECT_EQ(two(CollectiveKind::AllReduceSum, 4, 4), "");
  EXPECT_NE(two(CollectiveKind::AllReduceSum, 4, 2), "");
  EXPECT_NE(two(CollectiveKind::AllReduceMax, 4, 4), "");
  EXPECT_EQ(two(CollectiveKind::ReduceScatter, 4, 2), "");
  EXPECT_NE(two(CollectiveKind::ReduceScatter, 4, 4), "");
  EXPECT_EQ(two(CollectiveKind::AllGather, 2, 4), "");
  EXPECT_NE(two(CollectiveKind::AllGather, 4, 4), "");
  EXPECT_NE(two(CollectiveKind::ExchangeCounts, 4, 4), "");
}

TEST(Check, Peers) {
  EXPECT_PROBLEM("its peer is outside of the group",
                 Op &op = t.templates[0].ops[2];
                 op.kind = OpKind::Send; op.peer = 1; op.operands.resize(1));
  EXPECT_PROBLEM("is its own peer", Op &op = t.templates[0].ops[2];
                 op.kind = OpKind::Send; op.peer = 0; op.operands.resize(1));
}

TEST(Check, Programs) {
  EXPECT_PROBLEM("template 5", t.programs[0].calls[0].tmpl = 5);
  EXPECT_PROBLEM("call 0 of 'forward': binds 2 frames of 3",
                 t.programs[0].calls[0].bases.pop_back());
  EXPECT_PROBLEM("frame 'x' leaves the arena",
                 t.programs[0].calls[1].bases[0] = 256);
  EXPECT_PROBLEM("binds 0 imports of 1",
                 t.programs[0].calls[2].imports.clear());
  EXPECT_PROBLEM("not earlier", t.programs[0].calls[2].imports[0].call = 2);
  EXPECT_PROBLEM("does not exist", t.programs[0].calls[2].imports[0].op = 3);
  EXPECT_PROBLEM("tokens leaves", t.programs[0].tokens = 256);
  EXPECT_PROBLEM("bad ranks", t.programs[0].rankCount = 3);
  EXPECT_PROBLEM("rank 1 has no program", t.programs[0].rankCount = 1);
  EXPECT_PROBLEM("has a rank that 'p' has, too",
                 t.programs.push_back(t.programs[0]));
}

TEST(Check, Parameters) {
  EXPECT_PROBLEM("parameter 'w0': value leaves",
                 t.programs[0].parameters[0].address = 250);
  EXPECT_PROBLEM("gradient leaves", t.programs[0].parameters[0].gradient = -1);
  EXPECT_PROBLEM("communicator 4", t.programs[0].parameters[0].shardedOver = 4);
  EXPECT_PROBLEM("do not fill the local one",
                 t.programs[0].parameters[0].shape = {4, 2});
  EXPECT_PROBLEM("multiple of the group's size",
                 t.programs[0].parameters[0].names.pop_back());
  EXPECT_PROBLEM("has no name", t.programs[0].parameters[0].names.clear());
  EXPECT_PROBLEM("at different places",
                 t.programs[0].parameters[0].address = 100);
  EXPECT_PROBLEM("bucket 'b': bad number of elements",
                 t.programs[0].buckets[0].elements = 3);
  EXPECT_PROBLEM("'w0' leaves it", t.programs[0].buckets[0].elements = 2);
}

TEST(Check, AtMostTwentyProblems) {
  Table table = smallTable();
  // The last of many faults is one that later checks would trip over.
  Program &p = table.programs[0];
  for (int i = 0; i < 100; ++i)
    p.calls.push_back({1, {256}, {{0, 9}}, -1, -1, -1, -1});
  p.parameters[0].names.clear();
  EXPECT_EQ(checkTable(table).size(), 20u);
  p.calls.push_back({7, {}, {}, -1, -1, -1, -1});
  EXPECT_EQ(checkTable(table).size(), 1u);
}

} // namespace
