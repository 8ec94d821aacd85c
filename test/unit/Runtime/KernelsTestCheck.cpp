//===- KernelsTestCheck.cpp - checkLaunch ---------------------------------===//

#include "KernelsTestSupport.h"

using namespace moert;
using namespace moert::test;

namespace {

class CheckLaunch : public testing::Test {
protected:
  Tensor x{F32, {6, 8}}, w{F32, {4, 8}}, y{F32, {6, 4}};
  Launched linear = prepare("linear", {}, {&x, &w}, {}, {&y});

  static std::string check(const Launched &l) {
    return checkLaunch(l.kernel, l.operands);
  }
  static void expectError(const Launched &l,
                          const std::vector<std::string> &parts) {
    std::string error = check(l);
    for (const std::string &part : parts)
      EXPECT_NE(error.find(part), std::string::npos)
          << "'" << part << "' in '" << error << "'";
  }
};

TEST_F(CheckLaunch, AcceptsWhatFits) { EXPECT_EQ(check(linear), ""); }

TEST_F(CheckLaunch, UnknownKernel) {
  linear.kernel.op = "conv";
  expectError(linear, {"linear", "conv"});
  EXPECT_EQ(findHostKernel("conv"), nullptr);
}

TEST_F(CheckLaunch, WrongNumber) {
  linear.operands.pop_back();
  expectError(linear, {"'linear'", "2 operands", "3"});
}

TEST_F(CheckLaunch, WrongTypes) {
  linear.operands[0].type = I32;
  expectError(linear, {"operand 0 (x)", "i32", "f32 or bf16"});
  linear.operands[0].type = BF16;
  expectError(linear, {"operand 1 (w)", "f32", "bf16"});
  Tensor acc(BF16, {4, 8});
  expectError(prepare("linear_wgrad", {}, {&x, &y}, {&acc}, {}),
              {"operand 2 (acc)", "bf16", "f32"});
}

TEST_F(CheckLaunch, WrongShapes) {
  linear.operands[2].shape = {6, 5};
  expectError(linear, {"operand 2 (y)", "dimension 1", "5", "out = 4"});
  linear.operands[2].shape = {6, 4, 1};
  expectError(linear, {"operand 2 (y)", "3 dimensions"});
  linear.operands[2].shape = {0, 4};
  expectError(linear, {"operand 2 (y)", "dimension of 0"});
  Tensor c(F32, {3, 8}), d(F32, {8, 3});
  expectError(prepare("add", {}, {&c, &d}, {}, {&c}), {"operand 1 (b)"});
}

TEST_F(CheckLaunch, ProductsOfDimensions) {
  Tensor norm(F32, {4}), out(F32, {6, 8});
  Attributes eps = {{"eps", 1e-6}};
  EXPECT_EQ(check(prepare("rms_norm", eps, {&x, &norm}, {}, {&out})), "");
  Tensor odd(F32, {3});
  expectError(prepare("rms_norm", eps, {&x, &odd}, {}, {&out}),
              {"rms_norm", "is 8", "multiple of 3"});
  Tensor map(I32, {6, 2}), rows(F32, {13, 8});
  expectError(prepare("permute", {}, {&x, &map}, {}, {&rows}),
              {"operand 2 (y)", "T*k = 12"});
}

TEST_F(CheckLaunch, Effects) {
  linear.operands[1].effect = Effect::ReadWrite;
  expectError(linear, {"operand 1 (w)", "read and written"});
  linear.operands[1].effect = Effect::Read;
  linear.kernel.effects[2] = Effect::Read;
  expectError(linear, {"operand 2 (y)", "written"});
  linear.kernel.effects.pop_back();
  expectError(linear, {"effects for 2"});
}

TEST_F(CheckLaunch, AttributesAndConditions) {
  Tensor q(F32, {6, 8}), kv(F32, {6, 4}), lse(F32, {6, 2});
  Attributes good = {{"heads", 2},
                     {"kv_heads", 1},
                     {"head_dim", 4},
                     {"sequence", 3},
                     {"scale", 0.5}};
  auto with = [&](const char *name, double value) {
    Attributes a = good;
    a[name] = value;
    return prepare("attention", a, {&q, &kv, &kv}, {}, {&q, &lse});
  };
  EXPECT_EQ(check(with("heads", 2)), "");
  expectError(with("sequence", 4), {"T = 6", "multiple of sequence = 4"});
  expectError(with("sequence", 0), {"'sequence'", "positive integer"});
  expectError(with("sequence", 1.5), {"'sequence'", "positive integer"});
  expectError(with("scale", NAN), {"'scale'", "finite"});
  expectError(with("heads", 3), {"operand 0 (q)", "heads*head_dim = 12"});
  Launched missing = with("heads", 2);
  missing.kernel.attributes.erase("scale");
  expectError(missing, {"'scale'", "missing"});
  Tensor probs(F32, {6, 9}), indices(I32, {6, 9});
  expectError(
      prepare("route", {{"normalize", 1}}, {&x}, {}, {&probs, &indices}),
      {"k = 9", "E = 8"});
  expectError(
      prepare("route", {{"normalize", 2}}, {&x}, {}, {&probs, &indices}),
      {"'normalize'", "0 or 1"});
}

} // namespace
