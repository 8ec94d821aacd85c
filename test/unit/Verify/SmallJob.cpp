//===- SmallJob.cpp - A whole job for tests of proofs ---------------------===//

#include "SmallJob.h"

using namespace moert;
using namespace moert::test;

namespace {

constexpr ElementType F32 = ElementType::F32, I32 = ElementType::I32;
constexpr Effect R = Effect::Read, W = Effect::Write, RW = Effect::ReadWrite;
enum StreamId : uint32_t { kMain, kComm, kP2p };
enum CommunicatorId : uint32_t { kEp, kPp, kWorld };
/// Bytes of activations [4, 4], of counts [4], of parameters [4, 4].
constexpr int64_t kX = 64, kCounts = 16, kParam = 64;

Operand x(uint32_t frame, Effect effect, int64_t offset = 0) {
  return {frame, offset, F32, {4, 4}, effect};
}
Operand counts(uint32_t frame, Effect effect, int64_t offset = 0) {
  return {frame, offset, I32, {4}, effect};
}
Operand vec(uint32_t frame, Effect effect, int64_t n, int64_t offset = 0,
            ElementType type = F32) {
  return {frame, offset, type, {n}, effect};
}

class Builder {
public:
  explicit Builder(const JobSize &size) : size(size) {
    table.ranks = size.stages * size.experts;
    table.microBatches = size.microBatches;
    table.sequence = 4;
    table.dataParallel = size.experts;
    table.streams = {{"main", 0}, {"comm", 1}, {"p2p", 1}};
    table.communicators = {{"ep", size.experts, 1, 0},
                           {"pp", size.stages, size.experts, 0},
                           {"world", table.ranks, 1, 0}};
    bucketElements = size.layers * 2 * 16 + 2 * size.experts;
    bucketElements -= bucketElements % size.experts;
    templates();
    for (int64_t stage = 0; stage < size.stages; ++stage)
      program(stage);
  }
  Table table;

private:
  //===--------------------------------------------------------------------===//
  // Templates
  //===--------------------------------------------------------------------===//

  uint32_t kernel(const std::string &op, std::vector<Effect> effects) {
    for (uint32_t i = 0; i < table.kernels.size(); ++i)
      if (table.kernels[i].name == op)
        return i;
    Kernel kernel;
    kernel.name = kernel.op = op;
    kernel.effects = std::move(effects);
    table.kernels.push_back(std::move(kernel));
    return table.kernels.size() - 1;
  }

  Template &begin(const char *name, std::vector<Frame> frames,
                  std::vector<std::string> imports) {
    table.templates.push_back(
        {name, std::move(frames), std::move(imports), {}, {}});
    return table.templates.back();
  }
  Op &add(Template &t, const char *name, OpKind kind, StreamId stream,
          std::vector<Operand> operands, std::vector<Wait> waits) {
    Op op;
    op.kind = kind;
    op.stream = stream;
    op.operands = std::move(operands);
    op.waits = std::move(waits);
    op.location = name;
    t.ops.push_back(std::move(op));
    return t.ops.back();
  }
  Op &launch(Template &t, const char *name, const char *op,
             std::vector<Operand> operands, std::vector<Wait> waits = {}) {
    std::vector<Effect> effects;
    for (const Operand &operand : operands)
      effects.push_back(operand.effect);
    Op &result =
        add(t, name, OpKind::Launch, kMain, std::move(operands), waits);
    result.kernel = kernel(op, effects);
    return result;
  }
  void collective(Template &t, const char *name, CollectiveKind kind,
                  CommunicatorId c, std::vector<Operand> operands,
                  std::vector<Wait> waits = {}) {
    Op &op = add(t, name, OpKind::Collective, kComm, std::move(operands),
                 std::move(waits));
    op.collective = kind;
    op.communicator = c;
  }
  void transfer(const char *name, OpKind kind, int32_t peer) {
    Template &t =
        begin(name, {{"value", FrameKind::Carried, kX}}, {"ready", "free"});
    Op &op = add(t, name, kind, kP2p, {x(0, kind == OpKind::Send ? R : W)},
                 {{true, 0}, {true, 1}});
    op.communicator = kPp;
    op.peer = peer;
  }

