// Tables against closed formulas over the model's shapes: what ranks send to
// one another, and what recompute takes off the memory's high-water mark.

#include "dialects/Moe/MoeDialect.h"
#include "mlir/Pass/PassManager.h"
#include "moe/Import/HuggingFace.h"
#include "moe/Runtime/Engine.h"
#include "moe/Sched/Build.h"
#include "moe/Transforms/Kernels/Passes.h"
#include "moe/Transforms/Spmd/Passes.h"
#include "moe/Transforms/Training/Passes.h"
#include "moe/Verify/Verify.h"
#include "test/unit/Tolerances.h"
#include "llvm/Support/MemoryBuffer.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::moe;

namespace {

/// Sizes of a Qwen3-MoE, and where its configuration is. `e`: bytes of an
/// element.
struct Model {
  const char *file;
  int64_t layers, hidden, heads, kvHeads, headDim, experts, topK, width,
      vocabulary, e;

  /// Parameters of a layer outside of its experts, and of one expert.
  int64_t denseOfLayer() const {
    int64_t q = heads * headDim, kv = kvHeads * headDim;
    return 2 * hidden + 2 * hidden * q + 2 * hidden * kv + 2 * headDim +
           experts * hidden;
  }
  int64_t ofExpert() const { return 3 * width * hidden; }
};

constexpr Model kQwen3 = {MOE_INPUTS "/qwen3-30b-a3b.json",
                          48,
                          2048,
                          32,
                          4,
                          128,
                          128,
                          8,
                          768,
                          151936,
                          2};
constexpr Model kTiny = {
    MOE_INPUTS "/tiny.json", 2, 32, 4, 2, 8, 8, 2, 16, 64, 4};

/// A layout of a job and how its layers are spread.
struct Job {
  Model model;
  int64_t dp, ep, pp;
  double capacity;
  int64_t sequence, microBatches;

  std::string name() const {
    return std::string(model.file) + " dp=" + std::to_string(dp) +
           " ep=" + std::to_string(ep) + " pp=" + std::to_string(pp);
  }
  /// Tokens of a micro-batch.
  int64_t tokens() const { return sequence; }
};

class FormulasTest : public ::testing::Test {
protected:
  FormulasTest() { context.loadDialect<MoeDialect>(); }

  moert::Table build(const Job &job, std::vector<std::string> recompute,
                     moert::PipelineKind kind) {
    auto config = llvm::MemoryBuffer::getFile(job.model.file);
    if (!config) {
      ADD_FAILURE() << job.model.file << ": " << config.getError().message();
      return {};
    }
    ImportOptions import;
    import.target = "h100x" + std::to_string(job.dp * job.pp);
    import.layout =
        "pp=" + std::to_string(job.pp) + ",ep=" + std::to_string(job.ep) +
        ",capacity=" + std::to_string(job.capacity) +
        ",seq=" + std::to_string(job.sequence) +
        ",global_batch=" + std::to_string(job.dp * job.microBatches);
    OwningOpRef<ModuleOp> module = importHuggingFace(
        &context, (*config)->getBuffer(), job.model.file, import);
    PassManager manager(&context);
    manager.addPass(createPartition());
    manager.addPass(createDifferentiate());
    manager.addPass(createFormKernels());
    RecomputeOptions options;
    options.modules.assign(recompute.begin(), recompute.end());
    manager.addPass(createRecompute(options));
    moert::System system;
    std::string error;
    ScheduleOptions schedule;
    schedule.pipeline = kind;
    std::vector<moert::OrderReport> orders;
    if (!module || failed(manager.run(*module)) ||
        !moert::parseSystem(import.target, system, error)) {
      ADD_FAILURE() << "no program " << error;
      return {};
    }
    FailureOr<moert::Table> table =
        buildTable(*module, schedule, system, orders);
    if (failed(table)) {
      ADD_FAILURE() << "no table";
      return {};
    }
    return *table;
  }

