//===- Kernels.h - The kernels of the host engine -------------------------===//
//
// A kernel is found by Kernel::op of the table. Operands come in the order of
// the moe op of the same name: what it reads, then what it writes; `rw` marks
// an accumulator that is read and written in place.
//
// T: tokens of a micro-batch, k: experts per token, E: local experts, C: rows
// of a ragged buffer (a capacity), n heads, g groups of key/value heads, d:
// width of a head. "x" is f32 or bf16 (arithmetic in f32, rounded on store,
// to nearest even); "f32" and "i32" are what they say. `rows` is i32[E]: the
// rows of each expert, contiguous from row 0; rows past their sum are neither
// read nor written.
//
//   embedding            table x[V,h], ids i32[T] -> y x[T,h]
//   embedding_wgrad      ids, dy x[T,h], acc f32[V,h] rw
//   rms_norm             x[T,n], w x[d] -> y[T,n]     {eps}; n = m*d: each run
//                        of d columns is normalised on its own
//   rms_norm_dgrad       x, w, dy -> dx               {eps}
//   rms_norm_wgrad       x, dy, acc f32[d] rw         {eps}
//   linear               x[T,in], w[out,in] -> y[T,out]
//   linear_dgrad         dy[T,out], w[out,in] -> dx[T,in]
//   linear_wgrad         x[T,in], dy[T,out], acc f32[out,in] rw
//   rope                 x[T,m*d] -> y    {head_dim, base, sequence, inverse}
//                        halves rotated; position = row mod sequence
//   attention            q x[T,n*d], k x[T,g*d], v x[T,g*d] -> o x[T,n*d],
//                        lse f32[T,n]  {heads, kv_heads, head_dim, sequence,
//                        scale}; causal within each sequence
//   attention_grad       q, k, v, o, lse, do -> dq, dk, dv       {same}
//   route                logits x[T,E'] -> probs x[T,k], indices i32[T,k]
//                        {normalize}: softmax in f32, the k largest (equal:
//                        the lowest expert first), divided by their sum if
//                        normalize
//   route_grad           logits, probs, indices, dprobs -> dlogits {normalize}
//   permutation          indices i32[T,k] -> map i32[T,k], counts i32[E']:
//                        map is the row of each copy in expert-major,
//                        token-ascending order
//   permute              x[T,w], map -> y[T*k,w]
//   unpermute            y[T*k,w], map -> x[T,w]: sum of the k copies in slot
//                        order, in f32
//   permute_probs        probs x[T,k], map -> p x[T*k]
//   unpermute_probs      p x[T*k], map -> probs x[T,k]
//   local_rows           recv i32[R*E] -> rows i32[E]  {ranks}: sums over the
//                        R source ranks
//   sort_chunks          x[C,w] or x[C], recv i32[R*E] -> y  {ranks, inverse}:
//                        from [rank][expert] to [expert][rank] order of
//                        chunks; inverse: back
//   grouped_linear       x[C,in], w[E,out,in], rows -> y[C,out]
//   grouped_linear_dgrad dy[C,out], w, rows -> dx[C,in]
//   grouped_linear_wgrad x[C,in], dy[C,out], rows, acc f32[E,out,in] rw
//   swiglu               x[C,2f], p x[C], rows -> a[C,f]: silu of the first
//                        half times the second, times p
//   swiglu_grad          x, p, da, rows -> dx[C,2f], dp[C]
//   add                  a, b -> y
//   cross_entropy        logits x[T,V], labels i32[T] -> loss f32[1] {scale}:
//                        scale times the sum over rows
//   cross_entropy_grad   logits, labels -> dlogits   {scale}
//   zero                 -> y f32[n]
//   sum                  x f32[n] -> y f32[1]: in order
//   sum_squares          x f32[n] -> y f32[1]
//   grad_norm            x f32[n] -> y f32[1]: square root of the sum
//   adamw                grad f32[m], norm f32[1], step i32[1], flag i32[1],
//                        master f32[m] rw, m f32[m] rw, v f32[m] rw
//                        -> w x[m]  {lr, beta1, beta2, eps, weight_decay,
//                        clip}. Does nothing (w, too, is left) if flag != 0;
//                        step counts from 1; clip 0: off, else the gradient
//                        is scaled by min(1, clip / (norm + 1e-6))
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_KERNELS_H
#define MOE_RUNTIME_KERNELS_H

#include "moe/Table/Table.h"

namespace moert {

/// One launch: the kernel of the table and a pointer for each operand of the
/// op (whose type and shape are in `operands`).
struct Launch {
  const Kernel *kernel = nullptr;
  const std::vector<Operand> *operands = nullptr;
  void *const *pointers = nullptr;

  double attribute(const char *name) const {
    return kernel->attributes.at(name);
  }
};

/// How the host runs a kernel: as tiles that may run on any thread, in any
/// order, and write disjoint ranges, so that the bits do not depend on it.
struct HostKernel {
  int64_t (*tiles)(const Launch &) = nullptr;
  void (*run)(const Launch &, int64_t tile) = nullptr;
};

/// The library's kernel `op`, or null.
const HostKernel *findHostKernel(const std::string &op);

/// Checks attributes and the operands' number, types and shapes against the
/// list above; empty if they fit, else what is wrong.
std::string checkSignature(const Kernel &kernel,
                           const std::vector<Operand> &operands);

/// The same, and whether this processor runs the library's kernels. Used
/// before a table runs.
std::string checkLaunch(const Kernel &kernel,
                        const std::vector<Operand> &operands);

} // namespace moert

#endif // MOE_RUNTIME_KERNELS_H
