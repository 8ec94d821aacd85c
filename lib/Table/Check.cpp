//===- Check.cpp - Well-formedness of tables ------------------------------===//

#include "moe/Table/Table.h"

#include <cmath>
#include <set>

using namespace moert;

int64_t moert::elementBytes(ElementType type) {
  return type == ElementType::BF16 ? 2 : 4;
}

int64_t Operand::elements() const {
  int64_t count = 1;
  for (int64_t dim : shape)
    count *= dim;
  return count;
}

namespace {

/// Sizes above this are a mistake, and sums of two stay in range.
constexpr int64_t kMaxBytes = int64_t(1) << 60;

/// Product of the dimensions, -1: negative, or too large to be a tensor.
int64_t countElements(const std::vector<int64_t> &shape) {
  int64_t count = 1;
  for (int64_t dim : shape)
    if (dim < 0 || __builtin_mul_overflow(count, dim, &count) ||
        count > kMaxBytes / 4)
      return -1;
  return count;
}

class Checker {
public:
  explicit Checker(const Table &table) : table(table) {}

  std::vector<std::string> run() {
    // Each step relies on the one before.
    checkJob();
    if (problems.empty())
      for (const Template &t : table.templates)
        checkTemplate(t);
    if (problems.empty())
      for (const Program &p : table.programs)
        checkProgram(p);
    if (problems.empty())
      checkRanks();
    return std::move(problems);
  }

private:
  void fail(const std::string &where, const std::string &reason) {
    ++failures;
    if (problems.size() < 20)
      problems.push_back(where + ": " + reason);
  }
  /// `ok` or a problem; returns `ok`.
  bool require(bool ok, const std::string &where, const char *reason) {
    if (!ok)
      fail(where, reason);
    return ok;
  }
  template <typename T>
  bool index(const std::string &where, const char *what, int64_t i,
             const std::vector<T> &list) {
    if (i >= 0 && i < int64_t(list.size()))
      return true;
    fail(where, std::string(what) + " " + std::to_string(i) +
                    " is out of range, there are " +
                    std::to_string(list.size()));
    return false;
  }

  void checkJob();
  void checkTemplate(const Template &t);
  void checkOperand(const Template &t, const std::string &where,
                    const Operand &operand, bool mayWriteHost);
  void checkOp(const Template &t, const std::string &where, const Op &op);
  void checkEffects(const std::string &where, const Op &op,
                    const std::vector<Effect> &effects);
  void checkCollective(const Template &t, const std::string &where,
                       const Op &op);
  void checkProgram(const Program &p);
  void checkCall(const Program &p, const std::string &where, int64_t number);
  void checkPeers(const Program &p, const Template &t);
  void checkParameter(const Program &p, const std::string &where,
                      const Parameter &parameter);
  void checkBuckets(const Program &p, const std::string &where);
  void checkRange(const Program &p, const std::string &where, const char *what,
                  int64_t address, int64_t bytes);
  void checkRanks();

