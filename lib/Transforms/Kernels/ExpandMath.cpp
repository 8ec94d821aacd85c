#include "moe/Transforms/Kernels/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

#include <cmath>

namespace mlir::moe {
#define GEN_PASS_DEF_EXPANDMATH
#include "moe/Transforms/Kernels/Passes.h.inc"

namespace {

/// Arithmetic on scalars and vectors alike.
class Shaped {
public:
  Shaped(ImplicitLocOpBuilder &builder, Type type)
      : builder(builder), type(type) {}

  Value f32(float value) { return constant(builder.getF32FloatAttr(value)); }
  Value i32(int32_t value) {
    return constant(builder.getI32IntegerAttr(value));
  }
  Value fma(Value a, Value b, Value c) {
    return math::FmaOp::create(builder, a, b, c);
  }
  Value asInteger(Value x) {
    return arith::BitcastOp::create(builder, like(builder.getI32Type()), x);
  }
  Value asFloat(Value x) {
    return arith::BitcastOp::create(builder, like(builder.getF32Type()), x);
  }
  Value select(arith::CmpFPredicate predicate, Value a, Value b, Value yes,
               Value no) {
    Value holds = arith::CmpFOp::create(builder, predicate, a, b);
    return arith::SelectOp::create(builder, holds, yes, no);
  }

private:
  Type like(Type element) {
    if (auto vector = dyn_cast<VectorType>(type))
      return vector.clone(element);
    return element;
  }
  Value constant(TypedAttr value) {
    if (auto vector = dyn_cast<VectorType>(like(value.getType())))
      value = DenseElementsAttr::get(vector, value);
    return arith::ConstantOp::create(builder, value);
  }

  ImplicitLocOpBuilder &builder;
  Type type;
};

/// e^x as the library computes it (`exponential`, lib/Runtime/Kernels).
struct ExpandExp : OpRewritePattern<math::ExpOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(math::ExpOp op,
                                PatternRewriter &rewriter) const override {
    if (!getElementTypeOrSelf(op.getType()).isF32())
      return failure();
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    Shaped s(b, op.getType());
    Value x = op.getOperand(), high = s.f32(89.0f), low = s.f32(-104.0f);
    x = s.select(arith::CmpFPredicate::OGT, x, high, high, x);
    x = s.select(arith::CmpFPredicate::OLT, x, low, low, x);
    // Adding 1.5 * 2^23 leaves the nearest integer in the low bits.
    Value magic = s.f32(12582912.0f);
    Value shifted = s.fma(x, s.f32(1.44269504f), magic);
    Value n = arith::SubFOp::create(b, shifted, magic);
    Value r = s.fma(n, s.f32(-0.693145752f), x);
    r = s.fma(n, s.f32(-1.42860677e-6f), r);
    Value p = s.f32(1.98756912e-4f);
    for (float coefficient :
         {1.39819994e-3f, 8.33345205e-3f, 4.16657962e-2f, 1.66666657e-1f, 0.5f})
      p = s.fma(p, r, s.f32(coefficient));
    p = s.fma(p, arith::MulFOp::create(b, r, r), r);
    p = arith::AddFOp::create(b, p, s.f32(1.0f));
    // 2^n in two steps, so that neither leaves the normal range.
    Value i =
        arith::SubIOp::create(b, s.asInteger(shifted), s.asInteger(magic));
    Value half = arith::ShRSIOp::create(b, i, s.i32(1));
    Value other = arith::SubIOp::create(b, i, half);
    for (Value exponent : {half, other}) {
      Value biased = arith::AddIOp::create(b, exponent, s.i32(127));
      Value power = arith::ShLIOp::create(b, biased, s.i32(23));
      p = arith::MulFOp::create(b, p, s.asFloat(power));
    }
    rewriter.replaceOp(op, p);
    return success();
  }
};

/// Of a positive, normal number: log(2^k (1 + f)) by fdlibm's polynomial in
/// s = f / (2 + f), which is that of most C libraries. As for the others: 0
/// gives -inf, inf itself, anything else NaN.
struct ExpandLog : OpRewritePattern<math::LogOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(math::LogOp op,
                                PatternRewriter &rewriter) const override {
    Value x = op.getOperand();
    Type type = x.getType();
    if (!type.isF64())
      return failure();
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    auto f64 = [&](double value) -> Value {
      return arith::ConstantOp::create(b, b.getF64FloatAttr(value));
    };
    auto i64 = [&](int64_t value) -> Value {
      return arith::ConstantOp::create(b, b.getI64IntegerAttr(value));
    };
    auto add = [&](Value p, Value q) -> Value {
      return arith::AddFOp::create(b, p, q);
    };
    auto mul = [&](Value p, Value q) -> Value {
      return arith::MulFOp::create(b, p, q);
    };
    // 1 + f in [sqrt(1/2), sqrt(2)).
    constexpr int64_t one = 0x3ff0000000000000, root = 0x3fe6a09e00000000;
    Value bits = arith::BitcastOp::create(b, b.getI64Type(), x);
    bits = arith::AddIOp::create(b, bits, i64(one - root));
    Value exponent = arith::ShRSIOp::create(b, bits, i64(52));
    exponent = arith::SubIOp::create(b, exponent, i64(1023));
    Value k = arith::SIToFPOp::create(b, type, exponent);
    bits = arith::AndIOp::create(b, bits, i64(0x000fffffffffffff));
    bits = arith::AddIOp::create(b, bits, i64(root));
    Value f = add(arith::BitcastOp::create(b, type, bits), f64(-1.0));

    Value s = arith::DivFOp::create(b, f, add(f, f64(2.0)));
    Value z = mul(s, s), w = mul(z, z);
    auto polynomial = [&](ArrayRef<double> coefficients) {
      Value p = f64(coefficients.front());
      for (double coefficient : coefficients.drop_front())
        p = add(mul(p, w), f64(coefficient));
      return p;
    };
    Value even =
        mul(w, polynomial({1.531383769920937332e-01, 2.222219843214978396e-01,
                           3.999999999940941908e-01}));
    Value odd = mul(
        z, polynomial({1.479819860511658591e-01, 1.818357216161805012e-01,
                       2.857142874366239149e-01, 6.666666666666735130e-01}));
    Value half = mul(f64(0.5), mul(f, f));
    Value result = mul(s, add(half, add(odd, even)));
    result = add(result, mul(k, f64(1.90821492927058770002e-10)));
    result = add(arith::SubFOp::create(b, result, half), f);
    result = add(result, mul(k, f64(6.93147180369123816490e-01)));

    auto select = [&](arith::CmpFPredicate predicate, Value y, Value yes,
                      Value no) -> Value {
      Value holds = arith::CmpFOp::create(b, predicate, x, y);
      return arith::SelectOp::create(b, holds, yes, no);
    };
    Value zero = f64(0.0), inf = f64(INFINITY);
    result = select(arith::CmpFPredicate::OGT, zero, result, f64(NAN));
    result = select(arith::CmpFPredicate::OEQ, zero, f64(-INFINITY), result);
    result = select(arith::CmpFPredicate::OEQ, inf, inf, result);
    rewriter.replaceOp(op, result);
    return success();
  }
};

struct ExpandMath : impl::ExpandMathBase<ExpandMath> {
  using ExpandMathBase::ExpandMathBase;

  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<ExpandExp>(&getContext());
    if (log)
      patterns.add<ExpandLog>(&getContext());
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace
} // namespace mlir::moe