  MLIRContext context;
};

//===----------------------------------------------------------------------===//
// Bytes sent
//===----------------------------------------------------------------------===//

using Bytes = std::map<std::string, double>;

/// What a rank of program `p` sends in a step, by what for.
Bytes sentBy(const moert::Table &table, uint32_t p) {
  Bytes bytes;
  moert::ScheduleView view(table, p);
  for (size_t call = 0; call < table.programs[p].calls.size(); ++call)
    for (const moert::Op &op : view.templateOf(call).ops) {
      if (op.kind == moert::OpKind::Send || op.kind == moert::OpKind::Recv) {
        std::string kind = op.kind == moert::OpKind::Send ? "send " : "recv ";
        bytes[kind + op.half] += op.bytes;
      } else if (op.kind == moert::OpKind::Collective) {
        if (op.collective == moert::CollectiveKind::AllToAll)
          bytes[op.module + " " + op.half] += op.bytes;
        if (op.collective == moert::CollectiveKind::ReduceScatter)
          bytes["reduce-scatter"] += op.bytes;
        if (op.collective == moert::CollectiveKind::AllGather)
          bytes["all-gather"] += op.bytes;
      }
    }
  return bytes;
}

/// The same from shapes. A token's row goes to its k experts and comes back,
/// with its k probabilities on the way there (they are applied between the
/// experts' linears); backward sends the gradients of all of that the other
/// way. Balanced routing: a rank receives as many rows as it sends.
Bytes sentByFormula(const Job &job, int64_t stage, bool recomputeMoe) {
  const Model &m = job.model;
  // Embedding and head count one layer each, so that both stages of two have
  // one half.
  int64_t layers = m.layers / job.pp;
  bool first = stage == 0, last = stage == job.pp - 1;
  double rows = double(job.tokens() * m.topK * layers * job.microBatches);
  double there = rows * (m.hidden + 1) * m.e, back = rows * m.hidden * m.e;
  Bytes bytes;
  if (job.ep > 1) {
    bytes["moe_dispatch F"] = there;
    bytes["moe_combine F"] = back;
    bytes["moe_combine B"] = back;
    bytes["moe_dispatch B"] = there * (recomputeMoe ? 2 : 1);
  }
  double carried = double(job.microBatches * job.tokens() * m.hidden * m.e);
  if (!last)
    bytes["send F"] = bytes["recv B"] = carried;
  if (!first)
    bytes["recv F"] = bytes["send B"] = carried;

  // Gradients in f32 to whoever keeps the shard; parameters from there.
  int64_t dense = layers * m.denseOfLayer();
  dense += first ? m.vocabulary * m.hidden : 0;
  dense += last ? m.vocabulary * m.hidden + m.hidden : 0;
  int64_t experts = layers * m.experts / job.ep * m.ofExpert();
  auto reduce = [&](int64_t parameters, int64_t group) {
    if (group == 1)
      return;
    bytes["reduce-scatter"] += 4.0 * parameters;
    bytes["all-gather"] += double(m.e) * parameters / group;
  };
  reduce(dense, job.dp);
  reduce(experts, job.dp / job.ep);
  return bytes;
}

// At any capacity: what is sent are rows, not buffers.
TEST_F(FormulasTest, BytesOfCollectives) {
  for (const Job &job :
       {Job{kQwen3, 2, 2, 1, 1, 4096, 4}, Job{kQwen3, 2, 2, 1, 2, 4096, 4},
        Job{kQwen3, 4, 4, 1, 1, 4096, 4}, Job{kQwen3, 4, 2, 1, 1, 4096, 4},
        Job{kQwen3, 8, 2, 1, 1, 1024, 2}, Job{kQwen3, 2, 2, 2, 1, 4096, 8}})
    for (bool recompute : {false, true})
      for (moert::PipelineKind kind :
           {moert::PipelineKind::Serial, moert::PipelineKind::OneFOneB,
            moert::PipelineKind::Paired}) {
        SCOPED_TRACE(job.name() + " kind " + std::to_string(int(kind)) +
                     (recompute ? " recompute=moe" : ""));
        moert::Table table = build(job,
                                   recompute ? std::vector<std::string>{"moe"}
                                             : std::vector<std::string>{},
                                   kind);
        ASSERT_EQ(int64_t(table.programs.size()), job.pp);
        for (int64_t stage = 0; stage < job.pp; ++stage)
          EXPECT_EQ(sentBy(table, stage), sentByFormula(job, stage, recompute));
      }
}

// The engine moves the same over all ranks, however uneven the routing: each
// row goes to some rank.
TEST_F(FormulasTest, BytesThatTheEngineSends) {
  for (const Job &job :
       {Job{kTiny, 2, 2, 1, 4, 16, 4}, Job{kTiny, 4, 4, 1, 4, 16, 4},
        Job{kTiny, 8, 2, 1, 4, 16, 2}, Job{kTiny, 2, 2, 2, 4, 16, 4}}) {
    SCOPED_TRACE(job.name());
    moert::Table table = build(job, {}, moert::PipelineKind::Paired);
    std::string error;
    auto engine = moert::Engine::create(table, {}, {}, error);
    ASSERT_TRUE(engine) << error;
    EXPECT_TRUE(engine->initialize(1, error)) << error;
    moert::StepResult result;
    ASSERT_TRUE(engine->step(engine->randomTokens(1, 0), result, error))
        << error;
    Bytes formula;
    for (int64_t stage = 0; stage < job.pp; ++stage)
      for (auto [name, bytes] : sentByFormula(job, stage, false))
        formula[name] += bytes * job.dp;
    std::map<std::string, int64_t> sent = engine->sentBytes();
    // Counts of rows for each expert go ahead of them.
    int64_t counts =
        4 * job.model.experts * job.model.layers * job.microBatches * job.dp;
    EXPECT_EQ(sent["moe_dispatch F"], formula["moe_dispatch F"] + counts);
    EXPECT_EQ(sent["moe_dispatch B"], formula["moe_dispatch B"]);
    EXPECT_EQ(sent["moe_combine F"], formula["moe_combine F"]);
    EXPECT_EQ(sent["moe_combine B"], formula["moe_combine B"]);
    EXPECT_EQ(sent["pipeline F"], formula["send F"]);
    EXPECT_EQ(sent["pipeline B"], formula["send B"]);
  }
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// Bytes a token that a layer no longer keeps for backward: Megatron-LM's
/// tensors (megatron/core/transformer/moe: dispatched tokens 2kh, FC1 output
/// 4kf, activation 2kf; both norms' outputs 2h each), at two bytes an element
/// and an even load. Two differ here: every norm's output is kept and not fused
/// into a linear, and `moe` keeps the routing (its 9E + 16k bytes), which is
/// decided once.
double removedPerToken(const Model &m, const std::set<std::string> &modules) {
  double bytes = 0;
  if (modules.count("norm"))
    bytes += 2 * m.e * m.hidden;
  if (modules.count("moe"))
    bytes += m.e * m.topK * (m.hidden + 3 * m.width);
  else if (modules.count("moe_act"))
    bytes += m.e * m.topK * m.width;
  return bytes;
}

/// Bytes that the decoder's layer saves for backward.
int64_t savedByLayer(const moert::Table &table) {
  for (const moert::Template &tmpl : table.templates)
    if (tmpl.name == "decoder_fwd")
      for (const moert::Frame &frame : tmpl.frames)
        if (frame.kind == moert::FrameKind::Saved)
          return frame.bytes;
  return 0;
}

// The high-water mark falls by what is no longer saved of each layer and
// micro-batch in flight, but for what layers need again while they recompute:
// one layer, or two where the temporaries of two backward calls take turns. No
// layout has replicas of experts: there the optimizer's scratch would be what
// fills memory most.
TEST_F(FormulasTest, HighWaterFallsByRecompute) {
  for (const Job &job :
       {Job{kQwen3, 16, 16, 1, 1, 4096, 4}, Job{kQwen3, 2, 2, 1, 1, 2048, 4},
        Job{kQwen3, 2, 2, 2, 1, 4096, 8}})
    for (moert::PipelineKind kind :
         {moert::PipelineKind::OneFOneB, moert::PipelineKind::Paired}) {
      moert::VerifyOptions options;
      options.value = false;
      moert::Table plain = build(job, {}, kind);
      moert::VerifyResult before = moert::verify(plain, {}, options);
      for (std::vector<std::string> modules : {std::vector<std::string>{"norm"},
                                               {"moe_act"},
                                               {"moe"},
                                               {"norm", "moe"}}) {
        moert::Table table = build(job, modules, kind);
        moert::VerifyResult after = moert::verify(table, {}, options);
        double ofLayer =
            removedPerToken(job.model, {modules.begin(), modules.end()}) *
            job.tokens();
        SCOPED_TRACE(job.name() + " kind " + std::to_string(int(kind)) + ' ' +
                     testing::PrintToString(modules));
        EXPECT_NEAR(savedByLayer(plain) - savedByLayer(table), ofLayer,
                    moe_test::kSavedBytes * ofLayer);
        for (int64_t stage = 0; stage < job.pp; ++stage) {
          int64_t saved =
              job.model.layers / job.pp *
              moert::inFlight(kind, job.pp, stage, job.microBatches);
          double fall = before.highWater[stage] - after.highWater[stage];
          double slack = moe_test::kSavedBytes * saved * ofLayer;
          EXPECT_LE(fall, saved * ofLayer + slack) << "stage " << stage;
          EXPECT_GE(fall, (saved - 2) * ofLayer - slack) << "stage " << stage;
        }
      }
    }
}

} // namespace
