#include "moe/Schedule/Pair.h"

#include "moe/Schedule/Bounds.h"
#include "moe/Schedule/Dataflow.h"
#include "moe/Schedule/Solvers.h"

#include <algorithm>
#include <numeric>

namespace moert {

Template mergeTemplates(const Template &forward, const Template &backward) {
  Template pair;
  pair.name = "pair_" + forward.name + "_" + backward.name;
  auto append = [&](const Template &half, const char *prefix) {
    uint32_t firstFrame = pair.frames.size();
    for (Frame frame : half.frames) {
      frame.name = prefix + frame.name;
      pair.frames.push_back(frame);
    }
    for (Op op : half.ops) {
      for (Operand &operand : op.operands)
        operand.frame += firstFrame;
      op.waits.clear();
      pair.ops.push_back(std::move(op));
    }
  };
  append(forward, kForwardPrefix);
  append(backward, kBackwardPrefix);
  return pair;
}

static bool isForward(const Op &op) { return op.half == "F"; }

std::vector<Unit> formUnits(const Template &tmpl,
                            const std::set<std::string> &captured) {
  std::vector<Unit> units;
  const Op *last = nullptr;
  for (uint32_t i = 0; i < tmpl.ops.size(); ++i) {
    const Op &op = tmpl.ops[i];
    bool capturable = op.kind == OpKind::Launch && captured.count(op.module);
    if (capturable && last && isForward(*last) == isForward(op))
      units.back().push_back(i);
    else
      units.push_back({i});
    last = capturable ? &op : nullptr;
  }
  return units;
}

double opSeconds(const Table &table, const Op &op, const System &system) {
  switch (op.kind) {
  case OpKind::Launch: {
    const Kernel &kernel = table.kernels[op.kernel];
    ElementType type = ElementType::F32;
    for (const Operand &operand : op.operands)
      if (operand.type == ElementType::BF16)
        type = ElementType::BF16;
    return kernelSeconds(system, kernel.op, kernel.flops, kernel.bytes, type);
  }
  case OpKind::Collective: {
    const Communicator &communicator = table.communicators[op.communicator];
    return collectiveSeconds(system, op.collective, op.bytes, communicator.size,
                             communicator.stride);
  }
  case OpKind::Send:
  case OpKind::Recv:
    return sendSeconds(system, op.bytes,
                       std::abs(op.peer) *
                           table.communicators[op.communicator].stride);
  case OpKind::HostRead:
    return system.hostCopyLatency;
  }
  return 0;
}

/// Whether `name` is the frame `suffix` of either half, or of a single one.
static bool isFrame(const std::string &name, const std::string &suffix) {
  return name == suffix || name == kForwardPrefix + suffix ||
         name == kBackwardPrefix + suffix;
}

PairProblem pairProblem(const Table &table, const Template &tmpl,
                        const std::vector<Unit> &units, const System &system) {
  PairProblem problem;
  problem.streams = table.streams.size();
  std::vector<uint32_t> unitOf(tmpl.ops.size());
  for (uint32_t u = 0; u < units.size(); ++u) {
    PairProblem::Op op;
    const Op &first = tmpl.ops[units[u].front()];
    op.name = std::to_string(u) + ":" + first.half + ":" + first.location;
    std::replace(op.name.begin(), op.name.end(), ' ', '_');
    op.stream = first.stream;
    bool captured = units[u].size() > 1;
    op.host = captured ? system.hostGraph
                       : hostSeconds(system, first.kind, /*captured=*/false);
    op.blocking = first.kind == OpKind::HostRead;
    for (uint32_t i : units[u]) {
      op.seconds += opSeconds(table, tmpl.ops[i], system);
      unitOf[i] = u;
    }
    problem.ops.push_back(op);
  }
  std::set<std::pair<uint32_t, uint32_t>> seen;
  for (const PairProblem::Edge &edge : dependences(tmpl)) {
    uint32_t from = unitOf[edge.from], to = unitOf[edge.to];
    if (from != to && seen.insert({from, to}).second)
      problem.edges.push_back({from, to});
  }
  // out of one execution is in of the next; so are the gradients din, dout.
  std::set<std::pair<uint32_t, uint32_t>> carried;
  auto carry = [&](const std::string &out, const std::string &in) {
    for (uint32_t i = 0; i < tmpl.ops.size(); ++i)
      for (const Operand &w : tmpl.ops[i].operands)
        if (w.effect != Effect::Read && isFrame(tmpl.frames[w.frame].name, out))
          for (uint32_t j = 0; j < tmpl.ops.size(); ++j)
            for (const Operand &r : tmpl.ops[j].operands)
              if (r.effect != Effect::Write &&
                  isForward(tmpl.ops[i]) == isForward(tmpl.ops[j]) &&
                  isFrame(tmpl.frames[r.frame].name, in))
                carried.insert({unitOf[i], unitOf[j]});
  };
  carry("out", "in");
  carry("din", "dout");
  for (auto [from, to] : carried)
    problem.carried.push_back({from, to});
  return problem;
}

std::vector<uint32_t> megatronOrder(const Template &tmpl,
                                    const std::vector<Unit> &units) {
  // Each half as alternating phases of computation and communication; weight
  // gradients wait in `late` and come right behind the communication that
  // follows them, which they help to hide.
  using Phases = std::vector<std::vector<uint32_t>>;
  auto phasesOf = [&](bool forward) {
    Phases phases(1);
    bool communicates = false;
    std::vector<uint32_t> late;
    for (uint32_t u = 0; u < units.size(); ++u) {
      const Op &op = tmpl.ops[units[u].front()];
      if (isForward(op) != forward)
        continue;
      bool comm = op.kind != OpKind::Launch;
      if (comm != communicates) {
        if (!comm) {
          phases.back().insert(phases.back().end(), late.begin(), late.end());
          late.clear();
        }
        phases.emplace_back();
        communicates = comm;
      }
      if (op.half == "W" && units[u].size() == 1)
        late.push_back(u);
      else
        phases.back().push_back(u);
    }
    phases.emplace_back(std::move(late));
    return phases;
  };
  Phases forward = phasesOf(true), backward = phasesOf(false);
  std::vector<uint32_t> order;
  auto take = [&](Phases &phases, size_t i) {
    if (i < phases.size())
      order.insert(order.end(), phases[i].begin(), phases[i].end());
  };
  take(backward, 0);
  for (size_t i = 0; i < std::max(forward.size(), backward.size()); ++i) {
    take(backward, i + 1);
    take(forward, i);
  }
  return order;
}

/// A period is at least the longest path from where a carried edge arrives to
/// where it leaves: the next execution starts with what this one ends with.
static double cycleBound(const PairProblem &problem) {
  double bound = 0;
  std::vector<std::vector<uint32_t>> successors(problem.ops.size());
  std::vector<uint32_t> degree(problem.ops.size());
  for (const PairProblem::Edge &edge : problem.edges) {
    successors[edge.from].push_back(edge.to);
    ++degree[edge.to];
  }
  std::vector<uint32_t> topological;
  for (uint32_t i = 0; i < problem.ops.size(); ++i)
    if (degree[i] == 0)
      topological.push_back(i);
  for (size_t k = 0; k < topological.size(); ++k)
    for (uint32_t next : successors[topological[k]])
      if (--degree[next] == 0)
        topological.push_back(next);
  std::set<uint32_t> sources;
  for (const PairProblem::Edge &edge : problem.carried)
    sources.insert(edge.to);
  for (uint32_t source : sources) {
    std::vector<double> end(problem.ops.size(), -1);
    end[source] = problem.ops[source].seconds;
    for (uint32_t i : topological)
      if (end[i] >= 0)
        for (uint32_t next : successors[i])
          end[next] = std::max(end[next], end[i] + problem.ops[next].seconds);
    for (const PairProblem::Edge &edge : problem.carried)
      if (edge.to == source && end[edge.from] >= 0)
        bound = std::max(bound, end[edge.from]);
  }
  return bound;
}

OrderReport scheduleTemplate(const Table &table, Template &tmpl,
                             const std::set<std::string> &captured,
                             const System &system, std::string &error) {
  constexpr uint32_t kRepeats = 4;
  OrderReport report;
  report.name = tmpl.name;
  std::vector<Unit> units = formUnits(tmpl, captured);
  PairProblem problem = pairProblem(table, tmpl, units, system);
  error = problem.check();
  if (!error.empty()) {
    error = "template '" + tmpl.name + "': " + error;
    return report;
  }
  for (const PairProblem::Op &op : problem.ops)
    report.serial += op.seconds;
  std::vector<uint32_t> program(units.size());
  std::iota(program.begin(), program.end(), 0);
  std::vector<uint32_t> megatron = megatronOrder(tmpl, units);
  report.megatron = evaluate(problem, megatron, kRepeats).period;
  SearchOptions options;
  options.repeats = kRepeats;
  Schedule best = search(problem, {megatron, program}, options, error);
  if (!error.empty())
    return report;
  report.chosen = best.period;
  PairBounds loads = lowerBounds(problem);
  report.bound =
      std::max(std::max(loads.stream, loads.host), cycleBound(problem));

  std::vector<uint32_t> order;
  std::vector<std::pair<size_t, size_t>> captures;
  for (uint32_t u : best.order) {
    if (captured.count(tmpl.ops[units[u].front()].module) &&
        tmpl.ops[units[u].front()].kind == OpKind::Launch)
      captures.emplace_back(order.size(), units[u].size());
    order.insert(order.end(), units[u].begin(), units[u].end());
  }
  reorder(tmpl, order);
  tmpl.captures.clear();
  for (auto [begin, count] : captures) {
    for (size_t i = begin; i < begin + count; ++i)
      tmpl.ops[i].capture = tmpl.captures.size();
    tmpl.captures.push_back(
        {tmpl.ops[begin].half + "_" + tmpl.ops[begin].module});
  }
  return report;
}

} // namespace moert
