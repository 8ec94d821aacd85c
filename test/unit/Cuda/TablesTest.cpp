// The tables that the host engine is tested with, on the stand-in for the CUDA
// libraries: clean in 20 orders, to the same bits in each, and close to what
// the host engine computes. And tables with a fault: the stand-in, which knows
// nothing of the proofs, agrees with them.

#include "../Sched/Jobs.h"
#include "../Tolerances.h"
#include "StandIn.h"
#include "lib/Tools/MoeCompile/Link.h"
#include "moe/Sched/Reference.h"
#include "moe/Target/CudaKernels.h"
#include "moe/Target/HostKernels.h"
#include "moe/Tools/ScheduleFile.h"
#include "moe/Verify/Mutate.h"
#include "moe/Verify/Verify.h"

#include "llvm/Support/FileSystem.h"

#include <cstring>

using namespace mlir;
using namespace mlir::moe;
using namespace moe_test;
using moert::test::Outcome;

namespace {

constexpr uint64_t kOrders = 20;
constexpr int kMutants = 500;

class StandInTest : public SmallModelTest {
protected:
  ~StandInTest() override {
    for (const std::string &file : files)
      (void)llvm::sys::fs::remove(file);
  }

  /// Marks the kernels of the table that are generated, and compiles them for
  /// both architectures, and their twins. They are the same for all schedules
  /// of a job.
  void compile(ModuleOp program, moert::Table &table) {
    FailureOr<OwningOpRef<ModuleOp>> kernels = generateKernels(program, table);
    ASSERT_TRUE(succeeded(kernels));
    if (!image.empty())
      return;
    ModuleOp module = **kernels;
    std::string toolkit = findToolkit("");
    ASSERT_NE(toolkit, "");
    FailureOr<std::string> code = emitCudaImage(module, toolkit);
    ASSERT_TRUE(succeeded(code));
    image = *code;
    LinkJob job;
    job.shared = true;
    job.runtime = LinkJob::Runtime::None;
    job.objects = {temporary("o")};
    job.output = twins = temporary("so");
    std::error_code error;
    llvm::raw_fd_ostream stream(job.objects[0], error);
    ASSERT_FALSE(error) << error.message();
    ASSERT_TRUE(succeeded(emitTwinObject(module, "", stream)));
    stream.close();
    ASSERT_EQ(moe::link(job), "");
  }

  std::string temporary(StringRef suffix) {
    SmallString<128> path;
    EXPECT_FALSE(llvm::sys::fs::createTemporaryFile("twins", suffix, path));
    files.push_back(std::string(path));
    return files.back();
  }

  std::string train(const moert::Table &table, uint64_t seed,
                    Outcome &outcome) {
    return moert::test::trainOnStandIn(table, image, twins, seed, outcome);
  }

  std::vector<std::string> files;
  std::string image, twins;
};

Outcome trainOnHost(const moert::Table &table) {
  Outcome outcome;
  std::string error;
  auto engine = moert::Engine::create(table, {}, {}, error);
  EXPECT_TRUE(engine) << error;
  if (engine)
    EXPECT_EQ(moert::test::train(*engine, outcome), "");
  return outcome;
}

double difference(const std::vector<float> &actual,
                  const std::vector<float> &expected) {
  double largest = 0, scale = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    largest = std::max<double>(largest, std::abs(actual[i] - expected[i]));
    scale = std::max<double>(scale, std::abs(expected[i]));
  }
  return largest / scale;
}

void expectNear(const Outcome &actual, const Outcome &expected) {
  for (size_t i = 0; i < expected.steps.size(); ++i)
    EXPECT_NEAR(actual.steps[i], expected.steps[i],
                (i % 2 ? kCudaNorm : kCudaLoss) * expected.steps[i]);
  for (size_t i = 0; i < expected.gradients.size(); ++i)
    EXPECT_LE(
        difference(actual.gradients[i].values, expected.gradients[i].values),
        kCudaGradient)
        << expected.gradients[i].name;
}

