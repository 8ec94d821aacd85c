//===- Backend.h - The machine behind moe_rt.h ----------------------------===//
//
// Each of the libraries MoeRtHost and MoeRtCuda has one.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_LIB_RUNTIME_BACKEND_H
#define MOE_LIB_RUNTIME_BACKEND_H

#include "moe/Runtime/Engine.h"
#include "moe/Runtime/moe_rt.h"

namespace moert {

std::unique_ptr<Engine> createEngine(const Table &table,
                                     const moe_rt_options &options,
                                     std::string &error);
/// What the machine lacks, empty: nothing.
std::string missingForEngine();

/// Options with the kernels of the program that is linked in (Program.h).
moe_rt_options programOptions(const moe_rt_options &options);

} // namespace moert

#endif // MOE_LIB_RUNTIME_BACKEND_H