  void templates() {
    Template *t =
        &begin("begin",
               {{"gradients", FrameKind::Gradients, bucketElements * 4},
                {"sum", FrameKind::Temporary, 4}},
               {});
    launch(*t, "begin/gradients", "zero", {vec(0, W, bucketElements)});
    launch(*t, "begin/loss", "zero", {vec(1, W, 1)});

    t = &begin(
        "embed",
        {{"tokens", FrameKind::Global, 16}, {"y", FrameKind::Carried, kX}}, {});
    launch(*t, "embed mb {mb}", "embedding", {vec(0, R, 4, 0, I32), x(1, W)});

    forward();

    t = &begin("head",
               {{"x", FrameKind::Carried, kX},
                {"labels", FrameKind::Global, 16},
                {"sum", FrameKind::Temporary, 4},
                {"dx", FrameKind::Carried, kX}},
               {"x"});
    launch(*t, "head/loss mb {mb}", "loss",
           {x(0, R), vec(1, R, 4, 0, I32), vec(2, RW, 1)}, {{true, 0}});
    launch(*t, "head/grad mb {mb}", "loss_grad",
           {x(0, R), vec(1, R, 4, 0, I32), x(3, W)});

    backward();
    transfer("send forward", OpKind::Send, 1);
    transfer("receive forward", OpKind::Recv, -1);
    transfer("send backward", OpKind::Send, -1);
    transfer("receive backward", OpKind::Recv, 1);
    optimizer();
  }

  // Frames of both halves of a layer.
  enum { kWeights, kGradients, kSaved, kIn, kOut, kTemp, kHost, kFlag };
  std::vector<Frame> layerFrames(const char *in, const char *out) {
    return {{"weights", FrameKind::Weights, 2 * kParam},
            {"gradients", FrameKind::Gradients, 2 * kParam},
            {"saved", FrameKind::Saved, 2 * kCounts + kX},
            {in, FrameKind::Carried, kX},
            {out, FrameKind::Carried, kX},
            {"temp", FrameKind::Temporary, 3 * kX},
            {"host", FrameKind::Host, 2 * kCounts},
            {"flag", FrameKind::Global, 4}};
  }
  Operand flag() { return vec(kFlag, RW, 1, 0, I32); }
  void hostReads(Template &t, std::vector<Wait> waits) {
    add(t, "layers.{i}/read counts mb {mb}", OpKind::HostRead, kComm,
        {counts(kSaved, R), counts(kHost, W)}, std::move(waits));
    add(t, "layers.{i}/read received mb {mb}", OpKind::HostRead, kComm,
        {counts(kSaved, R, kCounts), counts(kHost, W, kCounts)}, {});
  }

  void forward() {
    Template &t = begin("forward", layerFrames("x", "y"), {"x"});
    t.captures = {{"router"}};
    launch(t, "layers.{i}.gate mb {mb}", "linear",
           {x(kIn, R), x(kWeights, R), x(kTemp, W)}, {{true, 0}})
        .capture = 0;
    launch(t, "layers.{i}.permutation mb {mb}", "permutation",
           {x(kTemp, R), counts(kSaved, W)})
        .capture = 0;
    collective(t, "layers.{i}.exchange mb {mb}", CollectiveKind::ExchangeCounts,
               kEp, {counts(kSaved, R), counts(kSaved, W, kCounts)},
               {{false, 1}});
    hostReads(t, {});
    collective(t, "layers.{i}.dispatch mb {mb}", CollectiveKind::AllToAll, kEp,
               {x(kTemp, R), counts(kHost, R), counts(kHost, R, kCounts),
                flag(), x(kSaved, W, 2 * kCounts)});
    launch(t, "layers.{i}.experts mb {mb}", "linear",
           {x(kSaved, R, 2 * kCounts), x(kWeights, R, kParam), x(kTemp, W, kX)},
           {{false, 5}});
    collective(t, "layers.{i}.combine mb {mb}", CollectiveKind::AllToAll, kEp,
               {x(kTemp, R, kX), counts(kHost, R, kCounts), counts(kHost, R),
                flag(), x(kOut, W)},
               {{false, 6}});
  }

  void backward() {
    Template &t = begin("backward", layerFrames("x", "dx"), {"dy", "free"});
    t.frames.push_back({"dy", FrameKind::Carried, kX});
    const uint32_t kDy = 8;
    hostReads(t, {});
    collective(t, "layers.{i}.combine/grad mb {mb}", CollectiveKind::AllToAll,
               kEp,
               {x(kDy, R), counts(kHost, R), counts(kHost, R, kCounts), flag(),
                x(kTemp, W)},
               {{true, 0}, {true, 1}});
    launch(t, "layers.{i}.experts/dgrad mb {mb}", "linear_dgrad",
           {x(kTemp, R), x(kWeights, R, kParam), x(kTemp, W, kX)},
           {{false, 2}});
    launch(t, "layers.{i}.experts/wgrad mb {mb}", "linear_wgrad",
           {x(kSaved, R, 2 * kCounts), x(kTemp, R), x(kGradients, RW, kParam)});
    collective(t, "layers.{i}.dispatch/grad mb {mb}", CollectiveKind::AllToAll,
               kEp,
               {x(kTemp, R, kX), counts(kHost, R, kCounts), counts(kHost, R),
                flag(), x(kTemp, W, 2 * kX)},
               {{false, 3}});
    launch(t, "layers.{i}.gate/dgrad mb {mb}", "linear_dgrad",
           {x(kTemp, R, 2 * kX), x(kWeights, R), x(kOut, W)}, {{false, 5}});
    launch(t, "layers.{i}.gate/wgrad mb {mb}", "linear_wgrad",
           {x(kIn, R), x(kTemp, R, 2 * kX), x(kGradients, RW)});
  }

