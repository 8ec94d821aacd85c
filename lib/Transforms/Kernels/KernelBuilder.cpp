#include "KernelBuilder.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <cmath>

using namespace mlir;
using namespace mlir::moe;

KernelBuilder::KernelBuilder(KernelOp kernel)
    : kernel(kernel), builder(kernel.getLoc(), kernel.getContext()) {
  SmallVector<Type> types = kernel.getBodyArgumentTypes();
  SmallVector<Location> locations(types.size(), kernel.getLoc());
  builder.createBlock(&kernel.getBody(), {}, types, locations);
}

int64_t KernelBuilder::dim(unsigned i, unsigned axis) {
  return cast<MemRefType>(operand(i).getType()).getDimSize(axis);
}

double KernelBuilder::number(StringRef name) {
  return kernel.getNumbers().getAs<FloatAttr>(name).getValueAsDouble();
}

//===----------------------------------------------------------------------===//
// Scalars
//===----------------------------------------------------------------------===//

/// At the top of the body, each once.
Value KernelBuilder::constant(TypedAttr value) {
  Value &entry = constants[value];
  if (!entry) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(&kernel.getBody().front());
    entry = arith::ConstantOp::create(builder, value);
  }
  return entry;
}

Value KernelBuilder::exp(Value x) { return math::ExpOp::create(builder, x); }

Value KernelBuilder::sigmoid(Value x) {
  Value e = exp(arith::NegFOp::create(builder, x));
  return div(f32(1.0), add(f32(1.0), e));
}

Value KernelBuilder::sqrt(Value x) { return math::SqrtOp::create(builder, x); }

Value KernelBuilder::log64(Value x) {
  return math::LogOp::create(builder, toF64(x));
}

Value KernelBuilder::toF64(Value x) { return convert(x, builder.getF64Type()); }

Value KernelBuilder::toF32(Value x) { return convert(x, builder.getF32Type()); }

Value KernelBuilder::convert(Value x, Type type) {
  unsigned from = x.getType().getIntOrFloatBitWidth();
  unsigned to = type.getIntOrFloatBitWidth();
  if (from < to)
    return arith::ExtFOp::create(builder, type, x);
  if (from > to)
    return arith::TruncFOp::create(builder, type, x);
  return x;
}

Value KernelBuilder::load(Value memref, ValueRange indices) {
  Value x = memref::LoadOp::create(builder, memref, indices);
  if (isa<IntegerType>(x.getType()))
    return arith::IndexCastOp::create(builder, builder.getIndexType(), x);
  return toF32(x);
}

void KernelBuilder::store(Value x, Value memref, ValueRange indices) {
  Type type = cast<MemRefType>(memref.getType()).getElementType();
  memref::StoreOp::create(builder, convert(x, type), memref, indices);
}

void KernelBuilder::move(Value from, ValueRange fromIndices, Value to,
                         ValueRange toIndices) {
  Value x = memref::LoadOp::create(builder, from, fromIndices);
  memref::StoreOp::create(builder, x, to, toIndices);
}

Value KernelBuilder::inBounds(Value i, int64_t bound) {
  // A negative number is a large unsigned one.
  return arith::CmpIOp::create(builder, arith::CmpIPredicate::ult, i,
                               index(bound));
}

//===----------------------------------------------------------------------===//
// Views
//===----------------------------------------------------------------------===//

Value KernelBuilder::flat(Value memref) {
  int64_t rank = cast<MemRefType>(memref.getType()).getRank();
  if (rank == 1)
    return memref;
  SmallVector<ReassociationIndices> all(1);
  for (int64_t axis = 0; axis < rank; ++axis)
    all[0].push_back(axis);
  return memref::CollapseShapeOp::create(builder, memref, all);
}

Value KernelBuilder::runs(Value memref, int64_t width) {
  auto type = cast<MemRefType>(memref.getType());
  if (type.getDimSize(1) == width)
    return memref;
  int64_t count = type.getNumElements() / width;
  auto result = MemRefType::get({count, width}, type.getElementType());
  return memref::ExpandShapeOp::create(builder, result, flat(memref),
                                       ArrayRef<ReassociationIndices>{{0, 1}});
}

Value KernelBuilder::row(Value memref, Value i, int64_t column, int64_t width) {
  auto type = cast<MemRefType>(memref.getType());
  if (width == 0)
    width = type.getDimSize(1);
  SmallVector<OpFoldResult> offsets = {i, builder.getIndexAttr(column)};
  SmallVector<OpFoldResult> sizes = {builder.getIndexAttr(1),
                                     builder.getIndexAttr(width)};
  SmallVector<OpFoldResult> strides(2, builder.getIndexAttr(1));
  auto result = memref::SubViewOp::inferRankReducedResultType(
      {width}, type, offsets, sizes, strides);
  return memref::SubViewOp::create(builder, cast<MemRefType>(result), memref,
                                   offsets, sizes, strides);
}

