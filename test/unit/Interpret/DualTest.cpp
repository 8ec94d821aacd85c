//===- DualTest.cpp - <A x, y> = <x, A* y> for every collective -----------===//
//
// Along an axis, an invariant value counts once; all others count on each rank.
//
//===----------------------------------------------------------------------===//

#include "TestModule.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Verifier.h"
#include "moe/Support/Grid.h"
#include "moe/Transforms/Spmd/Distribution.h"
#include "test/unit/Tolerances.h"
#include "gtest/gtest.h"

#include <cmath>

using namespace mlir;
using namespace mlir::moe;

namespace {

/// Four ranks of a stage: ep = 2, edp = 2.
constexpr int64_t ranks = 4;

struct Case {
  const char *name;
  /// Arguments and result of the layer, and from %x, the first, to %y.
  const char *arguments, *result, *body;
};

std::ostream &operator<<(std::ostream &os, const Case &c) {
  return os << c.name;
}

#define OP(op, in, out)                                                        \
  "%x: tensor<" in ">", "tensor<" out ">",                                     \
      "%y = moe." op " : (tensor<" in ">) -> tensor<" out ">"
#define ROWS "!moe.rows<4, mean = 8>"
#define EXCHANGE                                                               \
  "%r = moe.exchange_counts %c over \"ep\" module(moe_dispatch) : (" ROWS      \
  ") -> " ROWS "\n"

const Case cases[] = {
    {"vary",
     OP("vary %x over \"dp\" module(attn)", "4x3xf64, #i", "4x3xf64, #v")},
    {"all_reduce", OP("all_reduce %x over \"dp\" module(attn) {reduction = "
                      "#moe<reduction sum>}",
                      "4x3xf64, #p", "4x3xf64, #i")},
    {"all_reduce_of_varying", OP("all_reduce %x over \"dp\" module(attn) "
                                 "{reduction = #moe<reduction sum>}",
                                 "4x3xf64, #v", "4x3xf64, #i")},
    {"reduce_scatter", OP("reduce_scatter %x over \"dp\" module(attn)",
                          "8x3xf64, #p", "2x3xf64, #s")},
    {"reduce_scatter_of_varying",
     OP("reduce_scatter %x over \"dp\" module(attn)", "8x3xf64, #v",
        "2x3xf64, #s")},
    {"all_gather", OP("all_gather %x over \"dp\" module(attn)", "2x3xf64, #s",
                      "8x3xf64, #i")},
    {"all_gather_to_varying",
     OP("all_gather %x over \"dp\" module(attn) {varying}", "2x3xf64, #s",
        "8x3xf64, #v")},
    {"slice",
     OP("slice %x over \"dp\" module(attn)", "8x3xf64, #i", "2x3xf64, #s")},
    // Along one of two axes, the other being invariant or varying.
    {"vary_over_edp",
     OP("vary %x over \"edp\" module(attn)", "4x3xf64, #ii", "4x3xf64, #iv")},
    {"all_reduce_over_ep", OP("all_reduce %x over \"ep\" module(attn) "
                              "{reduction = #moe<reduction sum>}",
                              "4x3xf64, #pv", "4x3xf64, #iv")},
    {"reduce_scatter_over_edp",
     OP("reduce_scatter %x over \"edp\" module(attn)", "4x3xf64, #ip",
        "2x3xf64, #is")},
    {"all_gather_over_edp", OP("all_gather %x over \"edp\" module(attn)",
                               "2x3xf64, #is", "4x3xf64, #ii")},
    {"all_gather_to_varying_over_edp",
     OP("all_gather %x over \"edp\" module(attn) {varying}", "2x3xf64, #is",
        "4x3xf64, #iv")},
    // Of 4 tokens to 2 of 4 experts, at most 2 * 4 * 2 rows arrive.
    {"all_to_all", "%x: tensor<8x3xf64, #v>, %c: " ROWS,
     "tensor<16x3xf64, #vv>",
     EXCHANGE "%y = moe.all_to_all %x, %c, %r over \"ep\" module(moe_dispatch) "
              ": (tensor<8x3xf64, #v>, " ROWS ", " ROWS
              ") -> tensor<16x3xf64, #vv>"},
    {"all_to_all_of_numbers", "%x: tensor<8xf64, #v>, %c: " ROWS,
     "tensor<16xf64, #vv>",
     EXCHANGE "%y = moe.all_to_all %x, %c, %r over \"ep\" module(moe_dispatch) "
              ": (tensor<8xf64, #v>, " ROWS ", " ROWS
              ") -> tensor<16xf64, #vv>"},
    {"all_to_all_back", "%x: tensor<16x3xf64, #vv>, %c: " ROWS,
     "tensor<8x3xf64, #v>",
     EXCHANGE "%y = moe.all_to_all %x, %r, %c over \"ep\" module(moe_combine) "
              ": (tensor<16x3xf64, #vv>, " ROWS ", " ROWS
              ") -> tensor<8x3xf64, #v>"},
};

std::string moduleText(const Case &c) {
  return std::string(R"(
#v = #moe.dist<attention, dp = varying>
#i = #moe.dist<attention, dp = invariant>
#s = #moe.dist<attention, dp = sharded(0)>
#p = #moe.dist<attention, dp = partial_sum>
#vv = #moe.dist<experts, ep = varying, edp = varying>
#ii = #moe.dist<experts, ep = invariant, edp = invariant>
#iv = #moe.dist<experts, ep = invariant, edp = varying>
#ip = #moe.dist<experts, ep = invariant, edp = partial_sum>
#is = #moe.dist<experts, ep = invariant, edp = sharded(0)>
#pv = #moe.dist<experts, ep = partial_sum, edp = varying>
module attributes {moe.phase = "spmd", moe.layout = #moe.layout<dp = 4, ep = 2, pp = 1, micro_batch = 1, global_batch = 4, seq = 4, capacity = 0.0, layers = [0]>} {
moe.layer @forward()") +
         c.arguments + ") -> " + c.result + " {\n" + c.body +
         "\nmoe.return %y : " + c.result + "\n}\n}\n";
}

/// Whether another rank before this one holds the same value by construction.
bool isCopy(LayoutAttr layout, DistAttr dist, int64_t rank) {
  return llvm::any_of(dist.getAxes(), [&](const AxisDist &axis) {
    return axis.kind == DistKind::Invariant &&
           axisGroup(layout, axis.axis.getValue())->position(rank) != 0;
  });
}

/// The first rank that holds the value of this one.
int64_t firstHolder(LayoutAttr layout, DistAttr dist, int64_t rank) {
  for (const AxisDist &axis : dist.getAxes())
    if (axis.kind == DistKind::Invariant)
      rank = axisGroup(layout, axis.axis.getValue())->base(rank);
  return rank;
}

/// A value that lies as its type says.
RankTensors randomValue(LayoutAttr layout, Type type, const std::string &name) {
  auto tensor = cast<RankedTensorType>(type);
  RankTensors value;
  for (int64_t rank = 0; rank < ranks; ++rank)
    value.push_back({tensor.getShape().vec(),
                     moe_test::normals(name + std::to_string(firstHolder(
                                                  layout, getDist(type), rank)),
                                       tensor.getNumElements())});
  return value;
}

/// Sum of products, each value once. Rows that are not in use are NaN in one
/// of the two.
double pair(LayoutAttr layout, DistAttr dist, const RankTensors &a,
            const RankTensors &b) {
  double sum = 0;
  for (int64_t rank = 0; rank < ranks; ++rank)
    for (size_t i = 0; i < a[rank].values.size(); ++i) {
      double product = a[rank].values[i] * b[rank].values[i];
      if (!isCopy(layout, dist, rank) && !std::isnan(product))
        sum += product;
    }
  return sum;
}

/// Adds a layer that computes the cotangent of the forward's first argument
/// from that of its result.
LayerOp buildDual(ModuleOp module, LayerOp forward) {
  OpBuilder b(forward->getContext());
  b.setInsertionPointToEnd(module.getBody());
  Value y = forward.getReturn().getOperand(0);
  SmallVector<Type> inputs = {cotangentType(y.getType())};
  llvm::append_range(inputs, forward.getArgumentTypes().drop_front());
  Type result = cotangentType(forward.getArgumentTypes()[0]);
  auto dual = LayerOp::create(b, forward.getLoc(), "dual",
                              b.getFunctionType(inputs, result));
  Block &body = dual.getBody().front();
  b.setInsertionPointToEnd(&body);
  IRMapping mapping;
  for (auto [from, to] :
       llvm::zip_equal(forward.getBody().getArguments().drop_front(),
                       body.getArguments().drop_front()))
    mapping.map(from, to);
  for (auto exchange : forward.getBody().getOps<ExchangeCountsOp>())
    b.clone(*exchange, mapping);
  auto op = cast<DifferentiableOpInterface>(y.getDefiningOp());
  SmallVector<Value> gradients =
      op.buildDataGrad(b, {body.getArgument(0)},
                       [&](Value value) { return mapping.lookup(value); });
  ReturnOp::create(b, forward.getLoc(), gradients[0]);
  return dual;
}

class Dual : public testing::TestWithParam<Case> {};

TEST_P(Dual, IsTheTranspose) {
  moe_test::TestModule test(moduleText(GetParam()));
  ASSERT_TRUE(test.module) << test.errors;
  auto layout =
      test.module->getOperation()->getAttrOfType<LayoutAttr>(kLayoutAttr);
  LayerOp forward = *test.module->getOps<LayerOp>().begin();
  LayerOp dual = buildDual(*test.module, forward);
  // The dual lies as its types say, by the ops' own rules.
  ASSERT_TRUE(succeeded(verify(*test.module))) << test.errors;
  ASSERT_TRUE(succeeded(verifyDistribution(*test.module, layout)))
      << test.errors;

  Type inType = forward.getArgumentTypes()[0];
  Type outType = forward.getResultTypes()[0];
  std::vector<RankTensors> xs = {randomValue(layout, inType, "x")};
  std::vector<RankTensors> ys = {
      randomValue(layout, cotangentType(outType), "y")};
  if (forward.getNumArguments() > 1) {
    // Eight copies on each rank; an expert without rows, and a rank that
    // sends nothing to the other.
    RankTensors counts;
    for (std::vector<double> c : {std::vector<double>{3, 0, 4, 1},
                                  {4, 4, 0, 0},
                                  {1, 2, 3, 2},
                                  {0, 4, 0, 4}})
      counts.push_back({{4}, c});
    xs.push_back(counts);
    ys.push_back(counts);
  }
  auto interpreter = Interpreter::create(*test.module);
  ASSERT_TRUE(succeeded(interpreter)) << test.errors;
  std::vector<RankTensors> ax, aty, saved;
  ASSERT_TRUE(succeeded((*interpreter)->runLayer(forward, 0, xs, ax, saved)) &&
              succeeded((*interpreter)->runLayer(dual, 0, ys, aty, saved)))
      << test.errors;

  // What is called invariant is equal on all ranks.
  for (auto &[value, type] : {std::pair<RankTensors &, Type>{ax[0], outType},
                              {aty[0], cotangentType(inType)}})
    for (int64_t rank = 0; rank < ranks; ++rank) {
      int64_t first = firstHolder(layout, getDist(type), rank);
      if (first != rank) {
        EXPECT_EQ(value[rank].values, value[first].values);
      }
    }
  double left = pair(layout, getDist(outType), ax[0], ys[0]);
  double right = pair(layout, getDist(inType), xs[0], aty[0]);
  EXPECT_GT(std::abs(left), 1e-3);
  EXPECT_NEAR(left, right, moe_test::kDual * std::max(1.0, std::abs(left)));
}

INSTANTIATE_TEST_SUITE_P(Collectives, Dual, testing::ValuesIn(cases),
                         testing::PrintToStringParamName());

} // namespace

std::string moe_test::dualTestText() {
  std::string text;
  for (const Case &c : cases)
    text += moduleText(c);
  return text;
}
