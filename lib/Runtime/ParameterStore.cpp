//===- ParameterStore.cpp - Stored tensors over ranks ---------------------===//

#include "ParameterStore.h"
#include "moe/Runtime/Random.h"

#include <algorithm>

using namespace moert;

static int64_t product(const std::vector<int64_t> &shape) {
  int64_t count = 1;
  for (int64_t dim : shape)
    count *= dim;
  return count;
}

ParameterStore::ParameterStore(const Table &table,
                               const std::vector<Rank> &ranks)
    : table(table), ranks(ranks) {
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
    visit(ranks[rank].arena.at<float>(place.bucket->master) + begin -
              shardBegin,
          begin - place.inBucket, end - begin);
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

std::string ParameterStore::misfit(const NamedTensor &tensor) const {
  const std::vector<int64_t> *expected = shape(tensor.name);
  if (!expected)
    return "the program has no parameter '" + tensor.name + "'";
  if (tensor.shape != *expected ||
      int64_t(tensor.values.size()) != product(tensor.shape))
    return "parameter '" + tensor.name + "' has another shape here";
  return "";
}

std::string ParameterStore::set(const NamedTensor &tensor) {
  std::string problem = misfit(tensor);
  if (!problem.empty())
    return problem;
  const std::vector<float> &values = tensor.values;
  for (const Place &place : places.at(tensor.name))
    forRanks(place, [&](int64_t rank) {
      const Arena &arena = ranks[rank].arena;
      if (place.parameter->type == ElementType::F32)
        std::copy(values.begin(), values.end(),
                  arena.at<float>(place.parameter->address) + place.offset);
      else
        std::transform(values.begin(), values.end(),
                       arena.at<uint16_t>(place.parameter->address) +
                           place.offset,
                       toBfloat16);
      ofShard(place, rank, [&](float *master, int64_t first, int64_t count) {
        std::copy_n(values.begin() + first, count, master);
      });
    });
  isSet[tensor.name] = true;
  return "";
}

NamedTensor ParameterStore::value(const std::string &name) const {
  NamedTensor tensor = empty(name);
  // Tied tensors are equal in all places.
  const Place &place = places.at(name)[0];
  forRanks(place, [&](int64_t rank) {
    ofShard(place, rank, [&](float *master, int64_t first, int64_t count) {
      std::copy_n(master, count, tensor.values.begin() + first);
    });
    if (place.bucket)
      return;
    const Arena &arena = ranks[rank].arena;
    if (place.parameter->type == ElementType::F32)
      std::copy_n(arena.at<float>(place.parameter->address) + place.offset,
                  tensor.values.size(), tensor.values.begin());
    else
      std::transform(arena.at<uint16_t>(place.parameter->address) +
                         place.offset,
                     arena.at<uint16_t>(place.parameter->address) +
                         place.offset + tensor.values.size(),
                     tensor.values.begin(), fromBfloat16);
  });
  return tensor;
}

NamedTensor ParameterStore::gradient(const std::string &name) const {
  NamedTensor tensor = empty(name);
  std::vector<double> sum(tensor.values.size());
  for (const Place &place : places.at(name))
    forRanks(place, [&](int64_t rank) {
      const float *local =
          ranks[rank].arena.at<float>(place.parameter->gradient) + place.offset;
      for (size_t i = 0; i < sum.size(); ++i)
        sum[i] += local[i];
    });
  std::copy(sum.begin(), sum.end(), tensor.values.begin());
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
  for (const Rank &rank : ranks) {
    const Program &program = table.programs[rank.program];
    for (const Bucket &bucket : program.buckets) {
      const Communicator &c = table.communicators[bucket.communicator];
      int64_t shard = bucket.elements / c.size;
      int64_t first = positionIn(c, rank.number) * shard;
      for (int64_t moment : {bucket.moment1, bucket.moment2})
        std::fill_n(rank.arena.at<float>(moment), shard, 0.0f);
      // The norm and the optimizer run over whole buckets.
      forPadding(program, bucket, [&](int64_t begin, int64_t end) {
        std::fill(rank.arena.at<float>(bucket.gradients) + begin,
                  rank.arena.at<float>(bucket.gradients) + end, 0.0f);
        begin = std::clamp(begin - first, int64_t(0), shard);
        end = std::clamp(end - first, int64_t(0), shard);
        std::fill(rank.arena.at<float>(bucket.master) + begin,
                  rank.arena.at<float>(bucket.master) + end, 0.0f);
      });
    }
  }
}

std::string ParameterStore::unset() const {
  for (const std::string &name : order)
    if (!isSet.count(name))
      return name;
  return "";
}