Value KernelBuilder::scratch(int64_t width) {
  return memref::AllocaOp::create(
      builder, MemRefType::get({width}, builder.getF32Type()));
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

Value KernelBuilder::usedRows(Value counts, int64_t capacity) {
  int64_t groups = cast<MemRefType>(counts.getType()).getDimSize(0);
  return fold(groups, index(0), [&](Value group, Value total) -> Value {
    Value count =
        arith::MaxSIOp::create(builder, load(counts, group), index(0));
    Value next = arith::AddIOp::create(builder, total, count);
    return arith::MinSIOp::create(builder, next, index(capacity));
  });
}

void KernelBuilder::forEachRow(OpFoldResult count,
                               function_ref<void(Value)> body) {
  SmallVector<OpFoldResult> bound = {count};
  auto loop = scf::ForallOp::create(builder, bound, ValueRange(),
                                    /*mapping=*/std::nullopt);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  body(loop.getInductionVar(0));
}

void KernelBuilder::forInOrder(int64_t count, function_ref<void(Value)> body) {
  auto loop = scf::ForOp::create(builder, index(0), index(count), index(1));
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  body(loop.getInductionVar());
}

Value KernelBuilder::fold(int64_t count, Value initial,
                          function_ref<Value(Value, Value)> body) {
  auto loop =
      scf::ForOp::create(builder, index(0), index(count), index(1), initial);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  Value next = body(loop.getInductionVar(), loop.getRegionIterArg(0));
  scf::YieldOp::create(builder, next);
  return loop.getResult(0);
}

void KernelBuilder::ifThen(Value condition, function_ref<void()> body) {
  auto op = scf::IfOp::create(builder, condition, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(op.thenBlock());
  body();
}

Value KernelBuilder::ifElse(Value condition, function_ref<Value()> body,
                            function_ref<Value()> otherwise) {
  auto op = scf::IfOp::create(
      builder, condition,
      [&](OpBuilder &nested, Location) {
        OpBuilder::InsertionGuard guard(builder);
        builder.setInsertionPointToEnd(nested.getInsertionBlock());
        scf::YieldOp::create(builder, body());
      },
      [&](OpBuilder &nested, Location) {
        OpBuilder::InsertionGuard guard(builder);
        builder.setInsertionPointToEnd(nested.getInsertionBlock());
        scf::YieldOp::create(builder, otherwise());
      });
  return op.getResult(0);
}

//===----------------------------------------------------------------------===//
// Linalg ops
//===----------------------------------------------------------------------===//

void KernelBuilder::map(ValueRange ins, ValueRange outs,
                        function_ref<SmallVector<Value>(ValueRange)> body) {
  SmallVector<AffineMap> maps(ins.size() + outs.size(),
                              builder.getMultiDimIdentityMap(1));
  linalg::GenericOp::create(
      builder, ins, outs, maps,
      ArrayRef<utils::IteratorType>{utils::IteratorType::parallel},
      [&](OpBuilder &nested, Location, ValueRange arguments) {
        OpBuilder::InsertionGuard guard(builder);
        builder.setInsertionPointToEnd(nested.getInsertionBlock());
        SmallVector<Value> values;
        for (Value argument : arguments.take_front(ins.size()))
          values.push_back(toF32(argument));
        SmallVector<Value> results = body(values);
        for (auto [result, out] :
             llvm::zip_equal(results, arguments.take_back(outs.size())))
          result = convert(result, out.getType());
        linalg::YieldOp::create(builder, results);
      });
}

Value KernelBuilder::reduce(ValueRange ins, double neutral,
                            function_ref<Value(ValueRange)> term,
                            function_ref<Value(Value, Value)> join) {
  Value result = memref::AllocaOp::create(
      builder, MemRefType::get({}, builder.getF32Type()));
  memref::StoreOp::create(builder, f32(neutral), result, ValueRange());
  SmallVector<AffineMap> maps(ins.size(), builder.getMultiDimIdentityMap(1));
  maps.push_back(AffineMap::get(1, 0, builder.getContext()));
  linalg::GenericOp::create(
      builder, ins, result, maps,
      ArrayRef<utils::IteratorType>{utils::IteratorType::reduction},
      [&](OpBuilder &nested, Location, ValueRange arguments) {
        OpBuilder::InsertionGuard guard(builder);
        builder.setInsertionPointToEnd(nested.getInsertionBlock());
        SmallVector<Value> values;
        for (Value argument : arguments.drop_back())
          values.push_back(toF32(argument));
        Value joined = join(arguments.back(), term(values));
        linalg::YieldOp::create(builder, joined);
      });
  return memref::LoadOp::create(builder, result, ValueRange());
}

Value KernelBuilder::sum(ValueRange ins, function_ref<Value(ValueRange)> term) {
  return reduce(ins, 0.0, term, [&](Value a, Value b) { return add(a, b); });
}

Value KernelBuilder::largest(Value in) {
  return reduce(
      in, -INFINITY, [](ValueRange values) { return values[0]; },
      [&](Value a, Value b) -> Value {
        return arith::MaxNumFOp::create(builder, a, b);
      });
}

void KernelBuilder::fill(Value memref, double value) {
  Value x = f32(value);
  Type type = cast<MemRefType>(memref.getType()).getElementType();
  linalg::FillOp::create(builder, convert(x, type), memref);
}

void KernelBuilder::copy(Value from, Value to) {
  linalg::CopyOp::create(builder, from, to);
}
