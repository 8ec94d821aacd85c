//===- ParameterStore.cpp - Stored tensors over ranks ---------------------===//

#include "ParameterStore.h"
#include "moe/Runtime/Random.h"

#include <algorithm>
#include <set>

using namespace moert;

static int64_t product(const std::vector<int64_t> &shape) {
  int64_t count = 1;
  for (int64_t dim : shape)
    count *= dim;
  return count;
}

ParameterStore::ParameterStore(const Table &table, RankMemory &memory)
    : table(table), memory(memory) {
  for (uint32_t p = 0; p < table.programs.size(); ++p)
    for (const Parameter &parameter : table.programs[p].parameters) {
      const Bucket *owner = nullptr;
      for (const Bucket &bucket : table.programs[p].buckets)
        if (parameter.gradient >= bucket.gradients &&
            parameter.gradient < bucket.gradients + bucket.elements * 4)
          owner = &bucket;
      int64_t blocks = parameter.shardedOver < 0
                           ? 1
                           : table.communicators[parameter.shardedOver].size;
      int64_t perBlock = parameter.names.size() / blocks;
      int64_t stored = product(parameter.storedShape);
      for (size_t i = 0; i < parameter.names.size(); ++i) {
        int64_t offset = i % perBlock * stored;
        int64_t inBucket =
            owner ? (parameter.gradient - owner->gradients) / 4 + offset : 0;
        std::vector<Place> &list = places[parameter.names[i]];
        if (list.empty())
          order.push_back(parameter.names[i]);
        list.push_back(
            {p, &parameter, int64_t(i) / perBlock, offset, owner, inBucket});
      }
    }
}

std::string ParameterStore::check() const {
  for (const std::string &name : order)
    for (const Place &place : places.at(name))
      if (place.parameter->storedShape !=
          places.at(name)[0].parameter->storedShape)
        return "parameter '" + name + "' is stored in two shapes";
  return "";
}

template <typename F>
void ParameterStore::forRanks(const Place &place, F visit) const {
  const Program &program = table.programs[place.program];
  int32_t over = place.parameter->shardedOver;
  for (int64_t i = 0; i < program.rankCount; ++i) {
    int64_t rank = program.firstRank + i;
    if (over < 0 || positionIn(table.communicators[over], rank) == place.block)
      visit(rank);
  }
}

template <typename F>
void ParameterStore::ofShard(const Place &place, int64_t rank, F visit) const {
  if (!place.bucket)
    return;
  const Communicator &c = table.communicators[place.bucket->communicator];
  int64_t shard = place.bucket->elements / c.size;
  int64_t shardBegin = positionIn(c, rank) * shard;
  int64_t begin = std::max(place.inBucket, shardBegin);
  int64_t end = std::min(place.inBucket + product(place.parameter->storedShape),
                         shardBegin + shard);
  if (begin < end)
    visit(place.bucket->master + 4 * (begin - shardBegin),
          begin - place.inBucket, end - begin);
}

void ParameterStore::load(int64_t rank, ElementType type, int64_t address,
                          int64_t count, float *to) const {
  if (type == ElementType::F32)
    return memory.read(rank, address, to, 4 * count);
  std::vector<uint16_t> rounded(count);
  memory.read(rank, address, rounded.data(), 2 * count);
  std::transform(rounded.begin(), rounded.end(), to, fromBfloat16);
}

NamedTensor ParameterStore::empty(const std::string &name) const {
  const std::vector<int64_t> &shape = places.at(name)[0].parameter->storedShape;
  return {name, shape, std::vector<float>(product(shape))};
}

NamedTensor ParameterStore::initial(const std::string &name,
                                    uint64_t seed) const {
  NamedTensor tensor = empty(name);
  if (places.at(name)[0].parameter->init == 0) {
    std::fill(tensor.values.begin(), tensor.values.end(), 1.0f);
    return tensor;
  }
  uint64_t key = randomKey(seed, name);
  for (size_t i = 0; i < tensor.values.size(); ++i)
    tensor.values[i] = float(table.initStd * randomNormal(key, i));
  return tensor;
}

const std::vector<int64_t> *
ParameterStore::shape(const std::string &name) const {
  auto found = places.find(name);
  return found == places.end() ? nullptr
                               : &found->second[0].parameter->storedShape;
}

std::string ParameterStore::misfit(const std::string &name,
                                   const std::vector<int64_t> &given) const {
  const std::vector<int64_t> *expected = shape(name);
  if (!expected)
    return "the program has no parameter '" + name + "'";
  if (given != *expected)
    return "parameter '" + name + "' has another shape here";
  return "";
}

std::string ParameterStore::misfit(const NamedTensor &tensor) const {
  std::string problem = misfit(tensor.name, tensor.shape);
  if (problem.empty() && int64_t(tensor.values.size()) != product(tensor.shape))
    return "parameter '" + tensor.name + "' has another shape here";
  return problem;
}

