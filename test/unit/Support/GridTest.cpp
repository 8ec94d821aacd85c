#include "moe/Support/Grid.h"

#include "dialects/Moe/MoeDialect.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/MLIRContext.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::moe;

namespace {

class GridTest : public ::testing::Test {
protected:
  GridTest() { context.loadDialect<MoeDialect>(); }

  LayoutAttr layout(int64_t dp, int64_t ep, int64_t pp, double capacity = 2) {
    Type f64 = Float64Type::get(&context);
    return LayoutAttr::get(&context, dp, ep, pp, 1, dp, 4,
                           FloatAttr::get(f64, capacity),
                           SmallVector<int64_t>(pp, 1));
  }

  MLIRContext context;
};

std::vector<int64_t> group(LayoutAttr layout, StringRef axis, int64_t rank) {
  AxisGroup formula = *axisGroup(layout, axis);
  std::vector<int64_t> members;
  for (int64_t i = 0; i < formula.size; ++i)
    members.push_back(formula.member(rank, i));
  return members;
}

using Ranks = std::vector<int64_t>;

TEST_F(GridTest, GroupsOfARank) {
  // Ranks 8 to 15 are stage 1; 8, 9 | 10, 11 | 12, 13 | 14, 15 are its ep
  // groups.
  LayoutAttr l = layout(/*dp=*/8, /*ep=*/2, /*pp=*/3);
  EXPECT_EQ(group(l, "ep", 13), (Ranks{12, 13}));
  EXPECT_EQ(group(l, "edp", 13), (Ranks{9, 11, 13, 15}));
  EXPECT_EQ(group(l, "dp", 13), (Ranks{8, 9, 10, 11, 12, 13, 14, 15}));
  EXPECT_EQ(group(l, "pp", 13), (Ranks{5, 13, 21}));
  EXPECT_EQ(group(l, "world", 13).size(), 24u);
  EXPECT_FALSE(axisGroup(l, "tp"));
}

TEST_F(GridTest, GroupsOfAnAxisPartitionTheRanks) {
  for (LayoutAttr l :
       {layout(1, 1, 1), layout(4, 4, 1), layout(4, 1, 2), layout(12, 3, 5)})
    for (StringRef axis : {"dp", "ep", "edp", "pp", "world"})
      for (int64_t rank = 0; rank < l.getRanks(); ++rank) {
        Ranks members = group(l, axis, rank);
        // The rank is at its position, and all members agree on the group.
        EXPECT_EQ(members[axisGroup(l, axis)->position(rank)], rank);
        for (int64_t member : members) {
          ASSERT_TRUE(member >= 0 && member < l.getRanks());
          EXPECT_EQ(group(l, axis, member), members);
        }
      }
}

TEST_F(GridTest, CoordinatesGiveTheRankBack) {
  LayoutAttr l = layout(12, 3, 5);
  for (int64_t rank = 0; rank < l.getRanks(); ++rank) {
    RankCoordinates at = rankCoordinates(l, rank);
    EXPECT_EQ(at.dp, at.edp * l.getEp() + at.ep);
    EXPECT_EQ(at.stage * l.getDp() + at.edp * l.getEp() + at.ep, rank);
  }
}

TEST_F(GridTest, NamesAxesOfMoreThanOneRank) {
  EXPECT_TRUE(namedAxes(layout(1, 1, 4), "attention").empty());
  EXPECT_EQ(namedAxes(layout(4, 4, 1), "experts"),
            (SmallVector<StringRef>{"ep"}));
  EXPECT_EQ(namedAxes(layout(4, 1, 1), "experts"),
            (SmallVector<StringRef>{"edp"}));
  EXPECT_EQ(namedAxes(layout(4, 2, 1), "experts"),
            (SmallVector<StringRef>{"ep", "edp"}));
  DistAttr dist = uniformDist(layout(4, 2, 1), "experts", DistKind::Varying);
  EXPECT_EQ(dist.getAxis("edp").kind, DistKind::Varying);
  EXPECT_EQ(dist.getAxes().size(), 2u);
}

TEST_F(GridTest, CapacityIsTheFactorsOrTheWorstCase) {
  // 16 tokens to 2 of 8 experts on 4 ranks: mean 32, worst 4 * 16 * 2.
  EXPECT_EQ(capacityRows(layout(4, 4, 1, 1), 16, 2, 8), 32);
  EXPECT_EQ(capacityRows(layout(4, 4, 1, 2), 16, 2, 8), 64);
  EXPECT_EQ(capacityRows(layout(4, 4, 1, 1.01), 16, 2, 8), 33);
  EXPECT_EQ(capacityRows(layout(4, 4, 1, 0), 16, 2, 8), 128);
  EXPECT_EQ(capacityRows(layout(4, 4, 1, 1e300), 16, 2, 8), 128);
  // One local expert can get each token once.
  EXPECT_EQ(capacityRows(layout(4, 4, 1, 0), 16, 2, 4), 64);
}

} // namespace
