//===- Bounds.cpp - What no order can beat --------------------------------===//
//
// Op i of repetition r has a head (it can't start before) and a tail (what
// must follow its end). Both come from edges; heads also from the host, which
// issues an op only after all its ancestors and all earlier repetitions.
//
//===----------------------------------------------------------------------===//

#include "moe/Schedule/Bounds.h"

#include <algorithm>
#include <queue>

using namespace moert;

double PairBounds::best() const {
  return std::max({stream, host, path, oneMachine});
}

namespace {
struct Job {
  double head = 0, work = 0, tail = 0;
};

/// The optimum of 1 | r_j, pmtn, q_j | max: always run the released job with
/// the longest tail.
double jackson(std::vector<Job> jobs) {
  std::sort(jobs.begin(), jobs.end(),
            [](const Job &a, const Job &b) { return a.head < b.head; });
  auto shorter = [](const Job *a, const Job *b) { return a->tail < b->tail; };
  std::priority_queue<Job *, std::vector<Job *>, decltype(shorter)> ready(
      shorter);
  double now = 0, bound = 0;
  for (size_t next = 0; next < jobs.size() || !ready.empty();) {
    if (ready.empty())
      now = std::max(now, jobs[next].head);
    while (next < jobs.size() && jobs[next].head <= now)
      ready.push(&jobs[next++]);
    Job *job = ready.top();
    double until = now + job->work;
    if (next < jobs.size() && jobs[next].head < until) {
      job->work -= jobs[next].head - now;
      now = jobs[next].head;
      continue;
    }
    ready.pop();
    now = until;
    bound = std::max(bound, now + job->tail);
  }
  return bound;
}

/// The orders that any order of issue must respect, closed.
class Ancestry {
public:
  explicit Ancestry(const PairProblem &problem)
      : words((problem.ops.size() + 63) / 64),
        bits(problem.ops.size() * words) {
    size_t n = problem.ops.size();
    std::vector<std::vector<uint32_t>> next(n);
    std::vector<uint32_t> degree(n);
    for (const auto *list : {&problem.edges, &problem.issueEdges})
      for (const PairProblem::Edge &edge : *list) {
        next[edge.from].push_back(edge.to);
        ++degree[edge.to];
      }
    for (uint32_t i = 0; i < n; ++i)
      if (!degree[i])
        order.push_back(i);
    for (size_t done = 0; done < order.size(); ++done) {
      uint32_t op = order[done];
      for (uint32_t to : next[op]) {
        for (size_t w = 0; w < words; ++w)
          bits[to * words + w] |= bits[op * words + w];
        bits[to * words + op / 64] |= uint64_t(1) << (op % 64);
        if (!--degree[to])
          order.push_back(to);
      }
    }
  }
  bool isAncestor(uint32_t ancestor, uint32_t op) const {
    return bits[op * words + ancestor / 64] >> (ancestor % 64) & 1;
  }
  /// Ancestors first.
  std::vector<uint32_t> order;

private:
  size_t words;
  std::vector<uint64_t> bits;
};
} // namespace

PairBounds moert::lowerBounds(const PairProblem &problem, uint32_t repeats) {
  size_t n = problem.ops.size();
  Ancestry ancestry(problem);
  PairBounds bounds;

  std::vector<double> load(problem.streams);
  double hostLoad = 0;
  for (const PairProblem::Op &op : problem.ops) {
    load[op.stream] += op.seconds;
    hostLoad += op.host;
  }
  for (double seconds : load)
    bounds.stream = std::max(bounds.stream, seconds * repeats);
  bounds.host = hostLoad * repeats;

  std::vector<std::vector<uint32_t>> in(n), carriedIn(n), out(n), carriedOut(n);
  for (const PairProblem::Edge &edge : problem.edges) {
    in[edge.to].push_back(edge.from);
    out[edge.from].push_back(edge.to);
  }
  for (const PairProblem::Edge &edge : problem.carried) {
    carriedIn[edge.to].push_back(edge.from);
    carriedOut[edge.from].push_back(edge.to);
  }
  // Host work and blocking ops that must come before an op of its repetition.
  std::vector<double> hostBefore(n);
  std::vector<std::vector<uint32_t>> blockers(n);
  for (uint32_t op = 0; op < n; ++op)
    for (uint32_t other = 0; other < n; ++other)
      if (ancestry.isAncestor(other, op)) {
        hostBefore[op] += problem.ops[other].host;
        if (problem.ops[other].blocking)
          blockers[op].push_back(other);
      }

  std::vector<double> heads(n * repeats), released(n * repeats),
      tails(n * repeats);
  // When all blocking ops of the repetitions before are done.
  double unblocked = 0;
  for (uint32_t r = 0; r < repeats; ++r) {
    double *head = heads.data() + r * n;
    for (uint32_t op : ancestry.order) {
      // The host begins to issue it.
      double release = std::max(unblocked, r * hostLoad) + hostBefore[op];
      for (uint32_t blocker : blockers[op])
        release =
            std::max(release, head[blocker] + problem.ops[blocker].seconds);
      released[r * n + op] = release;
      double start = release + problem.ops[op].host;
      for (uint32_t from : in[op])
        start = std::max(start, head[from] + problem.ops[from].seconds);
      if (r)
        for (uint32_t from : carriedIn[op])
          start = std::max(start, heads[(r - 1) * n + from] +
                                      problem.ops[from].seconds);
      head[op] = start;
    }
    for (uint32_t op = 0; op < n; ++op)
      if (problem.ops[op].blocking)
        unblocked = std::max(unblocked, head[op] + problem.ops[op].seconds);
  }
  for (uint32_t r = repeats; r-- > 0;)
    for (auto it = ancestry.order.rbegin(); it != ancestry.order.rend(); ++it) {
      double &tail = tails[r * n + *it];
      for (uint32_t to : out[*it])
        tail = std::max(tail, problem.ops[to].seconds + tails[r * n + to]);
      if (r + 1 < repeats)
        for (uint32_t to : carriedOut[*it])
          tail =
              std::max(tail, problem.ops[to].seconds + tails[(r + 1) * n + to]);
    }

  std::vector<std::vector<Job>> machines(problem.streams + 1);
  for (uint32_t r = 0; r < repeats; ++r)
    for (uint32_t op = 0; op < n; ++op) {
      const PairProblem::Op &o = problem.ops[op];
      size_t i = r * n + op;
      bounds.path = std::max(bounds.path, heads[i] + o.seconds + tails[i]);
      machines[o.stream].push_back({heads[i], o.seconds, tails[i]});
      machines.back().push_back({released[i], o.host, o.seconds + tails[i]});
    }
  for (std::vector<Job> &jobs : machines)
    bounds.oneMachine = std::max(bounds.oneMachine, jackson(std::move(jobs)));
  return bounds;
}
