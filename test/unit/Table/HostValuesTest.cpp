// What the host knows of device memory: counts that it read, sums of them, and
// nothing of what was written since. A program whose products take rows that it
// does not know is found before it runs.

#include "moe/Table/HostValues.h"
#include "gtest/gtest.h"

using namespace moert;

namespace {

// Counts of 2 ranks for 3 experts at [0, 24), rows of 3 experts at [64, 76).
constexpr Range kCounts{0, 24}, kRows{64, 76};
const int32_t kRead[] = {1, 2, 3, 10, 20, 30};
const std::vector<int32_t> kSums = {11, 22, 33};

TEST(HostValues, RowsOfCountsReadBefore) {
  HostValues values;
  EXPECT_EQ(values.find(kCounts), nullptr);
  values.set(kCounts, kRead);
  values.derive(kCounts, 2, kRows);
  ASSERT_NE(values.find(kRows), nullptr);
  EXPECT_EQ(*values.find(kRows), kSums);
  // The counts' memory is used again: the rows stay what they were.
  values.overwrite({8, 12});
  EXPECT_EQ(values.find(kCounts), nullptr);
  ASSERT_NE(values.find(kRows), nullptr);
  EXPECT_EQ(*values.find(kRows), kSums);
}

TEST(HostValues, RowsOfCountsReadLater) {
  HostValues values;
  values.derive(kCounts, 2, kRows);
  EXPECT_EQ(values.find(kRows), nullptr);
  values.set(kCounts, kRead);
  ASSERT_NE(values.find(kRows), nullptr);
  EXPECT_EQ(*values.find(kRows), kSums);
}

TEST(HostValues, CountsWrittenBetween) {
  HostValues values;
  values.derive(kCounts, 2, kRows);
  // Other counts, of the next micro-batch: not those of the rows.
  values.overwrite(kCounts);
  values.set(kCounts, kRead);
  EXPECT_EQ(values.find(kRows), nullptr);
  ASSERT_NE(values.find(kCounts), nullptr);
}

TEST(HostValues, OverwrittenInPart) {
  for (Range range :
       {Range{60, 65}, Range{75, 80}, Range{68, 72}, kRows, Range{0, 100}}) {
    HostValues values;
    values.set(kCounts, kRead);
    values.derive(kCounts, 2, kRows);
    values.overwrite(range);
    EXPECT_EQ(values.find(kRows), nullptr) << range.begin;
  }
  HostValues values;
  values.set(kCounts, kRead);
  values.derive(kCounts, 2, kRows);
  values.overwrite({24, 64});
  values.overwrite({76, 100});
  EXPECT_NE(values.find(kRows), nullptr);
}

TEST(HostValues, AnotherRange) {
  HostValues values;
  values.set(kCounts, kRead);
  EXPECT_EQ(values.find({0, 12}), nullptr);
  EXPECT_EQ(values.find({4, 24}), nullptr);
}

//===----------------------------------------------------------------------===//
// Along a program
//===----------------------------------------------------------------------===//

/// What checkRows() says of a program that issues the named ops.
std::string problemOf(const std::vector<std::string> &names) {
  Table table;
  table.kernels.resize(3);
  table.kernels[0].op = "permutation";
  table.kernels[1].op = "local_rows";
  table.kernels[1].attributes["ranks"] = 2;
  table.kernels[2].op = "grouped_linear";
  const Operand counts{0, 0, ElementType::I32, {6}, Effect::Read};
  const Operand rows{0, 64, ElementType::I32, {3}, Effect::Read};
  const Operand onHost{1, 0, ElementType::I32, {6}, Effect::Write};
  const Operand x{0, 256, ElementType::F32, {8}, Effect::Read};
  auto written = [](Operand operand) {
    operand.effect = Effect::Write;
    return operand;
  };
  auto launch = [](uint32_t kernel, std::vector<Operand> operands) {
    Op op;
    op.kernel = kernel;
    op.operands = std::move(operands);
    return op;
  };
  auto read = [&](const Operand &operand) {
    Op op = launch(0, {operand, onHost});
    op.kind = OpKind::HostRead;
    return op;
  };
  const std::map<std::string, Op> ops = {
      {"make counts", launch(0, {x, written(counts)})},
      {"make rows", launch(0, {x, written(rows)})},
      {"sum", launch(1, {counts, written(rows)})},
      {"read counts", read(counts)},
      {"read rows", read(rows)},
      {"product", launch(2, {x, x, rows, written(x)})}};
  Template t;
  t.frames = {{"temp", FrameKind::Temporary, 512},
              {"host", FrameKind::Host, 256}};
  for (const std::string &name : names) {
    t.ops.push_back(ops.at(name));
    t.ops.back().location = "layers.{i}." + name + " mb {mb}";
    t.ops.back().half = "F";
  }
  table.templates = {t};
  Program program;
  Call call;
  call.bases = {0, 512};
  call.layer = 3, call.microBatch = 5;
  program.calls = {call};
  table.programs = {program};
  try {
    checkRows(ScheduleView(table, 0), [&](uint32_t tmpl, uint32_t local) {
      return table.templates[tmpl].ops[local].kernel == 2;
    });
  } catch (const std::exception &e) {
    return e.what();
  }
  return "";
}

TEST(HostValues, ProductsWhoseRowsAreKnown) {
  EXPECT_EQ(problemOf({"make rows", "read rows", "product", "product"}), "");
  EXPECT_EQ(problemOf({"make counts", "read counts", "sum", "product"}), "");
  EXPECT_EQ(problemOf({"make counts", "sum", "read counts", "product"}), "");
  // The host need not know what no product takes.
  EXPECT_EQ(problemOf({"make rows", "make counts", "sum"}), "");
}

TEST(HostValues, ProductsWhoseRowsAreNot) {
  for (const std::vector<std::string> &names :
       std::vector<std::vector<std::string>>{
           {"make rows", "product"},
           {"make rows", "product", "read rows"},
           {"make rows", "read rows", "make rows", "product"},
           {"make rows", "read counts", "product"},
           {"make counts", "sum", "product"},
           {"make counts", "sum", "make counts", "read counts", "product"}})
    EXPECT_EQ(problemOf(names),
              "'layers.3.product mb 5' takes the rows of its experts from the "
              "host, which does not know them: no sched.host_read before it "
              "reads them, or the counts that they are sums of")
        << testing::PrintToString(names);
}

} // namespace