bool sameBits(const Outcome &actual, const Outcome &expected) {
  auto same = [](const std::vector<float> &a, const std::vector<float> &b) {
    return !std::memcmp(a.data(), b.data(), a.size() * sizeof(float));
  };
  bool all = same(actual.steps, expected.steps);
  for (size_t i = 0; i < expected.gradients.size(); ++i)
    all = all && same(actual.gradients[i].values, expected.gradients[i].values);
  return all;
}

class StandInTablesTest : public StandInTest,
                          public ::testing::WithParamInterface<Job> {};

TEST_P(StandInTablesTest, RunInAnyOrder) {
  OwningOpRef<ModuleOp> module =
      kernelsModule(GetParam().recompute, GetParam().layout);
  for (moert::PipelineKind kind : kKinds)
    for (const std::set<std::string> &captured : kCaptures) {
      moert::Table table = build(*module, kind, captured);
      Outcome expected = trainOnHost(table), first;
      compile(*module, table);
      for (uint64_t seed = 1; seed <= kOrders && !HasFailure(); ++seed) {
        SCOPED_TRACE("kind " + std::to_string(int(kind)) + ", captured " +
                     std::to_string(captured.size()) + ", seed " +
                     std::to_string(seed));
        Outcome outcome = expected;
        ASSERT_EQ(train(table, seed, outcome), "");
        if (seed == 1) {
          expectNear(outcome, expected);
          first = outcome;
        }
        EXPECT_TRUE(sameBits(outcome, first));
      }
    }
}

INSTANTIATE_TEST_SUITE_P(Jobs, StandInTablesTest, ::testing::ValuesIn(jobs()),
                         jobName);

/// The host counts overflows where it launches an exchange: no memory of the
/// device that is only a flag, no race there.
bool isOfFlag(const moert::Fault &fault) {
  return fault.message.find("flag'") != std::string::npos;
}

/// A limit of the CUDA engine, which it knows before anything runs.
bool isRefused(const std::string &error) {
  return error.find("address is not a multiple of 16") != std::string::npos;
}

// What the proofs accept is clean on the stand-in and leaves the same bits; a
// race that they reject is one there, or shows in the bits.
TEST_F(StandInTest, AgreesWithTheProofs) {
  OwningOpRef<ModuleOp> module =
      kernelsModule({"moe", "norm"}, {2, 2, 1}, /*shrink=*/4);
  moert::Table table =
      build(*module, moert::PipelineKind::Paired, {"moe_router"});
  auto values = referenceValues(*module, table);
  ASSERT_TRUE(succeeded(values));
  Outcome like = trainOnHost(table), expected = like;
  compile(*module, table);
  ASSERT_EQ(train(table, 0, expected), "");
  int accepted = 0, refused = 0, races = 0, found = 0;
  for (int seed = 0; seed < kMutants; ++seed) {
    moert::Table broken = table;
    moert::Mutation mutation = moert::mutate(broken, seed);
    // A kernel is compiled for its shapes, to which the verifier of
    // sched.launch holds those who launch it.
    if (mutation.kind == "change-kernel" || !moert::checkTable(broken).empty())
      continue;
    SCOPED_TRACE("mutant " + std::to_string(seed) + ": " +
                 mutation.description);
    moert::VerifyResult result = moert::verify(broken, *values);
    Outcome outcome = like;
    if (result.ok()) {
      std::string error = train(broken, 1, outcome);
      ++(isRefused(error) ? refused : accepted);
      if (isRefused(error))
        continue;
      EXPECT_EQ(error, "");
      EXPECT_TRUE(sameBits(outcome, expected));
      EXPECT_EQ(train(broken, 2, outcome), "");
      EXPECT_TRUE(sameBits(outcome, expected));
    } else if (llvm::all_of(result.faults, [](const moert::Fault &fault) {
                 return fault.proof == moert::Proof::Race && !isOfFlag(fault);
               })) {
      ++races;
      if (!train(broken, 1, outcome).empty() || !sameBits(outcome, expected))
        ++found;
      else
        ADD_FAILURE() << result.faults[0].message;
    }
  }
  std::printf("%d accepted, %d refused by the engine; of %d races %d found\n",
              accepted, refused, races, found);
  EXPECT_GT(accepted, 0);
  EXPECT_GT(found, 0);
}

} // namespace
