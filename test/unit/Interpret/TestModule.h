//===- TestModule.h - Small modules for the interpreter's tests -----------===//

#ifndef MOE_TEST_UNIT_INTERPRET_TESTMODULE_H
#define MOE_TEST_UNIT_INTERPRET_TESTMODULE_H

#include "mlir/Parser/Parser.h"
#include "moe/Interpret/Interpreter.h"
#include "moe/Runtime/Random.h"

namespace moe_test {

/// Parses a module; keeps the text of errors.
struct TestModule {
  mlir::MLIRContext context;
  std::string errors;
  mlir::ScopedDiagnosticHandler handler;
  mlir::OwningOpRef<mlir::ModuleOp> module;

  explicit TestModule(const std::string &text)
      : handler(&context, [this](mlir::Diagnostic &diagnostic) {
          errors += diagnostic.str() + "\n";
          return mlir::success();
        }) {
    context.loadDialect<mlir::moe::MoeDialect>();
    module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  }
};

/// Standard normal numbers that depend on the name and seed alone.
inline std::vector<double> normals(const std::string &name, size_t count,
                                   uint64_t seed = 1) {
  std::vector<double> values(count);
  uint64_t key = moert::randomKey(seed, name);
  for (size_t i = 0; i < count; ++i)
    values[i] = moert::randomNormal(key, i);
  return values;
}

/// The programs that FiniteDifferenceTest.cpp and DualTest.cpp run.
std::string finiteDifferenceTestText();
std::string dualTestText();

} // namespace moe_test

#endif // MOE_TEST_UNIT_INTERPRET_TESTMODULE_H