  void optimizer() {
    int64_t shard = bucketElements / size.experts;
    enum { kGrads, kValues, kState, kScratch, kGlobal };
    Template &t =
        begin("optimizer",
              {{"gradients", FrameKind::Gradients, bucketElements * 4},
               {"weights", FrameKind::Weights, bucketElements * 4},
               {"state", FrameKind::Weights, shard * 12},
               {"temp", FrameKind::Temporary, shard * 8 + 16},
               // sum of losses, loss, norm, flag, step
               {"global", FrameKind::Global, 20}},
              {"last"});
    int64_t square = shard * 8, squares = square + 4, worst = square + 8;
    collective(t, "optimizer/reduce", CollectiveKind::ReduceScatter, kEp,
               {vec(kGrads, R, bucketElements), vec(kScratch, W, shard)},
               {{true, 0}});
    launch(t, "optimizer/squares", "sum_squares",
           {vec(kScratch, R, shard), vec(kScratch, W, 1, square)},
           {{false, 0}});
    collective(t, "optimizer/loss", CollectiveKind::AllReduceSum, kWorld,
               {vec(kGlobal, R, 1), vec(kGlobal, W, 1, 4)});
    collective(t, "optimizer/norm", CollectiveKind::AllReduceSum, kWorld,
               {vec(kScratch, R, 1, square), vec(kScratch, W, 1, squares)},
               {{false, 1}});
    collective(t, "optimizer/overflow", CollectiveKind::AllReduceMax, kWorld,
               {vec(kGlobal, R, 1, 12, I32), vec(kScratch, W, 1, worst, I32)});
    launch(t, "optimizer/root", "grad_norm",
           {vec(kScratch, R, 1, squares), vec(kGlobal, W, 1, 8)}, {{false, 4}});
    launch(t, "optimizer/adamw", "adamw",
           {vec(kScratch, R, shard), vec(kGlobal, R, 1, 8),
            vec(kGlobal, R, 1, 16, I32), vec(kScratch, R, 1, worst, I32),
            vec(kState, RW, shard), vec(kState, RW, shard, shard * 4),
            vec(kState, RW, shard, shard * 8),
            vec(kScratch, W, shard, shard * 4)});
    collective(
        t, "optimizer/gather", CollectiveKind::AllGather, kEp,
        {vec(kScratch, R, shard, shard * 4), vec(kValues, W, bucketElements)},
        {{false, 6}});
  }

  //===--------------------------------------------------------------------===//
  // Programs
  //===--------------------------------------------------------------------===//

  int64_t allocate(Program &p, int64_t bytes) {
    int64_t at = p.arenaBytes;
    p.arenaBytes += (bytes + 63) / 64 * 64;
    return at;
  }

