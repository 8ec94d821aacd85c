//===- Engine.cpp - What the engines of all machines share ----------------===//

#include "moe/Runtime/Engine.h"
#include "EngineImpl.h"
#include "moe/Runtime/Random.h"

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

void Engine::initialize(uint64_t seed) {
  for (const std::string &name : impl->store->names())
    impl->store->set(impl->store->initial(name, seed));
  impl->store->resetOptimizer();
  impl->steps = 0;
}

bool Engine::setParameter(const NamedTensor &tensor, std::string &error) {
  error = impl->store->set(tensor);
  if (!error.empty())
    return false;
  impl->store->resetOptimizer();
  impl->steps = 0;
  return true;
}

bool Engine::setParameters(const std::vector<NamedTensor> &tensors,
                           std::string &error) {
  error.clear();
  std::set<std::string> missing(parameterNames().begin(),
                                parameterNames().end());
  for (const NamedTensor &tensor : tensors) {
    error = impl->store->misfit(tensor);
    if (error.empty() && !missing.erase(tensor.name))
      error = "parameter '" + tensor.name + "' is there twice";
    if (!error.empty())
      return false;
  }
  if (!missing.empty()) {
    error = "parameter '" + *missing.begin() + "' is missing";
    return false;
  }
  for (const NamedTensor &tensor : tensors)
    if (!setParameter(tensor, error))
      return false;
  return true;
}

const std::vector<std::string> &Engine::parameterNames() const {
  return impl->store->names();
}

const std::vector<int64_t> *
Engine::parameterShape(const std::string &name) const {
  return impl->store->shape(name);
}

NamedTensor Engine::parameter(const std::string &name) const {
  return impl->store->value(name);
}

NamedTensor Engine::gradient(const std::string &name) const {
  return impl->store->gradient(name);
}

std::vector<NamedTensor> Engine::parameters() const {
  std::vector<NamedTensor> tensors;
  for (const std::string &name : parameterNames())
    tensors.push_back(parameter(name));
  return tensors;
}

std::vector<NamedTensor> Engine::gradients() const {
  std::vector<NamedTensor> tensors;
  for (const std::string &name : parameterNames())
    tensors.push_back(gradient(name));
  return tensors;
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

bool Engine::step(const std::vector<int32_t> &tokens, StepResult &result,
                  std::string &error) {
  error.clear();
  int64_t expected = tokenCount();
  std::string unset = impl->store->unset();
  if (!unset.empty())
    error = "parameter '" + unset + "' has no value yet";
  else if (int64_t(tokens.size()) != expected)
    error = "a step takes " + std::to_string(expected) + " tokens, got " +
            std::to_string(tokens.size());
  for (size_t i = 0; i < tokens.size() && error.empty(); ++i)
    if (tokens[i] < 0 || tokens[i] >= impl->table.vocabulary)
      error = "token " + std::to_string(i) + " is " +
              std::to_string(tokens[i]) + ", the vocabulary has " +
              std::to_string(impl->table.vocabulary);
  if (!error.empty())
    return false;
  if (!impl->run(tokens, result, error))
    return false;
  ++impl->steps;
  return true;
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
