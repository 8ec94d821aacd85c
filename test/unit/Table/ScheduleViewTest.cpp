//===- ScheduleViewTest.cpp -----------------------------------------------===//

#include "moe/Table/ScheduleView.h"
#include "SmallTable.h"

#include <gtest/gtest.h>

using namespace moert;

namespace {

TEST(ScheduleView, Expands) {
  Table table = smallTable();
  ScheduleView view(table, 0);
  ASSERT_EQ(view.size(), 7);
  int64_t calls[] = {0, 0, 0, 1, 1, 1, 2};
  for (int64_t i = 0; i < 7; ++i)
    EXPECT_EQ(view.callOf(i), calls[i]);
  EXPECT_EQ(view.firstOpOf(1), 3);
  EXPECT_EQ(view.firstOpOf(3), 7);
  EXPECT_EQ(&view.op(1, 2), &table.templates[0].ops[2]);
  Range range = view.range(1, view.op(1, 1).operands[1]);
  EXPECT_EQ(range.begin, 64);
  EXPECT_EQ(range.end, 72);
}

TEST(ScheduleView, SkipsEmptyCalls) {
  Table table = smallTable();
  table.templates.push_back({});
  table.programs[0].calls.insert(table.programs[0].calls.begin() + 1,
                                 {2, {}, {}, -1, -1, -1, -1});
  ScheduleView view(table, 0);
  EXPECT_EQ(view.callOf(2), 0);
  EXPECT_EQ(view.callOf(3), 2);
}

TEST(ScheduleView, Waits) {
  Table table = smallTable();
  ScheduleView view(table, 0);
  EXPECT_EQ(view.waitedOp(1, {false, 0}), 3);
  EXPECT_EQ(view.waitedOp(2, {true, 0}), 2);
  table.programs[0].calls[2].imports[0].call = -1;
  EXPECT_EQ(view.waitedOp(2, {true, 0}), -1);
}

TEST(ScheduleView, Locations) {
  Table table = smallTable();
  ScheduleView view(table, 0);
  EXPECT_EQ(view.location(1, 0), "layers.1.add mb 0");
  EXPECT_EQ(view.location(2, 0), "layers.1.add mb 3");
  EXPECT_EQ(view.layer(2, 0), 1);
  EXPECT_EQ(view.microBatch(2, 0), 3);
}

} // namespace