std::string ParameterStore::set(const NamedTensor &tensor) {
  std::string problem = misfit(tensor);
  if (!problem.empty())
    return problem;
  const std::vector<float> &values = tensor.values;
  std::vector<uint16_t> rounded(values.size());
  std::transform(values.begin(), values.end(), rounded.begin(), toBfloat16);
  for (const Place &place : places.at(tensor.name))
    forRanks(place, [&](int64_t rank) {
      if (!memory.has(rank))
        return;
      bool exact = place.parameter->type == ElementType::F32;
      int64_t width = elementBytes(place.parameter->type);
      memory.write(rank, place.parameter->address + width * place.offset,
                   exact ? static_cast<const void *>(values.data())
                         : rounded.data(),
                   width * values.size());
      ofShard(place, rank, [&](int64_t master, int64_t first, int64_t count) {
        memory.write(rank, master, values.data() + first, 4 * count);
      });
    });
  isSet[tensor.name] = true;
  return "";
}

NamedTensor ParameterStore::value(const std::string &name) const {
  NamedTensor tensor = empty(name);
  // Tied tensors are equal in all places, and copies are equal: of each part
  // the first rank's counts.
  const Place &place = places.at(name)[0];
  std::set<int64_t> counted;
  forRanks(place, [&](int64_t rank) {
    ofShard(place, rank, [&](int64_t master, int64_t first, int64_t count) {
      if (counted.insert(first).second && memory.has(rank))
        memory.read(rank, master, tensor.values.data() + first, 4 * count);
    });
    if (!place.bucket && counted.insert(0).second && memory.has(rank)) {
      int64_t width = elementBytes(place.parameter->type);
      load(rank, place.parameter->type,
           place.parameter->address + width * place.offset,
           tensor.values.size(), tensor.values.data());
    }
  });
  memory.sumOverProcesses(tensor.values);
  return tensor;
}

NamedTensor ParameterStore::gradient(const std::string &name) const {
  NamedTensor tensor = empty(name);
  std::vector<double> sum(tensor.values.size());
  std::vector<float> local(tensor.values.size());
  for (const Place &place : places.at(name))
    forRanks(place, [&](int64_t rank) {
      if (!memory.has(rank))
        return;
      load(rank, ElementType::F32, place.parameter->gradient + 4 * place.offset,
           local.size(), local.data());
      for (size_t i = 0; i < sum.size(); ++i)
        sum[i] += local[i];
    });
  std::copy(sum.begin(), sum.end(), tensor.values.begin());
  memory.sumOverProcesses(tensor.values);
  return tensor;
}

/// Calls `visit(begin, end)` for each run of a bucket that no parameter fills.
template <typename F>
static void forPadding(const Program &program, const Bucket &bucket, F visit) {
  std::vector<std::pair<int64_t, int64_t>> filled;
  for (const Parameter &parameter : program.parameters) {
    int64_t begin = (parameter.gradient - bucket.gradients) / 4;
    if (parameter.gradient >= bucket.gradients && begin < bucket.elements)
      filled.push_back({begin, begin + product(parameter.shape)});
  }
  std::sort(filled.begin(), filled.end());
  filled.push_back({bucket.elements, bucket.elements});
  int64_t at = 0;
  for (auto [begin, end] : filled) {
    if (at < begin)
      visit(at, begin);
    at = std::max(at, end);
  }
}

void ParameterStore::resetOptimizer() {
  for (const Program &program : table.programs)
    for (int64_t i = 0; i < program.rankCount; ++i)
      if (memory.has(program.firstRank + i))
        for (const Bucket &bucket : program.buckets)
          resetBucket(program, bucket, program.firstRank + i);
}

void ParameterStore::resetBucket(const Program &program, const Bucket &bucket,
                                 int64_t rank) {
  const Communicator &c = table.communicators[bucket.communicator];
  int64_t shard = bucket.elements / c.size;
  int64_t first = positionIn(c, rank) * shard;
  for (int64_t moment : {bucket.moment1, bucket.moment2})
    memory.zero(rank, moment, 4 * shard);
  // The norm and the optimizer run over whole buckets.
  forPadding(program, bucket, [&](int64_t begin, int64_t end) {
    memory.zero(rank, bucket.gradients + 4 * begin, 4 * (end - begin));
    begin = std::clamp(begin - first, int64_t(0), shard);
    end = std::clamp(end - first, int64_t(0), shard);
    memory.zero(rank, bucket.master + 4 * begin, 4 * (end - begin));
  });
}

std::string ParameterStore::unset() const {
  for (const std::string &name : order)
    if (!isSet.count(name))
      return name;
  return "";
}
