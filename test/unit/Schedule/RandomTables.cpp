//===- RandomTables.cpp - Tables with random templates --------------------===//

#include "RandomTables.h"
#include "moe/Schedule/Dataflow.h"

#include <algorithm>

using namespace moert;
using namespace moert::test;

namespace {

constexpr int64_t kBlock = 256;
constexpr int64_t kSlots = 6;
enum FrameIndex : uint32_t { kTemp, kHost, kFlag, kFirstCarried };
constexpr uint32_t kCarriedFrames = 3;

Operand floats(uint32_t frame, int64_t offset, int64_t n, Effect effect) {
  return {frame, offset, ElementType::F32, {n}, effect};
}

} // namespace

Table moert::test::emptyTable() {
  Table table;
  table.streams = {{"compute", 0}, {"comm", 1}, {"pipeline", 1}};
  table.communicators = {{"ep", 1, 1, 0}};
  return table;
}

uint32_t moert::test::kernelOf(Table &table,
                               const std::vector<Effect> &effects) {
  for (uint32_t i = 0; i < table.kernels.size(); ++i)
    if (table.kernels[i].effects == effects)
      return i;
  Kernel kernel;
  kernel.name = kernel.op = "k" + std::to_string(table.kernels.size());
  kernel.effects = effects;
  kernel.flops = 1e9;
  kernel.bytes = 1e6;
  table.kernels.push_back(std::move(kernel));
  return table.kernels.size() - 1;
}

Op moert::test::launch(Table &table, uint32_t stream,
                       std::vector<Operand> operands) {
  std::vector<Effect> effects;
  for (const Operand &operand : operands)
    effects.push_back(operand.effect);
  Op op;
  op.stream = stream;
  op.kernel = kernelOf(table, effects);
  op.operands = std::move(operands);
  op.location = "launch";
  op.half = "F";
  return op;
}

Template moert::test::randomTemplate(Table &table, std::mt19937 &random,
                                     size_t ops) {
  Template tmpl;
  tmpl.name = "t" + std::to_string(table.templates.size());
  tmpl.frames = {{"temp", FrameKind::Temporary, 0},
                 {"host", FrameKind::Host, kBlock},
                 {"flag", FrameKind::Global, 4}};
  std::vector<Operand> values;
  for (uint32_t i = 0; i < kCarriedFrames; ++i) {
    tmpl.frames.push_back(
        {"x" + std::to_string(i), FrameKind::Carried, kBlock});
    values.push_back(floats(kFirstCarried + i, 0, 4, Effect::Read));
  }
  auto pick = [&] {
    // Mostly what is young, so that old values die.
    size_t young = std::min<size_t>(values.size(), 4);
    return values[values.size() - 1 - random() % young];
  };
  auto newTemporary = [&] {
    int64_t n = 4 << random() % 7;
    Operand y = floats(kTemp, tmpl.frames[kTemp].bytes, n, Effect::Write);
    tmpl.frames[kTemp].bytes += (y.bytes() + kBlock - 1) / kBlock * kBlock;
    return y;
  };
  bool hasCounts = false;
  for (size_t i = 0; i < ops; ++i) {
    uint32_t choice = random() % 10;
    if (choice == 0 && !hasCounts) {
      Op counts = launch(table, random() % kStreams, {pick(), newTemporary()});
      Operand &y = counts.operands[1];
      y.type = ElementType::I32;
      y.shape = {4};
      Op read;
      read.kind = OpKind::HostRead;
      read.stream = 1;
      read.operands = {y, y};
      read.operands[0].effect = Effect::Read;
      read.operands[1].frame = kHost;
      read.operands[1].offset = 0;
      read.location = "read";
      read.half = "F";
      tmpl.ops.push_back(counts);
      tmpl.ops.push_back(read);
      hasCounts = true;
      continue;
    }
    if (choice < 4 && hasCounts) {
      Operand x = pick();
      x.shape = {x.elements() / 4, 4};
      Operand y = newTemporary();
      y.shape = {y.elements() / 4, 4};
      Operand counts{kHost, 0, ElementType::I32, {4}, Effect::Read};
      Op exchange;
      exchange.kind = OpKind::Collective;
      exchange.stream = 1;
      exchange.operands = {x,
                           counts,
                           counts,
                           {kFlag, 0, ElementType::I32, {1}, Effect::ReadWrite},
                           y};
      exchange.location = "exchange";
      exchange.half = "F";
      tmpl.ops.push_back(exchange);
      y.effect = Effect::Read;
      y.shape = {y.elements()};
      values.push_back(y);
      continue;
    }
    std::vector<Operand> operands = {pick()};
    Operand y = newTemporary();
    if (choice == 8)
      y = floats(kFirstCarried + random() % kCarriedFrames, 0, 4,
                 Effect::Write);
    else if (choice == 9)
      y = pick();
    if (choice == 9)
      y.effect = Effect::ReadWrite;
    if (y.frame == operands[0].frame && y.offset == operands[0].offset)
      continue;
    operands.push_back(y);
    tmpl.ops.push_back(launch(table, random() % kStreams, operands));
    y.effect = Effect::Read;
    values.push_back(y);
  }
  return tmpl;
}

