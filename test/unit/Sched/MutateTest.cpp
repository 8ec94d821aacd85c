//===- MutateTest.cpp - Proofs and engine against planted faults ----------===//
//
// Tables as the compiler makes them, one thing changed at random: the proofs
// reject it, or the engine leaves the same bits in every order.
//
//===----------------------------------------------------------------------===//

#include "moe/Verify/Mutate.h"
#include "SmallModel.h"
#include "moe/Runtime/Engine.h"
#include "moe/Sched/Reference.h"
#include "moe/Verify/Verify.h"

#include <cstring>

using namespace mlir;
using namespace mlir::moe;
using moert::Fault;
using moert::Mutation;
using moert::PipelineKind;
using moert::Proof;
using moert::Table;

namespace {

constexpr uint64_t kOrders = 20;
/// Of each table.
constexpr int kMutants = 500;
/// Rejected ones that are run all the same.
constexpr int kSample = 60;

/// What a run leaves, bit by bit; a run that stops leaves its error.
struct Outcome {
  std::string error;
  std::vector<uint32_t> bits;

  bool operator==(const Outcome &o) const {
    return error == o.error && bits == o.bits;
  }
};

/// Two steps: the second one shows what the first left in the moments.
Outcome run(const Table &table, uint64_t order) {
  Outcome outcome;
  moert::EngineOptions options;
  options.orderSeed = order;
  // The ops are too small to share; the seed alone tells which comes next.
  options.threads = 1;
  auto engine = moert::Engine::create(table, options, {}, outcome.error);
  if (!engine)
    return outcome;
  if (!engine->initialize(1, outcome.error))
    return outcome;
  auto append = [&](const float *values, size_t count) {
    size_t at = outcome.bits.size();
    outcome.bits.resize(at + count);
    std::memcpy(&outcome.bits[at], values, count * sizeof(float));
  };
  for (int step = 0; step < 2; ++step) {
    moert::StepResult result;
    if (!engine->step(engine->randomTokens(1, step), result, outcome.error))
      return outcome;
    append(&result.loss, 1);
    append(&result.gradNorm, 1);
    std::vector<moert::NamedTensor> parameters, gradients;
    if (!engine->parameters(parameters, outcome.error) ||
        !engine->gradients(gradients, outcome.error))
      return outcome;
    for (const auto &tensors : {parameters, gradients})
      for (const moert::NamedTensor &tensor : tensors)
        append(tensor.values.data(), tensor.values.size());
  }
  return outcome;
}

/// The first order that does not leave `expected`, 0: there is none.
uint64_t findOtherOrder(const Table &table, const Outcome &expected) {
  for (uint64_t order = 1; order <= kOrders; ++order)
    if (!(run(table, order) == expected))
      return order;
  return 0;
}

/// Changes that are of a whole call.
bool isOfCall(const Mutation &mutation) {
  const std::string &kind = mutation.kind;
  return kind.find("call") != std::string::npos || kind == "change-base" ||
         kind == "change-import" || kind == "move-frame";
}

/// What ops use: bytes of programs' arenas, and communicators.
class Uses {
public:
  /// Adds an op of a template, `call`: of one call only, -1: of all.
  void add(const Table &table, int64_t tmpl, int64_t op, int64_t program = -1,
           int64_t call = -1) {
    for (uint32_t p = 0; p < table.programs.size(); ++p) {
      moert::ScheduleView view(table, p);
      const std::vector<moert::Call> &calls = table.programs[p].calls;
      for (int64_t c = 0; c < int64_t(calls.size()); ++c) {
        if (calls[c].tmpl != tmpl || (call >= 0 && (p != program || c != call)))
          continue;
        const moert::Op &it = view.op(c, op);
        for (const moert::Operand &operand : it.operands)
          ranges.emplace_back(p, view.range(c, operand));
        if (it.kind != moert::OpKind::Launch &&
            it.kind != moert::OpKind::HostRead)
          communicators.insert(it.communicator);
      }
    }
  }

  void addCall(const Table &table, int64_t program, int64_t call) {
    uint32_t tmpl = table.programs[program].calls[call].tmpl;
    for (size_t op = 0; op < table.templates[tmpl].ops.size(); ++op)
      add(table, tmpl, op, program, call);
  }

