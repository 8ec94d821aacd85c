//===- EngineImpl.h - What the engines of all machines share --------------===//

#ifndef MOE_LIB_RUNTIME_ENGINEIMPL_H
#define MOE_LIB_RUNTIME_ENGINEIMPL_H

#include "ParameterStore.h"
#include "moe/Runtime/Engine.h"

namespace moert {

/// Runs `body`, which may write `error`, as may what it throws: machines do
/// when a call to them fails. True if neither did.
template <typename F> bool attempt(std::string &error, F body) {
  error.clear();
  try {
    body();
  } catch (const std::exception &e) {
    error = e.what();
  }
  return error.empty();
}

struct Engine::Impl {
  explicit Impl(const Table &table) : table(table) {}
  virtual ~Impl() = default;

  /// Runs step number `steps` + 1 on tokens that fit. False and `error`, or an
  /// exception, if it fails.
  virtual bool run(const std::vector<int32_t> &tokens, StepResult &result,
                   std::string &error) = 0;
  virtual int64_t rank() const { return 0; }
  /// What runs the kernel; empty: this process does not run it.
  virtual std::string implementation(uint32_t kernel) const = 0;
  /// Empty, or why the table's programs can't run. For derived classes, before
  /// they allocate memory.
  std::string check() const;
  /// Writes tokens, labels and the step's number of a rank, zeroes its loss and
  /// flag.
  void writeInputs(RankMemory &memory, int64_t rank,
                   const std::vector<int32_t> &tokens) const;
  const Program &programOf(int64_t rank) const;

  Table table;
  /// Made by the derived class.
  std::unique_ptr<ParameterStore> store;
  /// Steps that are done.
  int64_t steps = 0;
  /// What Engine::sentBytes returns.
  std::map<std::string, int64_t> sent;
};

} // namespace moert

#endif // MOE_LIB_RUNTIME_ENGINEIMPL_H