std::vector<uint32_t> moert::test::randomOrder(const Template &tmpl,
                                               std::mt19937 &random) {
  std::vector<uint32_t> degree(tmpl.ops.size()), ready, order;
  std::vector<PairProblem::Edge> edges = dependences(tmpl);
  for (const PairProblem::Edge &edge : edges)
    ++degree[edge.to];
  for (uint32_t i = 0; i < degree.size(); ++i)
    if (degree[i] == 0)
      ready.push_back(i);
  while (!ready.empty()) {
    std::swap(ready[random() % ready.size()], ready.back());
    uint32_t next = ready.back();
    ready.pop_back();
    order.push_back(next);
    for (const PairProblem::Edge &edge : edges)
      if (edge.from == next && --degree[edge.to] == 0)
        ready.push_back(edge.to);
  }
  return order;
}

std::vector<bool> moert::test::addProgram(Table &table, std::mt19937 &random,
                                          size_t calls) {
  uint32_t bodies = table.templates.size();
  Program program;
  program.name = "p";
  program.flag = 0;
  int64_t slots = kBlock, host = slots + kSlots * kBlock;
  int64_t temp = host + 2 * kBlock, tempBytes = 0;
  for (const Template &tmpl : table.templates)
    tempBytes = std::max(tempBytes, tmpl.frames[kTemp].bytes);
  program.arenaBytes = temp + 2 * tempBytes;

  // Templates over all slots, on two streams.
  auto addWhole = [&](const char *name, Effect effect) {
    Template whole;
    whole.name = name;
    Call call;
    call.tmpl = table.templates.size();
    for (int64_t i = 0; i < kSlots; ++i) {
      whole.frames.push_back(
          {"s" + std::to_string(i), FrameKind::Carried, kBlock});
      call.bases.push_back(slots + i * kBlock);
      whole.ops.push_back(launch(
          table, i % 2,
          {{static_cast<uint32_t>(i), 0, ElementType::F32, {4}, effect}}));
    }
    table.templates.push_back(std::move(whole));
    program.calls.push_back(std::move(call));
  };
  addWhole("begin", Effect::Write);
  for (size_t i = 0; i < calls; ++i) {
    Call call;
    call.tmpl = random() % bodies;
    std::vector<int64_t> order(kSlots);
    for (int64_t s = 0; s < kSlots; ++s)
      order[s] = slots + s * kBlock;
    std::shuffle(order.begin(), order.end(), random);
    call.bases = {temp + static_cast<int64_t>(i % 2) * tempBytes,
                  host + static_cast<int64_t>(i % 2) * kBlock, program.flag};
    call.bases.insert(call.bases.end(), order.begin(),
                      order.begin() + kCarriedFrames);
    program.calls.push_back(std::move(call));
  }
  addWhole("end", Effect::Read);
  table.programs.push_back(std::move(program));
  std::vector<bool> barriers(table.templates.size());
  barriers[bodies] = barriers[bodies + 1] = true;
  return barriers;
}
