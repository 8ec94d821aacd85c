//===- Fault.h - Faults that tests plant in the runtime ---------*- C++ -*-===//
//
// The library is built a second time with MOE_RT_FAULTS, for tests: they must
// see the stand-in find each fault that MOE_RT_FAULT names.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_LIB_RUNTIME_CUDA_FAULT_H
#define MOE_LIB_RUNTIME_CUDA_FAULT_H

#ifdef MOE_RT_FAULTS

#include <cstdlib>
#include <cstring>

namespace moert::cuda {
inline bool planted(const char *fault) {
  const char *chosen = std::getenv("MOE_RT_FAULT");
  return chosen && !std::strcmp(chosen, fault);
}
} // namespace moert::cuda

#else

namespace moert::cuda {
constexpr bool planted(const char *) { return false; }
} // namespace moert::cuda

#endif

#endif // MOE_LIB_RUNTIME_CUDA_FAULT_H
