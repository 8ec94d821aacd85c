//===- DataflowTest.cpp ---------------------------------------------------===//

#include "moe/Schedule/Dataflow.h"
#include "RandomTables.h"

#include "gtest/gtest.h"

using namespace moert;
using namespace moert::test;

namespace {

using Edges = std::vector<std::pair<uint32_t, uint32_t>>;

Edges edgesOf(const Template &tmpl) {
  Edges edges;
  for (const PairProblem::Edge &edge : dependences(tmpl))
    edges.emplace_back(edge.from, edge.to);
  return edges;
}

Operand at(uint32_t frame, int64_t offset, Effect effect, int64_t n = 4) {
  return {frame, offset, ElementType::F32, {n}, effect};
}

constexpr Effect R = Effect::Read, W = Effect::Write, RW = Effect::ReadWrite;

TEST(Dependences, NeedAWriteOfTheSameBytes) {
  Table table = emptyTable();
  Template tmpl;
  tmpl.frames.resize(2);
  tmpl.ops = {launch(table, 0, {at(0, 0, W)}),
              launch(table, 0, {at(0, 0, R), at(0, 16, W)}),
              launch(table, 1, {at(0, 0, R), at(0, 32, W)}),
              // Another frame, another range: nothing in common.
              launch(table, 1, {at(1, 0, W)}), launch(table, 0, {at(0, 48, W)}),
              // A part of what op 0 wrote and ops 1, 2 read.
              launch(table, 0, {at(0, 12, RW, 1)})};
  EXPECT_EQ(edgesOf(tmpl), (Edges{{0, 1}, {0, 2}, {0, 5}, {1, 5}, {2, 5}}));
}

TEST(Dependences, AllToAllsOnlyRaiseTheFlag) {
  Table table = emptyTable();
  Template tmpl;
  tmpl.frames.resize(2);
  auto exchange = [](int64_t x, int64_t y) {
    Op op;
    op.kind = OpKind::Collective;
    op.operands = {at(0, x, R), at(0, 512, R), at(0, 512, R), at(1, 0, RW, 1),
                   at(0, y, W)};
    return op;
  };
  tmpl.ops = {exchange(0, 64), exchange(128, 192),
              launch(table, 0, {at(1, 0, R, 1), at(0, 256, W)})};
  EXPECT_EQ(edgesOf(tmpl), (Edges{{0, 2}, {1, 2}}));
}

TEST(Dependences, WhatTheHostReadsItMayLaunchBy) {
  Table table = emptyTable();
  Template tmpl;
  tmpl.frames.resize(2);
  Op read;
  read.kind = OpKind::HostRead;
  read.operands = {at(0, 0, R), at(1, 0, W)};
  tmpl.ops = {launch(table, 0, {at(0, 0, W)}),
              launch(table, 0, {at(0, 0, R), at(0, 32, W)}), read,
              launch(table, 0, {at(0, 0, R), at(0, 64, W)}),
              launch(table, 0, {at(0, 16, R), at(0, 96, W)})};
  EXPECT_EQ(edgesOf(tmpl), (Edges{{0, 1}, {0, 2}, {0, 3}, {2, 3}}));
}

TEST(Reorder, MovesOpsAndDropsWaits) {
  Table table = emptyTable();
  Template tmpl;
  tmpl.frames.resize(1);
  tmpl.ops = {launch(table, 0, {at(0, 0, W)}),
              launch(table, 1, {at(0, 64, W)})};
  tmpl.ops[1].waits = {{false, 0}};
  reorder(tmpl, {1, 0});
  ASSERT_EQ(tmpl.ops.size(), 2u);
  EXPECT_EQ(tmpl.ops[0].operands[0].offset, 64);
  EXPECT_EQ(tmpl.ops[1].operands[0].offset, 0);
  EXPECT_TRUE(tmpl.ops[0].waits.empty());
}

/// A chain of `n` buffers of 1 KiB, each made of the one before.
Template chain(Table &table, size_t n, bool alternate) {
  Template tmpl;
  tmpl.frames = {
      {"temp", FrameKind::Temporary, static_cast<int64_t>(n) * 1024}};
  tmpl.ops = {launch(table, 0, {at(0, 0, W, 256)})};
  for (size_t i = 1; i < n; ++i)
    tmpl.ops.push_back(
        launch(table, alternate ? i % 2 : 0,
               {at(0, (i - 1) * 1024, R, 256), at(0, i * 1024, W, 256)}));
  return tmpl;
}

// An op may not write over what it reads, so a chain takes two places, on one
// stream or on two that wait for each other.
TEST(PackTemporaries, ChainTakesTwoPlaces) {
  for (bool alternate : {false, true}) {
    Table table = emptyTable();
    Template tmpl = chain(table, 9, alternate);
    packTemporaries(tmpl, kStreams);
    EXPECT_EQ(tmpl.frames[0].bytes, 2048) << alternate;
  }
}

// Nothing orders two streams that do not use each other's values.
TEST(PackTemporaries, UnorderedStreamsShareNothing) {
  Table table = emptyTable();
  Template tmpl;
  tmpl.frames = {{"temp", FrameKind::Temporary, 4096}};
  for (uint32_t s : {0, 1}) {
    tmpl.ops.push_back(launch(table, s, {at(0, s * 2048, W, 256)}));
    tmpl.ops.push_back(launch(
        table, s, {at(0, s * 2048, R, 256), at(0, s * 2048 + 1024, W, 256)}));
  }
  packTemporaries(tmpl, kStreams);
  EXPECT_EQ(tmpl.frames[0].bytes, 4096);
}

/// What happens before what, from first principles: streams are in order, a
/// dependence orders its ops, a host read holds back all that comes after it.
std::vector<std::vector<bool>> happensBefore(const Template &tmpl) {
  size_t n = tmpl.ops.size();
  std::vector<std::vector<bool>> before(n, std::vector<bool>(n));
  for (size_t i = 0; i < n; ++i)
    for (size_t j = i + 1; j < n; ++j)
      before[i][j] = tmpl.ops[i].stream == tmpl.ops[j].stream ||
                     tmpl.ops[i].kind == OpKind::HostRead;
  for (const PairProblem::Edge &edge : dependences(tmpl))
    before[edge.from][edge.to] = true;
  for (size_t k = 0; k < n; ++k)
    for (size_t i = 0; i < n; ++i)
      for (size_t j = 0; j < n; ++j)
        if (before[i][k] && before[k][j])
          before[i][j] = true;
  return before;
}

/// Whether all uses of one buffer come before all uses of the other.
bool apart(const std::vector<std::vector<bool>> &before,
           const std::vector<size_t> &a, const std::vector<size_t> &b) {
  for (size_t i : a)
    for (size_t j : b)
      if (!before[i][j])
        return false;
  return true;
}

// Two buffers share bytes only if one is dead before the other begins, in any
// order of issue and on any streams.
TEST(PackTemporaries, LiveBuffersNeverOverlap) {
  std::mt19937 random(7);
  int64_t sharing = 0;
  for (int trial = 0; trial < 300; ++trial) {
    Table table = emptyTable();
    Template tmpl = randomTemplate(table, random, 5 + random() % 30);
    reorder(tmpl, randomOrder(tmpl, random));
    std::vector<std::vector<bool>> before = happensBefore(tmpl);
    Template packed = tmpl;
    packTemporaries(packed, kStreams);

    // Old offset -> the place it has now, and the ops that use it.
    struct Use {
      int64_t begin, end;
      std::vector<size_t> ops;
    };
    std::map<int64_t, Use> uses;
    for (size_t i = 0; i < tmpl.ops.size(); ++i)
      for (size_t o = 0; o < tmpl.ops[i].operands.size(); ++o) {
        const Operand &was = tmpl.ops[i].operands[o];
        const Operand &is = packed.ops[i].operands[o];
        EXPECT_EQ(was.shape, is.shape);
        EXPECT_EQ(was.frame, is.frame);
        if (tmpl.frames[was.frame].kind != FrameKind::Temporary) {
          EXPECT_EQ(was.offset, is.offset);
          continue;
        }
        auto [it, added] = uses.try_emplace(
            was.offset, Use{is.offset, is.offset + is.bytes(), {}});
        EXPECT_EQ(it->second.begin, is.offset) << "two places for one buffer";
        it->second.end = std::max(it->second.end, is.offset + is.bytes());
        it->second.ops.push_back(i);
        EXPECT_LE(it->second.end, packed.frames[0].bytes);
      }
    for (auto a = uses.begin(); a != uses.end(); ++a)
      for (auto b = std::next(a); b != uses.end(); ++b) {
        if (a->second.end <= b->second.begin ||
            b->second.end <= a->second.begin)
          continue;
        ++sharing;
        EXPECT_TRUE(apart(before, a->second.ops, b->second.ops) ||
                    apart(before, b->second.ops, a->second.ops))
            << "trial " << trial << ": buffers at " << a->first << " and "
            << b->first;
      }
    EXPECT_LE(packed.frames[0].bytes, tmpl.frames[0].bytes);
  }
  // The property is not an empty one.
  EXPECT_GT(sharing, 100);
}

} // namespace
