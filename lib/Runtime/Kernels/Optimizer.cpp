//===- Optimizer.cpp - AdamW ----------------------------------------------===//

#include "Library.h"
#include "Support.h"

using namespace moert;
using namespace moert::kernels;

namespace {

/// Operands grad, norm, step, flag, master, m, v -> w. The steps and roundings
/// of torch.optim.AdamW (one tensor at a time) after clip_grad_norm_: scalars
/// in double, tensors in f32.
template <typename T> void runAdamW(const Args &args, int64_t tile) {
  if (*args.pointer<int32_t>(3) != 0)
    return;
  const float *grad = args.pointer<float>(0);
  float *master = args.pointer<float>(4), *m = args.pointer<float>(5),
        *v = args.pointer<float>(6);
  T *w = args.pointer<T>(7);
  double lr = args.real("lr"), beta1 = args.real("beta1");
  double beta2 = args.real("beta2"), clip = args.real("clip");
  int32_t step = *args.pointer<int32_t>(2);
  double correction1 = 1.0 - std::pow(beta1, step);
  double correction2 = std::sqrt(1.0 - std::pow(beta2, step));
  float factor = 1.0f;
  if (clip > 0.0) {
    // As torch: a norm that is not finite makes a NaN of the gradient.
    factor = float(clip) / (*args.pointer<float>(1) + 1e-6f);
    factor = factor > 1.0f ? 1.0f : factor;
  }
  float decay = float(1.0 - lr * args.real("weight_decay"));
  float keep2 = float(beta2), take1 = float(1.0 - beta1);
  float take2 = float(1.0 - beta2), eps = float(args.real("eps"));
  float rootCorrection = float(correction2), rate = float(-lr / correction1);
  Range r = tileElements<0>(args, tile);
  for (int64_t i = r.begin; i < r.end; ++i) {
    float g = grad[i] * factor;
    float p = master[i] * decay;
    float m1 = m[i] + take1 * (g - m[i]);
    float v1 = v[i] * keep2 + take2 * g * g;
    float denominator = std::sqrt(v1) / rootCorrection + eps;
    p += rate * m1 / denominator;
    master[i] = p;
    m[i] = m1;
    v[i] = v1;
    store(w[i], p);
  }
}

} // namespace

const HostKernel kernels::adamw = {flatTiles<0>,
                                   typed<7, runAdamW<float>, runAdamW<BF16>>};
