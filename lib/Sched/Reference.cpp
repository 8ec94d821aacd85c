#include "moe/Sched/Reference.h"

#include "moe/Sched/Build.h"
#include "moe/Verify/ValueMap.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace mlir::moe;

namespace {

/// Checks that a schedule is of the same job as the reference: what symbolic
/// values don't show. Addresses are the schedule's own.
class SameJob {
public:
  SameJob(ModuleOp module, const moert::Table &reference)
      : module(module), reference(reference) {}

  LogicalResult check(const moert::Table &table) {
    expect("schedule", "stages", table.programs.size(),
           reference.programs.size());
    expect("schedule", "ranks", table.ranks, reference.ranks);
    expect("schedule", "micro-batches", table.microBatches,
           reference.microBatches);
    expect("schedule", "samples of a micro-batch", table.microBatchSamples,
           reference.microBatchSamples);
    expect("schedule", "sequence", table.sequence, reference.sequence);
    expect("schedule", "data-parallel ranks", table.dataParallel,
           reference.dataParallel);
    expect("schedule", "vocabulary", table.vocabulary, reference.vocabulary);
    if (failed(result))
      return result;
    checkCommunicators(table);
    for (size_t p = 0; p < table.programs.size(); ++p) {
      const moert::Program &got = table.programs[p];
      const moert::Program &want = reference.programs[p];
      std::string where = "program '" + got.name + "'";
      expect(where, "first rank", got.firstRank, want.firstRank);
      expect(where, "ranks", got.rankCount, want.rankCount);
      checkPlaces(table, p);
      checkParameters(got, want);
    }
    return result;
  }

private:
  void fail(const Twine &message) {
    emitError(module.getLoc()) << "value: " << message;
    result = failure();
  }

  void expect(const Twine &where, StringRef what, int64_t got, int64_t want) {
    if (got != want)
      fail(where + ": " + what + " " + Twine(got) + ", but " + Twine(want) +
           " in the kernels-phase program");
  }

  /// Collectives are told apart by the names of their communicators.
  void checkCommunicators(const moert::Table &table) {
    for (const moert::Communicator &got : table.communicators)
      for (const moert::Communicator &want : reference.communicators)
        if (got.name == want.name &&
            (got.size != want.size || got.stride != want.stride))
          fail("communicator '" + got.name +
               "' joins other ranks than in the kernels-phase program");
  }

  /// What the reference leaves the schedule must leave, too.
  void checkPlaces(const moert::Table &table, uint32_t program) {
    std::set<std::string> places;
    for (const moert::NamedRange &range : moert::finalRanges(table, program))
      places.insert(range.name);
    for (const moert::NamedRange &range :
         moert::finalRanges(reference, program))
      if (!places.count(range.name))
        fail("program '" + table.programs[program].name +
             "' has no place for '" + range.name + "'");
  }

  /// Of parameters, values know the first name only.
  void checkParameters(const moert::Program &got, const moert::Program &want) {
    llvm::StringMap<const moert::Parameter *> wanted;
    for (const moert::Parameter &parameter : want.parameters)
      wanted[parameter.names.front()] = &parameter;
    for (const moert::Parameter &p : got.parameters) {
      const moert::Parameter *w = wanted.lookup(p.names.front());
      if (!w || p.names != w->names || p.type != w->type ||
          p.shape != w->shape || p.storedShape != w->storedShape ||
          p.shardedOver != w->shardedOver || p.init != w->init)
        fail("program '" + got.name + "': parameter '" + p.names.front() +
             "' is not that of the kernels-phase program");
    }
  }

  ModuleOp module;
  const moert::Table &reference;
  LogicalResult result = success();
};

} // namespace

FailureOr<std::vector<moert::ExpectedValue>>
mlir::moe::referenceValues(ModuleOp module, const moert::Table &table,
                           std::vector<uint64_t> *known) {
  ScheduleOptions serial;
  serial.pipeline = moert::PipelineKind::Serial;
  std::vector<moert::OrderReport> orders;
  FailureOr<moert::Table> reference =
      buildTable(module, serial, moert::System(), orders);
  if (failed(reference) || failed(SameJob(module, *reference).check(table)))
    return failure();
  llvm::StringMap<uint64_t> values;
  for (const moert::ExpectedValue &value :
       moert::valuesAfterStep(*reference, known))
    values[std::to_string(value.program) + "/" + value.name] = value.value;
  std::vector<moert::ExpectedValue> expected;
  for (uint32_t p = 0; p < table.programs.size(); ++p)
    for (const moert::NamedRange &range : moert::finalRanges(table, p)) {
      moert::ExpectedValue value;
      value.name = range.name;
      value.program = p;
      value.address = range.range.begin;
      value.bytes = range.range.end - range.range.begin;
      // A place that the reference has not: no value is right.
      value.value = values.lookup(std::to_string(p) + "/" + range.name);
      expected.push_back(value);
    }
  return expected;
}
