//===- Signature.h - What operands a kernel takes, as text ----------------===//

#ifndef MOE_LIB_RUNTIME_KERNELS_SIGNATURE_H
#define MOE_LIB_RUNTIME_KERNELS_SIGNATURE_H

#include "moe/Runtime/Kernels.h"

namespace moert::kernels {

/// The operands and attributes of a kernel.
struct Signature {
  /// "x x[T,in], w x[out,in] -> y x[T,out]": reads, then after "->" writes;
  /// "acc rw f32[E]" is read and written. A dimension is a product of numbers
  /// and symbols ("2*f"); equal symbols are equal numbers, the names of integer
  /// attributes among them; a last "..." stands for any further dimensions, the
  /// same everywhere. All operands of type "x" have one type, f32 or bf16.
  const char *operands;
  /// "eps heads# inverse?": a finite number, a positive integer, 0 or 1.
  const char *attributes = "";
  /// "sequence|T k<=E": divides, is not more than.
  const char *conditions = "";
};

/// Empty if the kernel and operands match, else what is wrong and where.
std::string match(const Signature &signature, const Kernel &kernel,
                  const std::vector<Operand> &operands);

} // namespace moert::kernels

#endif // MOE_LIB_RUNTIME_KERNELS_SIGNATURE_H
