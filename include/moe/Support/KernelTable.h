//===- KernelTable.h - The kernels of a module ----------------------------===//

#ifndef MOE_SUPPORT_KERNELTABLE_H
#define MOE_SUPPORT_KERNELTABLE_H

#include "dialects/Moe/MoeOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringMap.h"

namespace mlir::moe {

/// What tells two kernels of a module apart.
struct KernelKey {
  /// The library entry.
  StringRef op;
  FunctionType type;
  DictionaryAttr numbers;
  /// The cost at the sizes that the program was imported with.
  FloatAttr flops, bytes;
};

/// Makes kernels at the start of a module, in the order they are asked for,
/// named `<op>_<n>`.
class KernelTable {
public:
  explicit KernelTable(ModuleOp module)
      : builder(OpBuilder::atBlockBegin(module.getBody())) {}

  /// The kernel with this key; made at `loc` if there is none.
  KernelOp getOrCreate(Location loc, const KernelKey &key,
                       NumericClass numericClass, bool accumulates) {
    Attribute parts = builder.getArrayAttr({builder.getStringAttr(key.op),
                                            TypeAttr::get(key.type),
                                            key.numbers, key.flops, key.bytes});
    KernelOp &kernel = kernels[parts];
    if (!kernel)
      kernel = KernelOp::create(
          builder, loc, (key.op + "_" + Twine(counters[key.op]++)).str(),
          key.op, key.type, numericClass, key.flops.getValue(),
          key.bytes.getValue(), key.numbers, accumulates);
    return kernel;
  }

private:
  OpBuilder builder;
  DenseMap<Attribute, KernelOp> kernels;
  llvm::StringMap<unsigned> counters;
};

} // namespace mlir::moe

#endif // MOE_SUPPORT_KERNELTABLE_H
