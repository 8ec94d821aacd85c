//===- TableTest.cpp - Table to IR and back -------------------------------===//

#include "moe/Target/Table.h"

#include "SmallJob.h"
#include "SmallTable.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace mlir::moe;
using moert::CollectiveKind;
using moert::Effect;
using moert::ElementType;

namespace {

class TableToIr : public testing::Test {
protected:
  TableToIr() {
    context.loadDialect<MoeDialect, sched::SchedDialect>();
    handler.emplace(&context, [this](Diagnostic &diagnostic) {
      errors += diagnostic.str() + "\n";
      return success();
    });
  }

  OwningOpRef<ModuleOp> emit(const moert::Table &table) {
    OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
    EXPECT_TRUE(succeeded(emitSchedule(*module, table))) << errors;
    EXPECT_TRUE(succeeded(verify(*module))) << errors;
    return module;
  }
  static std::string print(ModuleOp module) {
    std::string text;
    llvm::raw_string_ostream os(text);
    module.print(os);
    return text;
  }
  std::string json(ModuleOp module) {
    FailureOr<moert::Table> table = tabulate(module);
    EXPECT_TRUE(succeeded(table)) << errors;
    return failed(table) ? "" : moert::toJson(*table);
  }
  /// The table itself, and the table by way of text, come back as they were.
  void expectRoundTrip(const moert::Table &table) {
    ASSERT_EQ(moert::checkTable(table), std::vector<std::string>());
    std::string expected = moert::toJson(table);
    OwningOpRef<ModuleOp> module = emit(table);
    EXPECT_EQ(json(*module), expected);
    std::string text = print(*module);
    OwningOpRef<ModuleOp> parsed = parseSourceString<ModuleOp>(text, &context);
    ASSERT_TRUE(parsed) << errors << text;
    EXPECT_EQ(json(*parsed), expected);
    EXPECT_EQ(print(*parsed), text);
  }

  MLIRContext context;
  std::string errors;
  std::optional<ScopedDiagnosticHandler> handler;
};

TEST_F(TableToIr, KeepsSmallTable) { expectRoundTrip(smallTable()); }

TEST_F(TableToIr, KeepsJobsOfStages) {
  for (int64_t stages : {1, 3})
    for (int64_t experts : {1, 4})
      expectRoundTrip(moert::test::smallJob({stages, 2, 3, experts}));
}

TEST_F(TableToIr, KeepsWhatIsRare) {
  moert::Table table = smallTable();
  table.target = "";
  table.microBatchSamples = 3;
  table.memoryLimit = 1 << 20;
  moert::Kernel &kernel = table.kernels[0];
  kernel.provider = moert::Provider::Generated;
  kernel.numericClass = moert::NumericClass::RowInvariant;
  kernel.attributes = {{"a b", 1e300}, {"zero", 0}};
  // A second capture whose ops others wait for, inside and outside; an event
  // that two captures share; a scalar; names that are no SSA names.
  moert::Template &t = table.templates[0];
  t.frames[0].name = "the x";
  t.imports = {"0", "0"};
  t.captures = {{"first"}, {"second"}, {"empty"}};
  moert::Op add = t.ops[0];
  add.module = "norm";
  add.bytes = 0.1;
  add.operands[0].shape = {};
  add.operands[0].type = ElementType::BF16;
  std::vector<moert::Op> ops(6, add);
  ops[1].capture = ops[2].capture = 0;
  ops[3].capture = 1;
  ops[1].waits = {{false, 0}, {true, 1}};
  ops[2].waits = {{false, 1}};
  ops[3].waits = {{false, 1}, {false, 2}};
  ops[4].waits = {{false, 3}, {false, 1}, {false, 3}};
  t.ops = ops;
  for (size_t i : {0, 1})
    table.programs[0].calls[i].imports = {{}, {}};
  table.programs[0].calls[1].imports[1] = {0, 1};
  expectRoundTrip(table);
}

TEST_F(TableToIr, ReplacesTheJobAndNothingElse) {
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(
      "moe.layer @l(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
      "  moe.return %x : tensor<4xf32>\n}\n",
      &context);
  ASSERT_TRUE(module) << errors;
  ASSERT_TRUE(succeeded(emitSchedule(*module, moert::test::smallJob())));
  ASSERT_TRUE(succeeded(emitSchedule(*module, smallTable())));
  EXPECT_EQ(json(*module), moert::toJson(smallTable()));
  EXPECT_TRUE(module->lookupSymbol("l"));
}

TEST_F(TableToIr, RejectsNamesThatClash) {
  moert::Table table = smallTable();
  table.templates[1].name = table.streams[0].name;
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
  EXPECT_TRUE(failed(emitSchedule(*module, table)));
  EXPECT_EQ(errors, "a stream and a template are both named 'compute'; the "
                    "names of a schedule must differ\n");
  EXPECT_TRUE(module->getBody()->empty());
}

TEST_F(TableToIr, FindsOpsByIndex) {
  moert::Table table = moert::test::smallJob();
  OwningOpRef<ModuleOp> module = emit(table);
  for (size_t t = 0; t < table.templates.size(); ++t) {
    const std::vector<moert::Op> &ops = table.templates[t].ops;
    for (size_t i = 0; i < ops.size(); ++i) {
      auto op = cast<sched::IssuedOpInterface>(findIssuedOp(*module, t, i));
      EXPECT_EQ(op.getLocation(), ops[i].location);
    }
    EXPECT_FALSE(findIssuedOp(*module, t, ops.size()));
  }
  EXPECT_FALSE(findIssuedOp(*module, table.templates.size(), 0));
  EXPECT_FALSE(findIssuedOp(*module, 0, -1));
}

} // namespace
