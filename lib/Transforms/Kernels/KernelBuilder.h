//===- KernelBuilder.h - Writing the body of a generated kernel -*- C++ -*-===//
//
// Bodies work row by row: the columns of a row are one linalg op, over memrefs
// of rank 1; the rows are a loop, scf.forall where they are independent.
// Arithmetic is in f32; what is stored is rounded to the element type.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_LIB_TRANSFORMS_KERNELS_KERNELBUILDER_H
#define MOE_LIB_TRANSFORMS_KERNELS_KERNELBUILDER_H

#include "dialects/Moe/MoeOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlir::moe {

class KernelBuilder {
public:
  /// Adds the body's block and builds into it.
  explicit KernelBuilder(KernelOp kernel);

  /// Operand `i`: inputs, then outputs.
  Value operand(unsigned i) { return kernel.getBody().getArgument(i); }
  /// Size of a dimension of operand `i`.
  int64_t dim(unsigned i, unsigned axis);
  double number(StringRef name);

  //===--------------------------------------------------------------------===//
  // Scalars
  //===--------------------------------------------------------------------===//

  Value index(int64_t value) { return constant(builder.getIndexAttr(value)); }
  Value f32(double value) {
    return constant(builder.getF32FloatAttr(float(value)));
  }
  Value f64(double value) { return constant(builder.getF64FloatAttr(value)); }
  Value add(Value a, Value b) { return arith::AddFOp::create(builder, a, b); }
  Value sub(Value a, Value b) { return arith::SubFOp::create(builder, a, b); }
  Value mul(Value a, Value b) { return arith::MulFOp::create(builder, a, b); }
  Value div(Value a, Value b) { return arith::DivFOp::create(builder, a, b); }
  Value select(Value condition, Value a, Value b) {
    return arith::SelectOp::create(builder, condition, a, b);
  }
  Value exp(Value x);
  Value sigmoid(Value x);
  Value sqrt(Value x);
  /// Natural logarithm of x in f64.
  Value log64(Value x);
  Value toF64(Value x);
  Value toF32(Value x);

  /// An element as f32 (i32: as index), and back.
  Value load(Value memref, ValueRange indices);
  void store(Value x, Value memref, ValueRange indices);
  /// Moves an element as it is.
  void move(Value from, ValueRange fromIndices, Value to, ValueRange toIndices);
  /// 0 <= i < bound, i of type index.
  Value inBounds(Value i, int64_t bound);

  //===--------------------------------------------------------------------===//
  // Views
  //===--------------------------------------------------------------------===//

  /// All elements, rank 1.
  Value flat(Value memref);
  /// [n, m * width] as [n * m, width].
  Value runs(Value memref, int64_t width);
  /// `width` columns of a row, from `column`; all if it is 0.
  Value row(Value memref, Value i, int64_t column = 0, int64_t width = 0);
  /// Size of dimension 0.
  static int64_t rowCount(Value memref) {
    return cast<MemRefType>(memref.getType()).getDimSize(0);
  }
  /// f32 memory of a row's length.
  Value scratch(int64_t width);

  //===--------------------------------------------------------------------===//
  // Loops and linalg ops
  //===--------------------------------------------------------------------===//

  /// Rows in use of a ragged tensor: the sum of the counts; a negative one
  /// counts as 0, and no row is at or past `capacity`.
  Value usedRows(Value counts, int64_t capacity);
  /// Independent rows.
  void forEachRow(OpFoldResult count, function_ref<void(Value)> body);
  void forEachRow(int64_t count, function_ref<void(Value)> body) {
    forEachRow(builder.getIndexAttr(count), body);
  }
  /// In order.
  void forInOrder(int64_t count, function_ref<void(Value)> body);
  /// In order, with a value that is carried.
  Value fold(int64_t count, Value initial,
             function_ref<Value(Value, Value)> body);
  void ifThen(Value condition, function_ref<void()> body);
  /// `body` where the condition holds, else `otherwise`.
  Value ifElse(Value condition, function_ref<Value()> body,
               function_ref<Value()> otherwise);

  /// outs[i][j] = body(ins[0][j], ins[1][j], ...)[i].
  void map(ValueRange ins, ValueRange outs,
           function_ref<SmallVector<Value>(ValueRange)> body);
  /// Sum or largest of body(ins[0][j], ...) over j; `largest` passes over NaNs.
  Value sum(ValueRange ins, function_ref<Value(ValueRange)> body);
  Value largest(Value in);
  void fill(Value memref, double value);
  void copy(Value from, Value to);

private:
  Value constant(TypedAttr value);
  Value reduce(ValueRange ins, double neutral,
               function_ref<Value(ValueRange)> term,
               function_ref<Value(Value, Value)> join);
  Value convert(Value x, Type type);

  KernelOp kernel;
  ImplicitLocOpBuilder builder;
  DenseMap<Attribute, Value> constants;
};

} // namespace mlir::moe

#endif // MOE_LIB_TRANSFORMS_KERNELS_KERNELBUILDER_H