  bool meet(const Uses &other) const {
    for (uint32_t c : communicators)
      if (other.communicators.count(c))
        return true;
    for (auto [p, a] : ranges)
      for (auto [q, b] : other.ranges)
        if (p == q && a.begin < b.end && b.begin < a.end)
          return true;
    return false;
  }

private:
  std::vector<std::pair<uint32_t, moert::Range>> ranges;
  std::set<uint32_t> communicators;
};

/// What the change concerns, before and after it.
Uses usesOf(const Table &table, const Table &broken, const Mutation &mutation) {
  Uses uses;
  if (isOfCall(mutation)) {
    for (int64_t call : {mutation.call, mutation.otherCall})
      for (const Table *t : {&table, &broken})
        if (call >= 0 &&
            call < int64_t(t->programs[mutation.program].calls.size()))
          uses.addCall(*t, mutation.program, call);
    return uses;
  }
  bool isOfOne = mutation.tmpl >= int64_t(table.templates.size());
  int64_t call = isOfOne ? mutation.call : -1;
  for (int64_t op : {mutation.op, mutation.otherOp})
    for (const Table *t : {&table, &broken}) {
      uint32_t tmpl = t->programs[mutation.program].calls[mutation.call].tmpl;
      if (op >= 0 && op < int64_t(t->templates[tmpl].ops.size()))
        uses.add(*t, tmpl, op, mutation.program, call);
    }
  return uses;
}

/// Does the fault name what was changed?
bool names(const Mutation &mutation, const Fault &fault) {
  // What is too large is the whole arena.
  if (fault.proof == Proof::Memory)
    return fault.program == mutation.program;
  auto isChanged = [&](int64_t tmpl, int64_t op) {
    return tmpl == mutation.tmpl &&
           (isOfCall(mutation) || op == mutation.op || op == mutation.otherOp);
  };
  return isChanged(fault.tmpl, fault.op) ||
         (fault.otherOp >= 0 && isChanged(fault.otherTmpl, fault.otherOp));
}

/// Or who shares bytes or a communicator with it? Where something is missing,
/// those who miss it are named; of a result, nobody may be left to be.
bool concerns(const Table &table, const Table &broken, const Mutation &mutation,
              const Fault &fault) {
  if (fault.op < 0 && fault.proof == Proof::Value)
    return true;
  Uses named;
  if (fault.op >= 0)
    named.add(broken, fault.tmpl, fault.op);
  if (fault.otherOp >= 0)
    named.add(broken, fault.otherTmpl, fault.otherOp);
  return names(mutation, fault) || named.meet(usesOf(table, broken, mutation));
}

class MutateTest : public SmallModelTest {
protected:
  void check(const ScheduleOptions &options, Layout layout,
             std::vector<std::string> recompute) {
    OwningOpRef<ModuleOp> module =
        kernelsModule(recompute, layout, /*shrink=*/4);
    Table table = build(*module, options.pipeline, options.captured);
    auto isPair = [](const moert::Template &t) {
      return t.name.find("pair_") == 0;
    };
    ASSERT_EQ(llvm::any_of(table.templates, isPair),
              options.pipeline == PipelineKind::Paired);
    // Large weights, so that no term vanishes beside another in f32.
    table.initStd = 0.5;
    // Some more than planned: a small frame may move, a large one may not.
    table.memoryLimit = 0;
    for (const moert::Program &program : table.programs)
      table.memoryLimit = std::max(table.memoryLimit, program.arenaBytes + 128);
    moert::VerifyOptions verifyOptions;
    auto values = referenceValues(*module, table, &verifyOptions.known);
    ASSERT_TRUE(succeeded(values));
    for (const Fault &fault :
         moert::verify(table, *values, verifyOptions).faults)
      ADD_FAILURE() << fault.message;
    Outcome expected = run(table, 0);
    ASSERT_EQ(expected.error, "");
    ASSERT_EQ(findOtherOrder(table, expected), 0u);

    int illFormed = 0, accepted = 0, rejected = 0, named = 0, concerned = 0;
    int tried = 0, conservative = 0;
    std::map<Proof, int> byProof;
    for (int seed = 0; seed < kMutants; ++seed) {
      Table broken = table;
      Mutation mutation = moert::mutate(broken, seed);
      if (!moert::checkTable(broken).empty()) {
        ++illFormed;
        continue;
      }
      moert::VerifyResult result =
          moert::verify(broken, *values, verifyOptions);
      if (result.ok()) {
        ++accepted;
        uint64_t order = findOtherOrder(broken, expected);
        EXPECT_EQ(order, 0u) << "seed " << seed << ": " << mutation.description
                             << ": " << run(broken, order).error;
        continue;
      }
      ++rejected;
      std::set<Proof> proofs;
      bool isNamed = false, isConcerned = false;
      for (const Fault &fault : result.faults) {
        proofs.insert(fault.proof);
        isNamed |= names(mutation, fault);
        isConcerned |= concerns(table, broken, mutation, fault);
      }
      named += isNamed;
      concerned += isConcerned;
      for (Proof proof : proofs)
        ++byProof[proof];
      // Proofs reject more than shows: how much, is printed.
      if (tried < kSample) {
        ++tried;
        conservative += !findOtherOrder(broken, expected);
      }
    }
    std::printf("ill-formed %d, accepted %d, rejected %d (naming a changed op "
                "%d, or one that meets it %d); of the first %d rejected ones "
                "%d have the right bits\n",
                illFormed, accepted, rejected, named, concerned, tried,
                conservative);
    for (Proof proof : {Proof::Race, Proof::Agreement, Proof::Memory,
                        Proof::Capture, Proof::Value}) {
      std::printf("  %s rejects %d\n", moert::proofName(proof), byProof[proof]);
      EXPECT_GT(byProof[proof], 0) << moert::proofName(proof);
    }
    EXPECT_GT(accepted, 0);
    EXPECT_GT(named * 2, rejected);
    // Another micro-batch's gradient may be sent in place of the right one,
    // which shows only where the receiver computes with it: 6 of 12,150.
    EXPECT_GT(concerned * 100, rejected * 99);
  }
};

TEST_F(MutateTest, PairedOnTwoRanks) {
  check({PipelineKind::Paired, {"moe_router"}}, {2, 2, 1}, {"moe", "norm"});
}

TEST_F(MutateTest, OneFOneBOnTwoStages) {
  check({PipelineKind::OneFOneB, {"moe_router"}}, {2, 2, 2}, {"moe"});
}

TEST_F(MutateTest, PairedOnTwoStages) {
  check({PipelineKind::Paired, {"moe_router"}}, {2, 2, 2}, {"moe", "norm"});
}

} // namespace
