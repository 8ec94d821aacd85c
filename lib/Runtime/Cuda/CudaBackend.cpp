//===- CudaBackend.cpp - moe_rt.h on NVIDIA GPUs --------------------------===//

#include "../Backend.h"
#include "moe/Runtime/CudaEngine.h"

using namespace moert;

std::unique_ptr<Engine> moert::createEngine(const Table &table,
                                            const moe_rt_options &options,
                                            std::string &error) {
  return createCudaEngine(table, {options.image, options.image_size}, error);
}

std::string moert::missingForEngine() { return missingForCuda(); }
