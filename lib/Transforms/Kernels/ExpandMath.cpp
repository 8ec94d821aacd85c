#include "moe/Transforms/Kernels/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

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

struct ExpandMath : impl::ExpandMathBase<ExpandMath> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<ExpandExp>(&getContext());
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace
} // namespace mlir::moe
