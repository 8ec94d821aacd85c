//===- Sums.h - Sums to one number ------------------------------*- C++ -*-===//
//
// One launch: blocks add parts of the vector, whose borders depend on its
// length alone, and leave them in scratch memory; the last block to finish adds
// the parts in their order. Doubles, so that the one rounding of the result is
// all that is seen of the order.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_LIB_RUNTIME_CUDA_KERNELS_SUMS_H
#define MOE_LIB_RUNTIME_CUDA_KERNELS_SUMS_H

#include "Group.h"

namespace moert::cuda::kernels {

enum class Summand { Value, Square };

/// What of a sum is the result.
enum class Result { Itself, Root };

template <Summand summand, Result result> struct SumTo {
  static constexpr bool kUsesScratch = true;
  /// Finished blocks, 0 between launches, then the parts.
  static constexpr int64_t kHeader = 64, kLeast = 4096, kParts = 1024;
  static_assert(kHeader + kParts * sizeof(double) <= kScratchBytes, "");

  struct Shared {
    double ofWarps[kWarpsOfBlock];
    bool isLast;
  };

  template <typename Block>
  MOE_DEVICE static void run(Block block, Shared &shared, const Arguments &a) {
    const float *x = pointer<float>(a, 0);
    auto *counter = static_cast<unsigned *>(a.scratch);
    // Written by one block and read by another: no cache in between.
    auto *parts = reinterpret_cast<volatile double *>(
        static_cast<char *>(a.scratch) + kHeader);
    int64_t n = a.dims[0][0], size = partSize(n), count = (n + size - 1) / size;
    Deal work = toBlocks(block);
    bool isFirst = within(block).first == 0;
    for (int64_t part = work.first; part < count; part += work.step) {
      int64_t begin = part * size, left = n - begin;
      double v =
          sumOf(block, shared, left < size ? left : size, [&](int64_t i) {
            double value = x[begin + i];
            return summand == Summand::Square ? value * value : value;
          });
      if (isFirst)
        parts[part] = v;
    }
    if (isFirst)
      shared.isLast = block.arrive(counter);
    block.barrier();
    if (!shared.isLast)
      return;
    double v = sumOf(block, shared, count, [&](int64_t i) { return parts[i]; });
    if (isFirst) {
      *pointer<float>(a, 1) = float(result == Result::Root ? sqrt(v) : v);
      *counter = 0;
    }
  }
  static int64_t blocks(const Arguments &a) {
    return blocksFor(a.dims[0][0], partSize(a.dims[0][0]));
  }

private:
  MOE_HOST_DEVICE static int64_t partSize(int64_t n) {
    int64_t size = (n + kParts - 1) / kParts;
    return size > kLeast ? size : kLeast;
  }

  /// The sum of term(0), ..., term(n - 1) over the block, for all its threads.
  template <typename Block, typename Term>
  MOE_DEVICE static double sumOf(const Block &block, Shared &shared, int64_t n,
                                 Term term) {
    Deal work = within(block);
    double v = 0.0;
    for (int64_t i = work.first; i < n; i += work.step)
      v += term(i);
    v = sum(block.warp, v);
    if (block.warp.rank() == 0)
      shared.ofWarps[block.warpIndex()] = v;
    block.barrier();
    v = 0.0;
    for (int w = 0; w < Block::kWarps; ++w)
      v += shared.ofWarps[w];
    block.barrier();
    return v;
  }
};

using Sum = SumTo<Summand::Value, Result::Itself>;
using SumSquares = SumTo<Summand::Square, Result::Itself>;
using GradNorm = SumTo<Summand::Value, Result::Root>;

} // namespace moert::cuda::kernels

#endif // MOE_LIB_RUNTIME_CUDA_KERNELS_SUMS_H
