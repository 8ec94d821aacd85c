//===- Engine.cpp - The host engine ---------------------------------------===//

#include "moe/Runtime/Engine.h"
#include "Executor.h"
#include "ParameterStore.h"
#include "moe/Runtime/Random.h"

#include <algorithm>
#include <set>

using namespace moert;

struct Engine::Impl {
  Table table;
  std::vector<Rank> ranks;
  std::vector<KernelCode> code;
  std::unique_ptr<ParameterStore> store;
  std::unique_ptr<Executor> executor;
  /// Steps that are done.
  int64_t steps = 0;

  std::string
  findKernels(const std::map<std::string, GeneratedKernel> &generated);
  std::string checkPrograms() const;
  std::string allocate(bool poison);
  void writeInputs(const std::vector<int32_t> &tokens);
  float read(int64_t Program::*address) const;
};

Engine::Engine(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
Engine::~Engine() = default;

//===----------------------------------------------------------------------===//
// Creation
//===----------------------------------------------------------------------===//

std::string Engine::Impl::findKernels(
    const std::map<std::string, GeneratedKernel> &generated) {
  for (const Kernel &kernel : table.kernels) {
    KernelCode found;
    if (kernel.provider == Provider::Library) {
      found.library = findHostKernel(kernel.op);
    } else {
      auto entry = generated.find(kernel.name);
      if (entry != generated.end())
        found.generated = entry->second;
    }
    if (!found.library && !found.generated)
      return "kernel '" + kernel.name + "': " +
             (kernel.provider == Provider::Library
                  ? "the library has no '" + kernel.op + "'"
                  : "its code is missing");
    code.push_back(found);
  }
  for (const Template &t : table.templates)
    for (const Op &op : t.ops) {
      if (op.kind != OpKind::Launch || !code[op.kernel].library)
        continue;
      const Kernel &kernel = table.kernels[op.kernel];
      std::string problem = checkLaunch(kernel, op.operands);
      if (!problem.empty())
        return "template '" + t.name + "', '" + op.location + "', kernel '" +
               kernel.name + "': " + problem;
    }
  return "";
}

std::string Engine::Impl::checkPrograms() const {
  for (const Program &p : table.programs)
    if ((p.tokens >= 0 || p.labels >= 0) && p.rankCount != table.dataParallel)
      return "program '" + p.name + "' reads micro-batches on " +
             std::to_string(p.rankCount) + " ranks, dataParallel is " +
             std::to_string(table.dataParallel);
  return "";
}

std::string Engine::Impl::allocate(bool poison) {
  // Each fits 60 bits; many may not fit 64.
  double needed = 0, available = double(availableMemory());
  for (const Program &p : table.programs)
    needed += double(p.arenaBytes) * double(p.rankCount);
  if (needed > available)
    return "the arenas of " + std::to_string(table.ranks) + " ranks need " +
           std::to_string(int64_t(needed / 1e6)) + " MB, the machine has " +
           std::to_string(int64_t(available / 1e6)) + " MB available";
  std::vector<uint32_t> owner(table.ranks);
  for (uint32_t p = 0; p < table.programs.size(); ++p)
    std::fill_n(owner.begin() + table.programs[p].firstRank,
                table.programs[p].rankCount, p);
  for (int64_t i = 0; i < table.ranks; ++i) {
    int64_t bytes = table.programs[owner[i]].arenaBytes;
    ranks.push_back({i, owner[i], Arena(bytes)});
    if (!ranks.back().arena.data())
      return "no memory for the arena of rank " + std::to_string(i);
    if (poison)
      std::memset(ranks.back().arena.data(), 0xff, bytes);
  }
  return "";
}

std::unique_ptr<Engine>
Engine::create(const Table &table, const EngineOptions &options,
               const std::map<std::string, GeneratedKernel> &generated,
               std::string &error) {
  error.clear();
  auto impl = std::make_unique<Impl>();
  impl->table = table;
  if (options.threads < 1)
    error = "the engine needs at least one thread";
  if (error.empty()) {
    std::vector<std::string> problems = checkTable(table);
    if (!problems.empty())
      error = problems[0];
  }
  if (error.empty())
    error = impl->findKernels(generated);
  if (error.empty())
    error = impl->checkPrograms();
  if (error.empty())
    error = impl->allocate(options.poison);
  if (error.empty()) {
    impl->store = std::make_unique<ParameterStore>(impl->table, impl->ranks);
    error = impl->store->check();
  }
  if (!error.empty())
    return nullptr;
  impl->executor =
      std::make_unique<Executor>(impl->table, impl->ranks, impl->code, options);
  return std::unique_ptr<Engine>(new Engine(std::move(impl)));
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

void Engine::Impl::writeInputs(const std::vector<int32_t> &tokens) {
  int64_t b = table.microBatchSamples, length = table.sequence;
  for (const Rank &rank : ranks) {
    const Program &p = table.programs[rank.program];
    int64_t replica = rank.number - p.firstRank;
    for (int64_t m = 0; m < table.microBatches; ++m)
      for (int64_t j = 0; j < b; ++j) {
        int64_t sample = (m * table.dataParallel + replica) * b + j;
        const int32_t *from = tokens.data() + sample * (length + 1);
        int64_t to = (m * b + j) * length;
        if (p.tokens >= 0)
          std::copy_n(from, length, rank.arena.at<int32_t>(p.tokens) + to);
        if (p.labels >= 0)
          std::copy_n(from + 1, length, rank.arena.at<int32_t>(p.labels) + to);
      }
    if (p.step >= 0)
      *rank.arena.at<int32_t>(p.step) = int32_t(steps + 1);
    for (int64_t address : {p.loss, p.flag})
      if (address >= 0)
        *rank.arena.at<int32_t>(address) = 0;
  }
}

/// The value of the last program that has it; its ranks hold the same.
float Engine::Impl::read(int64_t Program::*address) const {
  float value = 0;
  for (const Program &p : table.programs)
    if (p.*address >= 0)
      value = *ranks[p.firstRank].arena.at<float>(p.*address);
  return value;
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
  impl->writeInputs(tokens);
  if (!impl->executor->run(error))
    return false;
  ++impl->steps;
  result.loss = impl->read(&Program::loss);
  result.gradNorm = impl->read(&Program::gradNorm);
  return true;
}

const std::map<std::string, int64_t> &Engine::sentBytes() const {
  return impl->executor->sentBytes();
}

int64_t Engine::tokenCount() const {
  const Table &t = impl->table;
  return t.microBatches * t.dataParallel * t.microBatchSamples *
         (t.sequence + 1);
}

std::vector<int32_t> Engine::randomTokens(uint64_t seed, int64_t step) const {
  return moert::randomTokens(seed, step, tokenCount(), impl->table.vocabulary);
}
