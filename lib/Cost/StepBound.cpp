//===- StepBound.cpp - What no schedule of a step can beat ----------------===//

#include "Prices.h"
#include "moe/Cost/Simulate.h"

#include <algorithm>
#include <limits>

using namespace moert;

double StepBound::best() const { return std::max({device, host, pipeline}); }

namespace {
/// Sums over a set of ops of one program.
struct Load {
  double compute = 0;
  /// By NVLink and network: seconds, and the least slowdown of compute.
  double link[2] = {0, 0};
  double slowdown[2] = {1, 1};

  void add(const Load &other) {
    compute += other.compute;
    for (int i : {0, 1}) {
      link[i] += other.link[i];
      slowdown[i] = std::min(slowdown[i], other.slowdown[i]);
    }
  }

  /// No schedule of these ops takes less: see stepLowerBound().
  double bound(const System &system) const {
    double most = 0;
    for (int i : {0, 1}) {
      double c = system.communicationSlowdown, s = slowdown[i];
      double saved = 1 - s - c;
      // Where the falling line meets the two that rise.
      double both =
          saved <= 0 ? 0 : std::min(link[i] / (1 - c), compute / (1 - s));
      most = std::max(most, compute + link[i] - saved * both);
    }
    return most;
  }
};

/// The loads of a template, by what may be said of the ops.
struct TemplateLoads {
  /// Without half; F; B, not for weights; the rest of B, and W.
  Load none, forward, backward, weights;
  double host = 0;
};

bool isWeightGradient(const Table &table, const Op &op) {
  if (op.kind != OpKind::Launch)
    return false;
  const std::string &name = table.kernels[op.kernel].op;
  const std::string suffix = "_wgrad";
  return name.size() >= suffix.size() &&
         name.compare(name.size() - suffix.size(), suffix.size(), suffix) == 0;
}

class Bound {
public:
  Bound(const Table &table, const System &system)
      : table(table), system(system), placement(table),
        prices(priceOps(table, system)) {}

  StepBound run() {
    StepBound result;
    std::vector<Load> step(table.programs.size()), chain(table.programs.size());
    std::vector<double> forward(table.programs.size()),
        backward(table.programs.size());
    for (uint32_t p = 0; p < table.programs.size(); ++p) {
      std::vector<TemplateLoads> loads = templateLoads(p);
      Load all;
      double host = 0;
      std::map<int64_t, Load> forwardOf, backwardOf;
      for (const Call &call : table.programs[p].calls) {
        const TemplateLoads &l = loads[call.tmpl];
        host += l.host;
        for (const Load *part : {&l.none, &l.forward, &l.backward, &l.weights})
          all.add(*part);
        // As ScheduleView::microBatch: a call of one half may use either.
        int64_t f = call.microBatch, b = call.backwardMicroBatch;
        if (f < 0 && b < 0)
          continue;
        forwardOf[f >= 0 ? f : b].add(l.forward);
        backwardOf[b >= 0 ? b : f].add(l.backward);
        for (const Load *part : {&l.forward, &l.backward, &l.weights})
          step[p].add(*part);
        chain[p].add(l.forward);
        chain[p].add(l.backward);
      }
      result.device = std::max(result.device, all.bound(system));
      result.host = std::max(result.host, host);
      forward[p] = least(forwardOf);
      backward[p] = least(backwardOf);
    }
    if (!isPipeline())
      return result;
    double head = 0, tail = 0;
    for (uint32_t p = 0; p < table.programs.size(); ++p) {
      result.pipeline = std::max(
          result.pipeline, head + std::max(step[p].bound(system),
                                           chain[p].bound(system) + tail));
      head += forward[p];
      tail += backward[p];
    }
    return result;
  }

private:
  std::vector<TemplateLoads> templateLoads(uint32_t p) {
    std::vector<bool> spans;
    for (uint32_t c = 0; c < table.communicators.size(); ++c)
      spans.push_back(placement.members(p, c).size() > 1);
    std::vector<TemplateLoads> result(table.templates.size());
    for (size_t t = 0; t < table.templates.size(); ++t)
      for (size_t i = 0; i < table.templates[t].ops.size(); ++i) {
        const Op &op = table.templates[t].ops[i];
        const Price &price = prices[t][i];
        TemplateLoads &loads = result[t];
        loads.host += price.host;
        if (op.kind == OpKind::HostRead)
          loads.host += system.hostSync;
        // What meets other programs shares no link.
        bool shared = price.resource == Resource::NVLink ||
                      price.resource == Resource::Network;
        Load load;
        if (price.resource == Resource::Compute) {
          load.compute = price.seconds;
        } else if (shared && !spans[op.communicator]) {
          int link = price.resource == Resource::NVLink ? 0 : 1;
          load.link[link] = price.seconds;
          load.slowdown[link] = price.slowdown;
        }
        (op.half == "F" ? loads.forward
         : op.half == "B"
             ? isWeightGradient(table, op) ? loads.weights : loads.backward
         : op.half == "W" ? loads.weights
                          : loads.none)
            .add(load);
      }
    return result;
  }

  double least(const std::map<int64_t, Load> &loads) const {
    double result = loads.empty() ? 0 : std::numeric_limits<double>::max();
    for (const auto &[microBatch, load] : loads)
      result = std::min(result, load.bound(system));
    return result;
  }

  /// Does each program send forward to the next, and to no other?
  bool isPipeline() const {
    for (uint32_t p = 0; p < table.programs.size(); ++p) {
      bool sends = false;
      for (const Call &call : table.programs[p].calls)
        for (const Op &op : table.templates[call.tmpl].ops) {
          if (op.kind != OpKind::Send || op.half != "F")
            continue;
          sends = true;
          if (placement.programOf(placement.peerOf(p, op)) != p + 1)
            return false;
        }
      if (sends != (p + 1 < table.programs.size()))
        return false;
    }
    return table.programs.size() > 1;
  }

  const Table &table;
  const System &system;
  Placement placement;
  std::vector<std::vector<Price>> prices;
};
} // namespace

StepBound moert::stepLowerBound(const Table &table, const System &system) {
  return Bound(table, system).run();
}
