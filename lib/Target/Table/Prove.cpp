//===- Prove.cpp - The five proofs, told at the ops -----------------------===//

#include "moe/Sched/Reference.h"
#include "moe/Support/Units.h"
#include "moe/Target/Table.h"
#include "moe/Verify/Verify.h"

using namespace mlir;
using namespace mlir::moe;

static void reportFault(const moert::Table &table, const moert::Fault &fault,
                        ModuleOp module, Location unknown) {
  Operation *op = module ? findIssuedOp(module, fault.tmpl, fault.op) : nullptr;
  InFlightDiagnostic diagnostic = emitError(op       ? op->getLoc()
                                            : module ? module.getLoc()
                                                     : unknown);
  diagnostic << fault.message;
  if (fault.count > 1)
    diagnostic << " (" << fault.count << " times)";
  if (Operation *other =
          module ? findIssuedOp(module, fault.otherTmpl, fault.otherOp)
                 : nullptr)
    if (other != op)
      diagnostic.attachNote(other->getLoc()) << "the other op";
}

LogicalResult moe::proveSchedule(const moert::Table &table, ModuleOp module,
                                 MLIRContext *context, raw_ostream &report) {
  moert::VerifyOptions options;
  std::vector<moert::ExpectedValue> expected;
  options.value = module && !module.getOps<TrainOp>().empty();
  if (options.value) {
    FailureOr<std::vector<moert::ExpectedValue>> reference =
        referenceValues(module, table);
    if (failed(reference))
      return failure();
    expected = std::move(*reference);
  }
  moert::VerifyResult result = moert::verify(table, expected, options);
  auto strays = [](const moert::Fault &fault) {
    return fault.proof == moert::Proof::Value;
  };
  if (options.value && llvm::any_of(result.faults, strays)) {
    // Once more, to name the op where the first wrong value comes from.
    (void)referenceValues(module, table, &options.known);
    result = moert::verify(table, expected, options);
  }
  for (const moert::Fault &fault : result.faults)
    reportFault(table, fault, module, UnknownLoc::get(context));
  if (!result.ok())
    return failure();

  int64_t highWater = 0;
  for (int64_t bytes : result.highWater)
    highWater = std::max(highWater, bytes);
  report << "verified: " << result.ops << " ops, ";
  if (options.value)
    report << "5 proofs (race, agreement, memory, capture, value)";
  else
    report << "4 proofs (race, agreement, memory, capture; value not checked: "
           << (module ? "the module has" : "a table has")
           << " no kernels-phase program)";
  report << ", high-water " << describeBytes(highWater);
  if (table.memoryLimit > 0)
    report << " of " << describeBytes(table.memoryLimit);
  report << "\n";
  return success();
}