  void program(int64_t stage) {
    Program p;
    p.name = "stage" + std::to_string(stage);
    p.firstRank = stage * size.experts;
    p.rankCount = size.experts;
    p.arenaBytes = size.shift;
    int64_t n = size.microBatches, layers = size.layers;
    bool isFirst = stage == 0, isLast = stage == size.stages - 1;

    int64_t shard = bucketElements / size.experts;
    Bucket b;
    b.name = p.name;
    b.communicator = kEp;
    b.elements = bucketElements;
    b.weights = allocate(p, bucketElements * 4);
    b.gradients = allocate(p, bucketElements * 4);
    b.master = allocate(p, shard * 12);
    b.moment1 = b.master + shard * 4;
    b.moment2 = b.master + shard * 8;
    p.buckets = {b};
    for (int64_t l = 0; l < layers; ++l)
      for (int64_t k = 0; k < 2; ++k) {
        Parameter parameter;
        parameter.names = {"layers." + std::to_string(stage * layers + l) +
                           (k ? ".experts" : ".gate")};
        parameter.shape = parameter.storedShape = {4, 4};
        parameter.address = b.weights + (l * 2 + k) * kParam;
        parameter.gradient = b.gradients + (l * 2 + k) * kParam;
        p.parameters.push_back(parameter);
      }
    p.tokens = allocate(p, n * 16);
    p.labels = allocate(p, n * 16);
    int64_t globals = allocate(p, 20), sum = globals;
    p.loss = globals + 4;
    p.gradNorm = globals + 8;
    p.flag = globals + 12;
    p.step = globals + 16;
    int64_t temp = allocate(p, 3 * kX), host = allocate(p, 2 * kCounts);
    int64_t scratch = allocate(p, shard * 8 + 16);
    // Activations after each layer, saved frames, gradients of activations.
    int64_t activations = allocate(p, n * (layers + 1) * kX);
    int64_t savedBytes = 2 * kCounts + kX;
    int64_t saved = allocate(p, n * layers * savedBytes);
    int64_t grads = allocate(p, n * (layers + 1) * kX);
    auto activation = [&](int64_t mb, int64_t l) {
      return activations + (mb * (layers + 1) + l) * kX;
    };
    auto grad = [&](int64_t mb, int64_t l) {
      return grads + (mb * (layers + 1) + l) * kX;
    };

    auto call = [&](JobTemplate tmpl, std::vector<int64_t> bases,
                    std::vector<EventRef> imports, int64_t mb,
                    int64_t layer = -1) {
      Call c;
      c.tmpl = tmpl;
      c.bases = std::move(bases);
      c.imports = std::move(imports);
      c.layer = layer;
      c.microBatch = mb;
      p.calls.push_back(std::move(c));
      return EventRef{int64_t(p.calls.size()) - 1,
                      uint32_t(table.templates[tmpl].ops.size() - 1)};
    };
    call(kBegin, {b.gradients, sum}, {}, -1);
    EventRef last;
    for (int64_t mb = 0; mb < n; ++mb) {
      EventRef ready =
          isFirst
              ? call(kEmbed, {p.tokens + mb * 16, activation(mb, 0)}, {}, mb)
              : call(kReceiveForward, {activation(mb, 0)}, {{}, {}}, mb);
      for (int64_t l = 0; l < layers; ++l)
        ready = call(kForward,
                     {b.weights + 2 * l * kParam, b.gradients + 2 * l * kParam,
                      saved + (mb * layers + l) * savedBytes, activation(mb, l),
                      activation(mb, l + 1), temp, host, p.flag},
                     {ready}, mb, stage * layers + l);
      if (!isLast)
        call(kSendForward, {activation(mb, layers)}, {ready, {}}, mb);
    }
    for (int64_t mb = 0; mb < n; ++mb) {
      EventRef ready =
          isLast ? call(kHead,
                        {activation(mb, layers), p.labels + mb * 16, sum,
                         grad(mb, layers)},
                        {{callAt(p, kForward, (mb + 1) * layers - 1), 7}}, mb)
                 : call(kReceiveBackward, {grad(mb, layers)}, {{}, {}}, mb);
      for (int64_t l = layers - 1; l >= 0; --l) {
        last = call(kBackward,
                    {b.weights + 2 * l * kParam, b.gradients + 2 * l * kParam,
                     saved + (mb * layers + l) * savedBytes, activation(mb, l),
                     grad(mb, l), temp, host, p.flag, grad(mb, l + 1)},
                    {ready, last}, mb, stage * layers + l);
        ready = last;
      }
      if (!isFirst)
        call(kSendBackward, {grad(mb, 0)}, {last, {}}, mb);
    }
    call(kOptimizer, {b.gradients, b.weights, b.master, scratch, globals},
         {last}, -1);
    table.programs.push_back(std::move(p));
  }

  static int64_t callAt(const Program &p, uint32_t tmpl, int64_t number) {
    for (size_t i = 0; i < p.calls.size(); ++i)
      if (p.calls[i].tmpl == tmpl && number-- == 0)
        return i;
    return -1;
  }

  JobSize size;
  int64_t bucketElements = 0;
};

} // namespace

Table test::smallJob(const JobSize &size) { return Builder(size).table; }

int64_t test::callOf(const Table &table, uint32_t program, uint32_t tmpl,
                     int64_t number) {
  const std::vector<Call> &calls = table.programs[program].calls;
  for (size_t i = 0; i < calls.size(); ++i)
    if (calls[i].tmpl == tmpl && number-- == 0)
      return i;
  return -1;
}

uint32_t test::specialise(Table &table, uint32_t program, int64_t call) {
  uint32_t &tmpl = table.programs[program].calls[call].tmpl;
  table.templates.push_back(Template(table.templates[tmpl]));
  tmpl = table.templates.size() - 1;
  return tmpl;
}
