//===- EventsTest.cpp -----------------------------------------------------===//

#include "moe/Schedule/Events.h"
#include "RandomTables.h"
#include "moe/Schedule/Dataflow.h"
#include "moe/Verify/Verify.h"

#include "gtest/gtest.h"

using namespace moert;
using namespace moert::test;

namespace {

std::vector<Fault> racesOf(const Table &table) {
  for (const std::string &problem : checkTable(table))
    ADD_FAILURE() << problem;
  VerifyOptions options;
  options.value = false;
  std::vector<Fault> races;
  // Counts are made up here: all-to-alls do not agree, which is no race.
  for (const Fault &fault : verify(table, {}, options).faults)
    if (fault.proof == Proof::Race)
      races.push_back(fault);
  return races;
}

int64_t countWaits(const Table &table) {
  int64_t waits = 0;
  for (const Template &tmpl : table.templates)
    for (const Op &op : tmpl.ops)
      waits += op.waits.size();
  return waits;
}

// Random templates in random orders, temporaries packed: no race, whatever the
// calls share.
TEST(AssignEvents, RandomTablesHaveNoRace) {
  std::mt19937 random(11);
  int64_t waits = 0, races = 0;
  for (int trial = 0; trial < 60; ++trial) {
    Table table = emptyTable();
    for (size_t t = 0, n = 1 + random() % 4; t < n; ++t) {
      Template tmpl = randomTemplate(table, random, 3 + random() % 20);
      reorder(tmpl, randomOrder(tmpl, random));
      packTemporaries(tmpl, kStreams);
      table.templates.push_back(std::move(tmpl));
    }
    std::vector<bool> barriers = addProgram(table, random, 12);
    races += !racesOf(table).empty();
    assignEvents(table, barriers);
    for (const Fault &fault : racesOf(table))
      ADD_FAILURE() << "trial " << trial << ": " << fault.message;
    waits += countWaits(table);

    // Once more: nothing is left of the waits before.
    Table again = table;
    assignEvents(again, barriers);
    EXPECT_EQ(toJson(again), toJson(table));
  }
  // Without the waits most of them do race.
  EXPECT_GT(races, 50);
  EXPECT_GT(waits, 1000);
}

/// A program of `calls`, each a list of launches over slots: (stream, read
/// slot, write slot), -1: none.
struct Step {
  uint32_t stream;
  int64_t read, write;
};

Table tableOf(const std::vector<std::vector<Step>> &calls) {
  Table table = emptyTable();
  Program program;
  program.name = "p";
  program.arenaBytes = 16 * 256;
  for (const std::vector<Step> &steps : calls) {
    Template tmpl;
    tmpl.name = "t" + std::to_string(table.templates.size());
    Call call;
    call.tmpl = table.templates.size();
    for (int64_t i = 0; i < 16; ++i) {
      tmpl.frames.push_back({"s" + std::to_string(i), FrameKind::Carried, 256});
      call.bases.push_back(i * 256);
    }
    for (const Step &step : steps) {
      std::vector<Operand> operands;
      auto add = [&](int64_t slot, Effect effect) {
        if (slot >= 0)
          operands.push_back(
              {static_cast<uint32_t>(slot), 0, ElementType::F32, {4}, effect});
      };
      add(step.read, Effect::Read);
      add(step.write, Effect::Write);
      tmpl.ops.push_back(launch(table, step.stream, operands));
    }
    table.templates.push_back(std::move(tmpl));
    program.calls.push_back(std::move(call));
  }
  table.programs.push_back(std::move(program));
  return table;
}

void assign(Table &table) {
  assignEvents(table, std::vector<bool>(table.templates.size()));
}

TEST(AssignEvents, OneWaitOrdersAllThatFollowOnTheStream) {
  Table table = tableOf({{{0, -1, 0}, {0, -1, 1}, {1, 1, 2}, {1, 0, 3}}});
  assign(table);
  const std::vector<Op> &ops = table.templates[0].ops;
  EXPECT_EQ(ops[2].waits, (std::vector<Wait>{{false, 1}}));
  EXPECT_EQ(countWaits(table), 1);
  EXPECT_TRUE(racesOf(table).empty());
}

TEST(AssignEvents, WaitsReachThroughOtherStreams) {
  // Stream 2 waits for stream 1, which has waited for stream 0.
  Table table = tableOf({{{0, -1, 0}, {1, 0, 1}, {2, 1, 2}, {2, 0, 3}}});
  assign(table);
  EXPECT_EQ(countWaits(table), 2);
  EXPECT_TRUE(racesOf(table).empty());
}

TEST(AssignEvents, CallsImportEvents) {
  // Write after read, and read after write, of an earlier call.
  Table table = tableOf({{{0, -1, 0}}, {{1, 0, 1}}, {{0, -1, 0}}});
  assign(table);
  const Program &program = table.programs[0];
  ASSERT_EQ(program.calls[1].imports.size(), 1u);
  EXPECT_EQ(program.calls[1].imports[0].call, 0);
  ASSERT_EQ(program.calls[2].imports.size(), 1u);
  EXPECT_EQ(program.calls[2].imports[0].call, 1);
  EXPECT_TRUE(racesOf(table).empty());
}

TEST(AssignEvents, NothingIsNeededOnOneStream) {
  Table table = tableOf({{{0, -1, 0}, {0, 0, 1}}, {{0, 1, 0}}});
  assign(table);
  EXPECT_EQ(countWaits(table), 0);
}

// Frames of a barrier may cover others' bytes under another name.
TEST(AssignEvents, BarriersOrderAllCalls) {
  Table table = tableOf({{{0, -1, 0}, {1, -1, 1}}, {{0, -1, 0}}, {{1, -1, 2}}});
  Template &whole = table.templates[1];
  whole.frames[0].bytes = 1024;
  whole.ops[0].operands[0].shape = {256};
  assignEvents(table, {false, true, false});
  EXPECT_TRUE(racesOf(table).empty());
  assignEvents(table, {false, false, false});
  EXPECT_FALSE(racesOf(table).empty());
}

} // namespace
