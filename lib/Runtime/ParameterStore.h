//===- ParameterStore.h - Stored tensors over ranks -----------------------===//
//
// Where the elements of each stored tensor lie: in the weights of every rank
// that holds their block, and in the f32 master shards of the buckets.
// Everything else is the same for all machines: memory is behind an interface.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_LIB_RUNTIME_PARAMETERSTORE_H
#define MOE_LIB_RUNTIME_PARAMETERSTORE_H

#include "Ranks.h"
#include "moe/Runtime/Engine.h"

#include <unordered_map>

namespace moert {

/// Arenas of the ranks that live in this process; the others' are out of reach.
class RankMemory {
public:
  virtual ~RankMemory() = default;
  virtual bool has(int64_t rank) const = 0;
  virtual void read(int64_t rank, int64_t address, void *to,
                    int64_t bytes) const = 0;
  virtual void write(int64_t rank, int64_t address, const void *from,
                     int64_t bytes) = 0;
  virtual void zero(int64_t rank, int64_t address, int64_t bytes) = 0;
  /// Adds the values of all processes, each calls it with as many.
  virtual void sumOverProcesses(std::vector<float> &values) const {}
};

class ParameterStore {
public:
  /// The table and the memory outlive the store.
  ParameterStore(const Table &table, RankMemory &memory);

  /// Fails if programs disagree on the shape of a stored tensor.
  std::string check() const;
  /// In the order of the programs.
  const std::vector<std::string> &names() const { return order; }

  /// Null: there is no such tensor.
  const std::vector<int64_t> *shape(const std::string &name) const;

  /// Random values, or ones, as Engine::initialize says.
  NamedTensor initial(const std::string &name, uint64_t seed) const;
  /// Empty, or why the tensor can't be set.
  std::string misfit(const NamedTensor &tensor) const;
  std::string misfit(const std::string &name,
                     const std::vector<int64_t> &shape) const;
  /// Sets it if it fits; returns the misfit. Rounds to the parameter's type.
  std::string set(const NamedTensor &tensor);
  /// From the master shards where there are any, else from the weights.
  NamedTensor value(const std::string &name) const;
  /// Sum of the gradients of all ranks that hold the tensor.
  NamedTensor gradient(const std::string &name) const;

  /// Zeros in moments, and in what pads buckets.
  void resetOptimizer();
  /// A name that was never set; empty: all were.
  std::string unset() const;

private:
  /// One appearance of a stored tensor in a program.
  struct Place {
    uint32_t program;
    const Parameter *parameter;
    /// Position in the sharding group of the ranks that hold it.
    int64_t block;
    /// Its first element in the local tensor.
    int64_t offset;
    /// Null: the parameter is in no bucket. Else its first element there.
    const Bucket *bucket;
    int64_t inBucket;
  };

  NamedTensor empty(const std::string &name) const;
  void resetBucket(const Program &program, const Bucket &bucket, int64_t rank);
  /// Calls `visit` with the number of each rank that holds the place.
  template <typename F> void forRanks(const Place &place, F visit) const;
  /// Calls `visit(address, first, count)` for the part of the tensor whose
  /// master values the rank keeps: elements [first, first + count).
  template <typename F>
  void ofShard(const Place &place, int64_t rank, F visit) const;
  /// Values in the rank's memory, as f32.
  void load(int64_t rank, ElementType type, int64_t address, int64_t count,
            float *to) const;

  const Table &table;
  RankMemory &memory;
  std::vector<std::string> order;
  std::unordered_map<std::string, std::vector<Place>> places;
  std::unordered_map<std::string, bool> isSet;
};

} // namespace moert

#endif // MOE_LIB_RUNTIME_PARAMETERSTORE_H