  const Table &table;
  std::vector<std::string> problems;
  /// With those that were too many to keep.
  size_t failures = 0;
};

void Checker::checkJob() {
  require(table.version == kTableVersion, "table", "unknown version");
  for (auto [name, value] : {std::pair("ranks", table.ranks),
                             {"microBatches", table.microBatches},
                             {"microBatchSamples", table.microBatchSamples},
                             {"sequence", table.sequence},
                             {"dataParallel", table.dataParallel},
                             {"vocabulary", table.vocabulary}})
    require(value >= 1 && value <= (1 << 24), name,
            "must be between 1 and 2^24");
  require(std::isfinite(table.initStd), "initStd", "must be finite");
  require(table.memoryLimit >= 0, "memoryLimit", "must not be negative");
  for (const Communicator &c : table.communicators) {
    std::string where = "communicator '" + c.name + "'";
    int64_t span;
    if (require(c.size >= 1 && c.stride >= 1, where,
                "size and stride must be at least 1"))
      require(!__builtin_mul_overflow(c.size, c.stride, &span) &&
                  table.ranks >= 1 && table.ranks % span == 0,
              where, "size times stride must divide the number of ranks");
  }
  for (const Kernel &k : table.kernels) {
    std::string where = "kernel '" + k.name + "'";
    for (auto &attribute : k.attributes)
      require(std::isfinite(attribute.second), where,
              "attributes must be finite");
    require(std::isfinite(k.flops) && std::isfinite(k.bytes), where,
            "flops and bytes must be finite");
  }
}

void Checker::checkTemplate(const Template &t) {
  std::string name = "template '" + t.name + "'";
  for (const Frame &frame : t.frames)
    require(frame.bytes >= 0 && frame.bytes <= kMaxBytes,
            name + ", frame '" + frame.name + "'", "bad number of bytes");
  std::set<int32_t> seen;
  for (size_t i = 0; i < t.ops.size(); ++i) {
    const Op &op = t.ops[i];
    std::string where =
        name + ", op " + std::to_string(i) + " (" + op.location + ")";
    index(where, "stream", op.stream, table.streams);
    for (const Wait &wait : op.waits) {
      if (wait.isImport)
        index(where, "import", wait.index, t.imports);
      else
        require(wait.index < i, where, "waits for an op that comes later");
    }
    if (op.capture != -1 && index(where, "capture", op.capture, t.captures) &&
        (i == 0 || t.ops[i - 1].capture != op.capture))
      require(seen.insert(op.capture).second, where,
              "the ops of its capture are not consecutive");
    require(std::isfinite(op.bytes), where, "bytes must be finite");
    size_t before = failures;
    for (const Operand &operand : op.operands)
      checkOperand(t, where, operand, op.kind == OpKind::HostRead);
    if (failures == before)
      checkOp(t, where, op);
  }
}

void Checker::checkOperand(const Template &t, const std::string &where,
                           const Operand &operand, bool mayWriteHost) {
  if (!index(where, "frame", operand.frame, t.frames))
    return;
  const Frame &frame = t.frames[operand.frame];
  int64_t elements = countElements(operand.shape);
  if (!require(elements >= 0, where, "an operand has a bad shape"))
    return;
  require(operand.offset >= 0 && operand.offset <= frame.bytes &&
              elements * elementBytes(operand.type) <=
                  frame.bytes - operand.offset,
          where, "an operand leaves its frame");
  require(operand.offset % elementBytes(operand.type) == 0, where,
          "an operand is misaligned");
  require(frame.kind != FrameKind::Host || operand.effect == Effect::Read ||
              mayWriteHost,
          where, "writes a host frame, only a host read may");
}

void Checker::checkEffects(const std::string &where, const Op &op,
                           const std::vector<Effect> &effects) {
  if (op.operands.size() != effects.size())
    return fail(where, "has " + std::to_string(op.operands.size()) +
                           " operands, must have " +
                           std::to_string(effects.size()));
  for (size_t i = 0; i < effects.size(); ++i)
    if (op.operands[i].effect != effects[i])
      fail(where, "operand " + std::to_string(i) + " has the wrong effect");
}

void Checker::checkOp(const Template &t, const std::string &where,
                      const Op &op) {
  switch (op.kind) {
  case OpKind::Launch:
    if (index(where, "kernel", op.kernel, table.kernels))
      checkEffects(where, op, table.kernels[op.kernel].effects);
    return;
  case OpKind::Collective:
    if (index(where, "communicator", op.communicator, table.communicators))
      checkCollective(t, where, op);
    return;
  case OpKind::Send:
  case OpKind::Recv:
    index(where, "communicator", op.communicator, table.communicators);
    checkEffects(where, op,
                 {op.kind == OpKind::Send ? Effect::Read : Effect::Write});
    require(op.peer != 0, where, "is its own peer");
    return;
  case OpKind::HostRead:
    checkEffects(where, op, {Effect::Read, Effect::Write});
    if (op.operands.size() == 2) {
      require(op.operands[0].bytes() == op.operands[1].bytes(), where,
              "copies between different sizes");
      require(t.frames[op.operands[1].frame].kind == FrameKind::Host, where,
              "must write a host frame");
    }
    return;
  }
}

void Checker::checkCollective(const Template &t, const std::string &where,
                              const Op &op) {
  size_t before = failures;
  if (op.collective == CollectiveKind::AllToAll)
    checkEffects(where, op,
                 {Effect::Read, Effect::Read, Effect::Read, Effect::ReadWrite,
                  Effect::Write});
  else
    checkEffects(where, op, {Effect::Read, Effect::Write});
  if (failures != before)
    return;

  const Operand &x = op.operands.front(), &y = op.operands.back();
  int64_t size = table.communicators[op.communicator].size;
  require(x.type == y.type, where, "reads one type and writes another");
  switch (op.collective) {
  case CollectiveKind::ExchangeCounts:
    require(x.type == ElementType::I32, where, "counts must be i32");
    require(x.elements() == y.elements(), where, "sizes differ");
    require(x.elements() % size == 0, where,
            "the group's size must divide the counts");
    return;
  case CollectiveKind::AllToAll: {
    require(
        !x.shape.empty() && x.shape.size() == y.shape.size() &&
            std::equal(x.shape.begin() + 1, x.shape.end(), y.shape.begin() + 1),
        where, "rows differ in width");
    const Operand &send = op.operands[1], &recv = op.operands[2];
    for (const Operand *counts : {&send, &recv}) {
      require(counts->type == ElementType::I32, where, "counts must be i32");
      require(t.frames[counts->frame].kind == FrameKind::Host, where,
              "counts must be in a host frame");
      require(counts->elements() % size == 0, where,
              "the group's size must divide the counts");
    }
    require(send.elements() == recv.elements(), where, "sizes differ");
    require(op.operands[3].type == ElementType::I32 &&
                op.operands[3].elements() == 1,
            where, "the flag must be one i32");
    return;
  }
  case CollectiveKind::AllReduceSum:
  case CollectiveKind::AllReduceMax:
    require(x.type == (op.collective == CollectiveKind::AllReduceMax
                           ? ElementType::I32
                           : ElementType::F32),
            where, "reduces a wrong type");
    require(x.elements() == y.elements(), where, "sizes differ");
    return;
  case CollectiveKind::ReduceScatter:
    require(x.type == ElementType::F32, where, "reduces a wrong type");
    require(x.elements() == y.elements() * size, where,
            "must read the group's size times what it writes");
    return;
  case CollectiveKind::AllGather:
    require(x.elements() * size == y.elements(), where,
            "must write the group's size times what it reads");
    return;
  }
}

void Checker::checkRange(const Program &p, const std::string &where,
                         const char *what, int64_t address, int64_t bytes) {
  if (address < 0 || bytes < 0 || bytes > kMaxBytes ||
      address > p.arenaBytes - bytes)
    fail(where, std::string(what) + " leaves the arena");
  else if (address % 4)
    fail(where, std::string(what) + " is misaligned");
}

void Checker::checkProgram(const Program &p) {
  std::string where = "program '" + p.name + "'";
  if (!require(p.arenaBytes >= 0 && p.arenaBytes <= kMaxBytes, where,
               "bad number of arena bytes") ||
      !require(p.rankCount >= 1 && p.firstRank >= 0 &&
                   p.firstRank <= table.ranks - p.rankCount,
               where, "bad ranks"))
    return;
  std::vector<bool> called(table.templates.size());
  size_t before = failures;
  for (size_t i = 0; i < p.calls.size(); ++i)
    if (p.calls[i].tmpl < called.size())
      called[p.calls[i].tmpl] = true;
    else
      index(where + ", call " + std::to_string(i), "template", p.calls[i].tmpl,
            table.templates);
  if (failures != before)
    return;
  for (size_t i = 0; i < p.calls.size() && problems.size() < 20; ++i)
    checkCall(p, where, i);
  for (size_t i = 0; i < called.size(); ++i)
    if (called[i])
      checkPeers(p, table.templates[i]);
  before = failures;
  for (const Parameter &parameter : p.parameters)
    checkParameter(p, where, parameter);
  if (failures == before)
    checkBuckets(p, where);
  int64_t ids = table.microBatches * table.microBatchSamples;
  if (!require(ids <= kMaxBytes / 4 / table.sequence, where, "too many tokens"))
    return;
  for (auto [name, address, count] :
       {std::tuple("tokens", p.tokens, ids * table.sequence),
        {"labels", p.labels, ids * table.sequence},
        {"loss", p.loss, int64_t(1)},
        {"gradNorm", p.gradNorm, int64_t(1)},
        {"flag", p.flag, int64_t(1)},
        {"step", p.step, int64_t(1)}})
    if (address != -1)
      checkRange(p, where, name, address, count * 4);
}

void Checker::checkCall(const Program &p, const std::string &program,
                        int64_t number) {
  const Call &call = p.calls[number];
  const Template &t = table.templates[call.tmpl];
  // Programs have many calls: the text is built for a bad one only.
  auto where = [&] {
    return program + ", call " + std::to_string(number) + " of '" + t.name +
           "'";
  };
  if (call.bases.size() != t.frames.size())
    return fail(where(), "binds " + std::to_string(call.bases.size()) +
                             " frames of " + std::to_string(t.frames.size()));
  for (size_t i = 0; i < call.bases.size(); ++i) {
    int64_t base = call.bases[i];
    if (base < 0 || base % 4 || base > p.arenaBytes - t.frames[i].bytes)
      fail(where(), "frame '" + t.frames[i].name +
                        "' leaves the arena or is misaligned");
  }
  if (call.imports.size() != t.imports.size())
    return fail(where(), "binds " + std::to_string(call.imports.size()) +
                             " imports of " + std::to_string(t.imports.size()));
  for (const EventRef &event : call.imports) {
    if (event.call < 0)
      continue;
    if (event.call >= number)
      fail(where(), "imports an event of a call that is not earlier");
    else if (event.op >= table.templates[p.calls[event.call].tmpl].ops.size())
      fail(where(), "imports the event of an op that does not exist");
  }
}

void Checker::checkPeers(const Program &p, const Template &t) {
  for (size_t i = 0; i < t.ops.size(); ++i) {
    const Op &op = t.ops[i];
    if (op.kind != OpKind::Send && op.kind != OpKind::Recv)
      continue;
    const Communicator &c = table.communicators[op.communicator];
    for (int64_t rank = p.firstRank; rank < p.firstRank + p.rankCount; ++rank) {
      int64_t peer = (rank / c.stride) % c.size + op.peer;
      if (!require(peer >= 0 && peer < c.size,
                   "program '" + p.name + "', template '" + t.name + "', op " +
                       std::to_string(i) + " (" + op.location + ")",
                   "its peer is outside of the group"))
        break;
    }
  }
}

void Checker::checkParameter(const Program &p, const std::string &program,
                             const Parameter &parameter) {
  if (parameter.names.empty())
    return fail(program, "a parameter has no name");
  std::string where = program + ", parameter '" + parameter.names[0] + "'";
  int64_t local = countElements(parameter.shape);
  int64_t stored = countElements(parameter.storedShape);
  if (!require(local >= 0 && stored >= 0, where, "bad shape") ||
      !require(parameter.type != ElementType::I32, where,
               "must be f32 or bf16"))
    return;
  checkRange(p, where, "value", parameter.address,
             local * elementBytes(parameter.type));
  checkRange(p, where, "gradient", parameter.gradient, local * 4);
  int64_t blocks = 1;
  if (parameter.shardedOver != -1) {
    if (!index(where, "communicator", parameter.shardedOver,
               table.communicators))
      return;
    blocks = table.communicators[parameter.shardedOver].size;
  }
  int64_t names = parameter.names.size();
  require(names % blocks == 0, where,
          "the number of names must be a multiple of the group's size");
  require(stored == 0 ? local == 0
                      : local % stored == 0 && local / stored == names / blocks,
          where, "the stored tensors do not fill the local one");
  require(parameter.init == 0 || parameter.init == 1, where,
          "init must be 0 or 1");
}

void Checker::checkBuckets(const Program &p, const std::string &program) {
  for (const Bucket &bucket : p.buckets) {
    std::string where = program + ", bucket '" + bucket.name + "'";
    if (!index(where, "communicator", bucket.communicator, table.communicators))
      continue;
    int64_t size = table.communicators[bucket.communicator].size;
    if (!require(bucket.elements >= 0 && bucket.elements <= kMaxBytes / 4 &&
                     bucket.elements % size == 0,
                 where, "bad number of elements"))
      continue;
    checkRange(p, where, "gradients", bucket.gradients, bucket.elements * 4);
    for (auto [name, address] : {std::pair("master", bucket.master),
                                 {"moment1", bucket.moment1},
                                 {"moment2", bucket.moment2}})
      checkRange(p, where, name, address, bucket.elements / size * 4);
    for (const Parameter &parameter : p.parameters) {
      int64_t at = parameter.gradient - bucket.gradients;
      if (at < 0 || at >= bucket.elements * 4)
        continue;
      std::string name = "parameter '" + parameter.names[0] + "'";
      int64_t width = elementBytes(parameter.type);
      checkRange(p, where, "weights", bucket.weights, bucket.elements * width);
      require(countElements(parameter.shape) <= bucket.elements - at / 4, where,
              (name + " leaves it").c_str());
      require(
          parameter.address == bucket.weights + at / 4 * width, where,
          (name + " has its value and gradient at different places").c_str());
    }
  }
}

void Checker::checkRanks() {
  std::vector<const Program *> owner(table.ranks);
  for (const Program &p : table.programs)
    for (int64_t i = 0; i < p.rankCount; ++i) {
      const Program *&slot = owner[p.firstRank + i];
      if (slot)
        return fail("program '" + p.name + "'",
                    "has a rank that '" + slot->name + "' has, too");
      slot = &p;
    }
  for (int64_t rank = 0; rank < table.ranks; ++rank)
    if (!owner[rank])
      return fail("table", "rank " + std::to_string(rank) + " has no program");
}

} // namespace

std::vector<std::string> moert::checkTable(const Table &table) {
  return Checker(table).run();
}
