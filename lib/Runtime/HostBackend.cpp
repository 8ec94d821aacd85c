//===- HostBackend.cpp - moe_rt.h on CPUs ---------------------------------===//

#include "Backend.h"

using namespace moert;

std::unique_ptr<Engine> moert::createEngine(const Table &table,
                                            const moe_rt_options &options,
                                            std::string &error) {
  EngineOptions engineOptions;
  engineOptions.threads = options.threads;
  engineOptions.orderSeed = options.order_seed;
  engineOptions.poison = options.poison != 0;
  std::map<std::string, GeneratedKernel> generated;
  for (size_t i = 0; i < options.kernel_count; ++i)
    generated[options.kernels[i].name] = options.kernels[i].code;
  return Engine::create(table, engineOptions, generated, error);
}

std::string moert::missingForEngine() { return ""; }
