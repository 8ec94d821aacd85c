#include "moe/Sched/Reference.h"

#include "moe/Sched/Build.h"
#include "moe/Verify/ValueMap.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace mlir::moe;

FailureOr<std::vector<moert::ExpectedValue>>
mlir::moe::referenceValues(ModuleOp module, const moert::Table &table) {
  ScheduleOptions serial;
  serial.pipeline = moert::PipelineKind::Serial;
  std::vector<moert::OrderReport> orders;
  FailureOr<moert::Table> reference =
      buildTable(module, serial, moert::System(), orders);
  if (failed(reference))
    return failure();
  if (reference->programs.size() != table.programs.size())
    return module.emitError() << "the schedule has " << table.programs.size()
                              << " stages, its kernels-phase program "
                              << reference->programs.size();
  llvm::StringMap<uint64_t> values;
  for (const moert::ExpectedValue &value :
       moert::valuesAfterStep(*reference, nullptr))
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
