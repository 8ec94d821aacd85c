//===- CApi.cpp - The runtime in C ----------------------------------------===//

#include "Backend.h"

#include <algorithm>
#include <cstring>

using namespace moert;

struct moe_rt {
  std::unique_ptr<Engine> engine;
  std::string error;
};

namespace {

using Getter = bool (Engine::*)(const std::string &, NamedTensor &,
                                std::string &) const;

bool checkCount(moe_rt *rt, const char *name, int64_t count) {
  int64_t elements = moe_rt_parameter_elements(rt, name);
  rt->error.clear();
  if (elements < 0)
    rt->error = "the program has no parameter '" + std::string(name) + "'";
  else if (elements != count)
    rt->error = "parameter '" + std::string(name) + "' has " +
                std::to_string(elements) + " elements, not " +
                std::to_string(count);
  return rt->error.empty();
}

int get(moe_rt *rt, Getter getter, const char *name, float *values,
        int64_t count) {
  NamedTensor tensor;
  if (!checkCount(rt, name, count) ||
      !(rt->engine.get()->*getter)(name, tensor, rt->error))
    return 1;
  std::copy(tensor.values.begin(), tensor.values.end(), values);
  return 0;
}

} // namespace

const char *moe_rt_missing(void) {
  static thread_local std::string missing;
  missing = missingForEngine();
  return missing.c_str();
}

moe_rt *moe_rt_create(const char *json, size_t size,
                      const moe_rt_options *options, char *error,
                      size_t errorSize) {
  auto rt = std::make_unique<moe_rt>();
  moe_rt_options defaults{};
  defaults.threads = 2;
  defaults.poison = 1;
  Table table;
  if (fromJson(std::string(json, size), table, rt->error))
    rt->engine = createEngine(table, options ? *options : defaults, rt->error);
  if (rt->engine)
    return rt.release();
  if (error && errorSize) {
    size_t length = std::min(rt->error.size(), errorSize - 1);
    std::memcpy(error, rt->error.data(), length);
    error[length] = 0;
  }
  return nullptr;
}

void moe_rt_destroy(moe_rt *rt) { delete rt; }

const char *moe_rt_error(const moe_rt *rt) { return rt->error.c_str(); }

size_t moe_rt_parameter_count(const moe_rt *rt) {
  return rt->engine->parameterNames().size();
}

const char *moe_rt_parameter_name(const moe_rt *rt, size_t index) {
  const std::vector<std::string> &names = rt->engine->parameterNames();
  return index < names.size() ? names[index].c_str() : nullptr;
}

int64_t moe_rt_parameter_elements(const moe_rt *rt, const char *name) {
  const std::vector<int64_t> *shape = rt->engine->parameterShape(name);
  if (!shape)
    return -1;
  int64_t elements = 1;
  for (int64_t dim : *shape)
    elements *= dim;
  return elements;
}

int moe_rt_initialize(moe_rt *rt, uint64_t seed) {
  return !rt->engine->initialize(seed, rt->error);
}

int moe_rt_set_parameter(moe_rt *rt, const char *name, const float *values,
                         int64_t count) {
  return !checkCount(rt, name, count) ||
         !rt->engine->setParameter({name,
                                    *rt->engine->parameterShape(name),
                                    {values, values + count}},
                                   rt->error);
}

int moe_rt_get_parameter(moe_rt *rt, const char *name, float *values,
                         int64_t count) {
  return get(rt, &Engine::parameter, name, values, count);
}

int moe_rt_get_gradient(moe_rt *rt, const char *name, float *values,
                        int64_t count) {
  return get(rt, &Engine::gradient, name, values, count);
}

int moe_rt_load_weights(moe_rt *rt, const char *path) {
  return !rt->engine->loadParameters(path, rt->error);
}

int moe_rt_save_weights(moe_rt *rt, const char *path) {
  return !rt->engine->saveParameters(path, rt->error);
}

int moe_rt_save_gradients(moe_rt *rt, const char *path) {
  return !rt->engine->saveGradients(path, rt->error);
}

int64_t moe_rt_rank(const moe_rt *rt) { return rt->engine->rank(); }

int64_t moe_rt_sequence(const moe_rt *rt) { return rt->engine->sequence(); }

int64_t moe_rt_token_count(const moe_rt *rt) {
  return rt->engine->tokenCount();
}

int moe_rt_random_tokens(moe_rt *rt, uint64_t seed, int64_t step,
                         int32_t *tokens) {
  rt->error.clear();
  std::vector<int32_t> random = rt->engine->randomTokens(seed, step);
  std::copy(random.begin(), random.end(), tokens);
  return 0;
}

int moe_rt_step(moe_rt *rt, const int32_t *tokens, int64_t count, float *loss,
                float *gradNorm) {
  StepResult result;
  if (count < 0) {
    rt->error = "the number of tokens is negative";
    return 1;
  }
  if (!rt->engine->step({tokens, tokens + count}, result, rt->error))
    return 1;
  if (loss)
    *loss = result.loss;
  if (gradNorm)
    *gradNorm = result.gradNorm;
  return 0;
}
