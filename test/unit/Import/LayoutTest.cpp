#include "ImportTesting.h"

#include "dialects/Moe/MoeDialect.h"
#include "moe/Import/Layout.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace mlir::moe;

namespace {

struct LayoutTest : testing::Test {
  MLIRContext context;
  LayoutTest() { context.loadDialect<MoeDialect>(); }

  /// For 16 GPUs, 48 layers, 128 experts.
  std::string parse(StringRef text) {
    FailureOr<LayoutAttr> layout = parseLayout(&context, text, 16, 48, 128);
    if (failed(layout))
      return "";
    std::string result;
    llvm::raw_string_ostream(result) << *layout;
    return result;
  }
};

TEST_F(LayoutTest, Defaults) {
  const char *expected =
      "#moe.layout<dp = 16, ep = 1, pp = 1, micro_batch = 1, global_batch = "
      "1024, seq = 4096, capacity = 2.000000e+00, layers = [48]>";
  EXPECT_EQ(parse(""), expected);
  EXPECT_EQ(parse(" dp = 16 , tp=1,sp=off,cp=1,vpp=1,etp=1"), expected);
}

TEST_F(LayoutTest, AllKeys) {
  EXPECT_EQ(parse("ep=4,layers=20,28,pp=2,micro_batch=2,global_batch=32,"
                  "seq=128,capacity=1.5"),
            "#moe.layout<dp = 8, ep = 4, pp = 2, micro_batch = 2, global_batch "
            "= 32, seq = 128, capacity = 1.500000e+00, layers = [20, 28]>");
  EXPECT_NE(parse("capacity=worst").find("capacity = 0.000000e+00"),
            std::string::npos);
}

TEST_F(LayoutTest, Bad) {
  const std::pair<const char *, const char *> cases[] = {
      {"ep", "expected key=value, but got 'ep'"},
      {",", "expected key=value, but got ''"},
      {"ep=2,", "expected key=value, but got ''"},
      {"ep=2,4", "expected key=value, but got '4'"},
      {"=2", "unknown key ''"},
      {"pep=2", "unknown key 'pep', expected one of tp, sp,"},
      {"ep=2,ep=2", "key 'ep' is given twice"},
      {"ep=", "ep must be an integer from 1"},
      {"ep=0", "ep must be an integer from 1"},
      {"ep=-2", "ep must be an integer from 1"},
      {"ep=2.0", "ep must be an integer from 1"},
      {"ep=0x2", "ep must be an integer from 1"},
      {"seq=99999999999999999999", "seq must be an integer from 1"},
      {"seq=2147483648", "seq must be an integer from 1"},
      {"tp=2", "tp=2 is not supported yet"},
      {"cp=2", "cp=2 is not supported yet"},
      {"vpp=2", "vpp=2 is not supported yet"},
      {"etp=2", "etp=2 is not supported yet"},
      {"tp=x", "tp must be an integer from 1"},
      {"sp=on", "sp=on is not supported yet"},
      {"sp=maybe", "sp must be on or off"},
      {"pp=3", "pp=3 must divide the 16 GPUs"},
      {"dp=8", "dp=8 times pp=1 must be the 16 GPUs"},
      {"ep=3", "ep=3 must divide dp=16"},
      {"ep=16,pp=2", "ep=16 must divide dp=8"},
      {"global_batch=24", "must be a multiple of dp * micro_batch = 16"},
      {"micro_batch=2147483647,seq=2", "is more than 2147483647 tokens"},
      {"micro_batch=2097152,seq=1", "give global_batch"},
      {"capacity=0.5", "capacity must be 'worst' or a number from 1"},
      {"capacity=0", "capacity must be 'worst' or a number from 1"},
      {"capacity=nan", "capacity must be 'worst' or a number from 1"},
      {"capacity=inf", "capacity must be 'worst' or a number from 1"},
      {"capacity=best", "capacity must be 'worst' or a number from 1"},
      {"layers=48,pp=2", "layers lists 1 stages, but pp=2"},
      {"layers=24,23,pp=2", "layers sum to 47, but the model has 48"},
      {"layers=24,-24,pp=2", "layers must list integers from 0 to 48"},
      {"layers=[24,24],pp=2", "layers must list integers from 0 to 48"},
      {"layers=24,0,0,24,pp=4", "leaves a stage with nothing to do"},
  };
  for (auto [text, error] : cases) {
    Messages messages(&context);
    EXPECT_EQ(parse(text), "") << text;
    ASSERT_EQ(messages.errors.size(), 1u) << text;
    EXPECT_NE(messages.errors[0].find(error), std::string::npos)
        << messages.errors[0];
  }
  Messages messages(&context);
  EXPECT_TRUE(failed(parseLayout(&context, "ep=16", 16, 48, 8)));
  EXPECT_TRUE(failed(parseLayout(&context, "pp=16", 16, 13, 8)));
  EXPECT_EQ(messages.errors,
            (std::vector<std::string>{
                "--layout: ep=16 must divide the model's 8 experts",
                "--layout: pp=16 stages can't share 13 layers, the embedding "
                "and the loss"}));
}

TEST(SpreadLayersTest, Examples) {
  using Layers = SmallVector<int64_t>;
  EXPECT_EQ(spreadLayers(94, 8), (Layers{11, 12, 12, 12, 12, 12, 12, 11}));
  EXPECT_EQ(spreadLayers(48, 1), (Layers{48}));
  EXPECT_EQ(spreadLayers(48, 2), (Layers{24, 24}));
  EXPECT_EQ(spreadLayers(48, 4), (Layers{12, 12, 12, 12}));
  EXPECT_EQ(spreadLayers(3, 2), (Layers{2, 1}));
  EXPECT_EQ(spreadLayers(49, 4), (Layers{12, 12, 13, 12}));
}

// All layers are placed, and with embedding and loss no stage has more than
// one more than another.
TEST(SpreadLayersTest, Even) {
  for (int64_t layers = 1; layers <= 100; ++layers)
    for (int64_t stages = 2; stages <= layers + 2; ++stages) {
      SmallVector<int64_t> spread = spreadLayers(layers, stages);
      int64_t sum = 0;
      for (int64_t count : spread)
        sum += count;
      ++spread.front();
      ++spread.back();
      auto [least, most] = std::minmax_element(spread.begin(), spread.end());
      ASSERT_EQ(sum, layers) << stages;
      ASSERT_LE(*most - *least, 1) << layers << " over " << stages;
    }
}

} // namespace
