//===- Attention.h - Causal attention by cuDNN ------------------*- C++ -*-===//
//
// Scaled dot product attention, bf16, forward and backward, as one plan of
// cuDNN's graph API each. Tensors are those of `attention` and
// `attention_grad` in Kernels.h: rows are tokens, [T, heads * headDim], T =
// batch * sequence; causal within a sequence; lse is f32 [T, heads], the
// natural logarithm. headDim is a multiple of 8, at most 256 (backward of
// Blackwell: 128).
//
// Forward has the same bits in every run. Backward may sum dq in any order, see
// deterministicWorkspace; engine() says so.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_LIB_RUNTIME_CUDA_ATTENTION_H
#define MOE_LIB_RUNTIME_CUDA_ATTENTION_H

#include <cstdint>
#include <memory>
#include <string>

struct cudnnContext;
struct CUstream_st;

namespace moert::cuda {

struct AttentionShape {
  int64_t batch = 1, sequence = 1, heads = 1, kvHeads = 1, headDim = 1;
  double scale = 1;
  bool backward = false;
  /// Bytes of workspace up to which backward has the same bits in every run.
  /// Hopper's deterministic kernel keeps a bf16 matrix [batch, heads, sequence,
  /// sequence], 1 GiB for 32 heads and 4096 tokens, which no memory plan wants;
  /// Blackwell's (cuDNN 9.18 to 9.22) is linear in the sequence.
  int64_t deterministicWorkspace = int64_t(512) << 20;

  bool operator<(const AttentionShape &other) const;
};

class AttentionPlan {
public:
  /// Builds the plan; null and `error` (cuDNN's own words, and the shape) if
  /// no engine supports it. `deviceProperties`: JSON of a device to build for
  /// where there is none (and `handle` is null), else null.
  static std::unique_ptr<AttentionPlan>
  create(cudnnContext *handle, const AttentionShape &shape, std::string &error,
         const char *deviceProperties = nullptr);
  ~AttentionPlan();

  /// Bytes of scratch memory that a launch needs, aligned to 256; may be 0.
  int64_t workspaceBytes() const;
  /// Name of the plan's main kernel, the engine's number, and ", not
  /// deterministic" where that is so: for reports. Takes milliseconds.
  std::string engine() const;
  /// Operands in the order of Kernels.h. Runs on the handle's stream. Returns
  /// what is wrong; empty: launched.
  std::string launch(cudnnContext *handle, void *const *pointers,
                     void *workspace) const;

private:
  struct Impl;
  explicit AttentionPlan(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace moert::cuda

#endif // MOE_LIB_RUNTIME_CUDA_ATTENTION_H
