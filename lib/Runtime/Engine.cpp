//===- Engine.cpp - What the engines of all machines share ----------------===//

#include "moe/Runtime/Engine.h"
#include "EngineImpl.h"
#include "moe/Runtime/Random.h"
#include "moe/Runtime/Safetensors.h"

#include <algorithm>
#include <set>

using namespace moert;

Engine::Engine(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
Engine::~Engine() = default;

std::string Engine::Impl::check() const {
  std::vector<std::string> problems = checkTable(table);
  if (!problems.empty())
    return problems[0];
  for (const Program &p : table.programs)
    if ((p.tokens >= 0 || p.labels >= 0) && p.rankCount != table.dataParallel)
      return "program '" + p.name + "' reads micro-batches on " +
             std::to_string(p.rankCount) + " ranks, dataParallel is " +
             std::to_string(table.dataParallel);
  return "";
}

const Program &Engine::Impl::programOf(int64_t rank) const {
  for (const Program &p : table.programs)
    if (rank >= p.firstRank && rank < p.firstRank + p.rankCount)
      return p;
  return table.programs.front(); // checkTable: each rank has one.
}

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

/// New values: no moments, step 1 is next.
static void restart(Engine::Impl &impl) {
  impl.store->resetOptimizer();
  impl.steps = 0;
}

bool Engine::initialize(uint64_t seed, std::string &error) {
  return attempt(error, [&] {
    for (const std::string &name : impl->store->names())
      impl->store->set(impl->store->initial(name, seed));
    restart(*impl);
  });
}

bool Engine::setParameter(const NamedTensor &tensor, std::string &error) {
  return attempt(error, [&] {
    error = impl->store->set(tensor);
    if (error.empty())
      restart(*impl);
  });
}

/// Why these are not all parameters, each once; empty: they are.
static std::string checkAll(const ParameterStore &store,
                            const std::vector<NamedTensor> &tensors) {
  std::set<std::string> missing(store.names().begin(), store.names().end());
  for (const NamedTensor &tensor : tensors) {
    std::string problem = store.misfit(tensor.name, tensor.shape);
    if (problem.empty() && !missing.erase(tensor.name))
      problem = "parameter '" + tensor.name + "' is there twice";
    if (!problem.empty())
      return problem;
  }
  return missing.empty() ? ""
                         : "parameter '" + *missing.begin() + "' is missing";
}

bool Engine::setParameters(const std::vector<NamedTensor> &tensors,
                           std::string &error) {
  return attempt(error, [&] {
    error = checkAll(*impl->store, tensors);
    for (const NamedTensor &tensor : tensors)
      if (error.empty())
        error = impl->store->misfit(tensor);
    if (!error.empty())
      return;
    for (const NamedTensor &tensor : tensors)
      impl->store->set(tensor);
    restart(*impl);
  });
}

bool Engine::loadParameters(const std::string &path, std::string &error) {
  return attempt(error, [&] {
    bool taken = false;
    readSafetensors(
        path,
        [&](const std::vector<NamedTensor> &tensors) {
          return checkAll(*impl->store, tensors);
        },
        [&](const NamedTensor &tensor) {
          taken = true;
          return impl->store->set(tensor);
        },
        error);
    // A file that can't be taken changes nothing.
    if (taken)
      restart(*impl);
  });
}

/// ParameterStore's value or gradient.
using Getter = NamedTensor (ParameterStore::*)(const std::string &) const;

static bool save(const Engine::Impl &impl, Getter get, const std::string &path,
                 std::string &error) {
  return attempt(error, [&] {
    const ParameterStore &store = *impl.store;
    const std::vector<std::string> &names = store.names();
    size_t next = 0;
    if (impl.rank() == 0) {
      std::vector<NamedTensor> shapes;
      for (const std::string &name : names)
        shapes.push_back({name, *store.shape(name), {}});
      writeSafetensors(
          path, shapes,
          [&](size_t i) {
            next = i + 1;
            return (store.*get)(names[i]).values;
          },
          error);
    }
    // The others send their parts, also of what can't be written any more.
    for (; next < names.size(); ++next)
      (store.*get)(names[next]);
  });
}

/// Empty, or which parameter has none.
static std::string checkValues(const ParameterStore &store) {
  std::string unset = store.unset();
  return unset.empty() ? "" : "parameter '" + unset + "' has no value yet";
}

bool Engine::saveParameters(const std::string &path, std::string &error) const {
  error = checkValues(*impl->store);
  return error.empty() && save(*impl, &ParameterStore::value, path, error);
}

bool Engine::saveGradients(const std::string &path, std::string &error) const {
  return save(*impl, &ParameterStore::gradient, path, error);
}

const std::vector<std::string> &Engine::parameterNames() const {
  return impl->store->names();
}

const std::vector<int64_t> *
Engine::parameterShape(const std::string &name) const {
  return impl->store->shape(name);
}

static bool read(const ParameterStore &store, Getter get,
                 const std::string &name, NamedTensor &tensor,
                 std::string &error) {
  return attempt(error, [&] {
    if (store.shape(name))
      tensor = (store.*get)(name);
    else
      error = "the program has no parameter '" + name + "'";
  });
}

static bool readAll(const ParameterStore &store, Getter get,
                    std::vector<NamedTensor> &tensors, std::string &error) {
  return attempt(error, [&] {
    tensors.clear();
    for (const std::string &name : store.names())
      tensors.push_back((store.*get)(name));
  });
}

bool Engine::parameter(const std::string &name, NamedTensor &tensor,
                       std::string &error) const {
  return read(*impl->store, &ParameterStore::value, name, tensor, error);
}

bool Engine::gradient(const std::string &name, NamedTensor &tensor,
                      std::string &error) const {
  return read(*impl->store, &ParameterStore::gradient, name, tensor, error);
}

bool Engine::parameters(std::vector<NamedTensor> &tensors,
                        std::string &error) const {
  return readAll(*impl->store, &ParameterStore::value, tensors, error);
}

bool Engine::gradients(std::vector<NamedTensor> &tensors,
                       std::string &error) const {
  return readAll(*impl->store, &ParameterStore::gradient, tensors, error);
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

void Engine::Impl::writeInputs(RankMemory &memory, int64_t rank,
                               const std::vector<int32_t> &tokens) const {
  const Program &p = programOf(rank);
  int64_t b = table.microBatchSamples, length = table.sequence;
  int64_t replica = rank - p.firstRank;
  for (int64_t m = 0; m < table.microBatches; ++m)
    for (int64_t j = 0; j < b; ++j) {
      int64_t sample = (m * table.dataParallel + replica) * b + j;
      const int32_t *from = tokens.data() + sample * (length + 1);
      int64_t to = 4 * (m * b + j) * length;
      if (p.tokens >= 0)
        memory.write(rank, p.tokens + to, from, 4 * length);
      if (p.labels >= 0)
        memory.write(rank, p.labels + to, from + 1, 4 * length);
    }
  int32_t number = int32_t(steps + 1);
  if (p.step >= 0)
    memory.write(rank, p.step, &number, 4);
  for (int64_t address : {p.loss, p.flag})
    if (address >= 0)
      memory.zero(rank, address, 4);
}

/// Why a step can't take them; empty: it can.
static std::string checkTokens(const std::vector<int32_t> &tokens,
                               int64_t expected, int64_t vocabulary) {
  if (int64_t(tokens.size()) != expected)
    return "a step takes " + std::to_string(expected) + " tokens, got " +
           std::to_string(tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i)
    if (tokens[i] < 0 || tokens[i] >= vocabulary)
      return "token " + std::to_string(i) + " is " + std::to_string(tokens[i]) +
             ", the vocabulary has " + std::to_string(vocabulary);
  return "";
}

bool Engine::step(const std::vector<int32_t> &tokens, StepResult &result,
                  std::string &error) {
  return attempt(error, [&] {
    error = checkValues(*impl->store);
    if (error.empty())
      error = checkTokens(tokens, tokenCount(), impl->table.vocabulary);
    if (error.empty() && impl->run(tokens, result, error))
      ++impl->steps;
  });
}

const std::map<std::string, int64_t> &Engine::sentBytes() const {
  return impl->sent;
}

int64_t Engine::tokenCount() const {
  const Table &t = impl->table;
  return t.microBatches * t.dataParallel * t.microBatchSamples *
         (t.sequence + 1);
}

std::vector<std::pair<std::string, std::string>>
Engine::implementations() const {
  std::vector<std::pair<std::string, std::string>> result;
  for (uint32_t i = 0; i < impl->table.kernels.size(); ++i) {
    std::string name = impl->implementation(i);
    if (!name.empty())
      result.emplace_back(impl->table.kernels[i].name, name);
  }
  return result;
}

int64_t Engine::sequence() const { return impl->table.sequence; }

int64_t Engine::rank() const { return impl->rank(); }

std::vector<int32_t> Engine::randomTokens(uint64_t seed, int64_t step) const {
  return moert::randomTokens(seed, step, tokenCount(), impl->table.vocabulary);
}
