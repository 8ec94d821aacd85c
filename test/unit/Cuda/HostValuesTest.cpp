// What the host knows of device memory: counts that it read, sums of them, and
// nothing of what was written since.

#include "lib/Runtime/Cuda/HostValues.h"
#include "gtest/gtest.h"

using namespace moert;
using namespace moert::cuda;

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

} // namespace
