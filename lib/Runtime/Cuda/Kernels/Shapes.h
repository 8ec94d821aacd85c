//===- Shapes.h - Sizes and places of the experts' products -----*- C++ -*-===//

#ifndef MOE_LIB_RUNTIME_CUDA_KERNELS_SHAPES_H
#define MOE_LIB_RUNTIME_CUDA_KERNELS_SHAPES_H

#include "Group.h"

namespace moert::cuda::kernels {

/// What a grouped product reads on the device, all in one piece of memory. Of
/// each expert: where its part of x[C, in], y[C, out] and w[E, out, in] begins,
/// and its sizes. For the product as a whole: op(a) op(b) alpha + c beta.
struct GroupArrays {
  void **x, **y, **w;
  int32_t *in, *out, *rows;
  float *alpha, *beta;

  MOE_HOST_DEVICE GroupArrays(void *memory, int64_t experts) {
    x = static_cast<void **>(memory);
    y = x + experts;
    w = y + experts;
    in = reinterpret_cast<int32_t *>(w + experts);
    out = in + experts;
    rows = out + experts;
    alpha = reinterpret_cast<float *>(rows + experts);
    beta = alpha + 1;
  }
  static int64_t bytes(int64_t experts) {
    return experts * 3 * int64_t(sizeof(void *) + sizeof(int32_t)) +
           2 * int64_t(sizeof(float));
  }
};

/// group_shapes: rows, x, y, w -> GroupArrays. Of x, y and w only addresses and
/// dimensions are used. Numbers: bytes of an element of x and y, of w; beta.
/// One warp: there are few experts.
struct GroupShapes : SimpleKernel {
  template <typename Block>
  MOE_DEVICE static void run(Block block, Shared &, const Arguments &a) {
    using Warp = typename Block::Warp;
    const Warp &warp = block.warp;
    if (toWarps(block).first != 0)
      return;
    const int32_t *rows = pointer<int32_t>(a, 0);
    int64_t experts = a.dims[0][0], capacity = a.dims[1][0];
    int64_t out = a.dims[3][1], in = a.dims[3][2];
    int64_t bytes = int64_t(a.numbers[0]), weightBytes = int64_t(a.numbers[1]);
    GroupArrays arrays(a.pointers[4], experts);
    int64_t through = 0;
    for (int64_t begin = 0; begin < experts; begin += Warp::kSize) {
      int64_t e = begin + warp.rank(), total;
      // Counts come from memory that a fault may have spoiled.
      int64_t n = e < experts && rows[e] > 0 ? rows[e] : 0;
      int64_t first = through + sumBefore(warp, n, total);
      through += total;
      if (e >= experts)
        continue;
      // What exceeds the capacity was not received.
      first = first < capacity ? first : capacity;
      n = n < capacity - first ? n : capacity - first;
      arrays.x[e] = pointer<char>(a, 1) + first * in * bytes;
      arrays.y[e] = pointer<char>(a, 2) + first * out * bytes;
      arrays.w[e] = pointer<char>(a, 3) + e * out * in * weightBytes;
      arrays.in[e] = int32_t(in);
      arrays.out[e] = int32_t(out);
      arrays.rows[e] = int32_t(n);
    }
    if (warp.rank() == 0) {
      *arrays.alpha = 1.0f;
      *arrays.beta = float(a.numbers[2]);
    }
  }
  static int64_t blocks(const Arguments &) { return 1; }
};

} // namespace moert::cuda::kernels

#endif // MOE_LIB_RUNTIME_CUDA_KERNELS_SHAPES_H
