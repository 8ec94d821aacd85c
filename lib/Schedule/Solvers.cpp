//===- Solvers.cpp - Orders of issue --------------------------------------===//

#include "moe/Schedule/Solvers.h"
#include "moe/Schedule/Bounds.h"

#include <algorithm>
#include <limits>
#include <tuple>

using namespace moert;

namespace {
/// What must be issued before and after an op, and the longest path from its
/// start.
struct Graph {
  std::vector<std::vector<uint32_t>> before, after, from;
  std::vector<double> path;

  explicit Graph(const PairProblem &problem)
      : before(problem.ops.size()), after(problem.ops.size()),
        from(problem.ops.size()), path(problem.ops.size()) {
    for (const auto *list : {&problem.edges, &problem.issueEdges})
      for (const PairProblem::Edge &edge : *list) {
        before[edge.to].push_back(edge.from);
        after[edge.from].push_back(edge.to);
      }
    for (const PairProblem::Edge &edge : problem.edges)
      from[edge.to].push_back(edge.from);

    // A topological order, backwards.
    std::vector<uint32_t> degree(problem.ops.size()), order;
    for (uint32_t i = 0; i < degree.size(); ++i) {
      degree[i] = static_cast<uint32_t>(after[i].size());
      if (!degree[i])
        order.push_back(i);
    }
    for (size_t done = 0; done < order.size(); ++done) {
      uint32_t op = order[done];
      path[op] += problem.ops[op].seconds;
      for (uint32_t b : before[op])
        if (!--degree[b])
          order.push_back(b);
      for (uint32_t f : from[op])
        path[f] = std::max(path[f], path[op]);
    }
  }
};

/// The times so far while an order is built op by op.
struct Partial {
  double host = 0, last = 0;
  std::vector<double> streamFree, end;

  explicit Partial(const PairProblem &problem)
      : streamFree(problem.streams), end(problem.ops.size()) {}

  double start(const PairProblem &problem, const Graph &graph,
               uint32_t op) const {
    const PairProblem::Op &o = problem.ops[op];
    double start = std::max(host + o.host, streamFree[o.stream]);
    for (uint32_t f : graph.from[op])
      start = std::max(start, end[f]);
    return start;
  }
  void issue(const PairProblem &problem, const Graph &graph, uint32_t op) {
    const PairProblem::Op &o = problem.ops[op];
    end[op] = start(problem, graph, op) + o.seconds;
    streamFree[o.stream] = end[op];
    last = std::max(last, end[op]);
    host += o.host;
    if (o.blocking)
      host = std::max(host, end[op]);
  }
};

/// Numbers that look random and are the same everywhere (splitmix64).
class Random {
public:
  explicit Random(uint64_t seed) : state(seed) {}
  uint32_t below(uint32_t limit) {
    state += 0x9e3779b97f4a7c15;
    uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return static_cast<uint32_t>((z ^ (z >> 31)) % limit);
  }

private:
  uint64_t state;
};
} // namespace

//===----------------------------------------------------------------------===//
// List scheduling
//===----------------------------------------------------------------------===//

Schedule moert::listSchedule(const PairProblem &problem, uint32_t repeats) {
  size_t n = problem.ops.size();
  Graph graph(problem);
  Partial partial(problem);
  std::vector<uint32_t> degree(n), ready, order;
  for (uint32_t i = 0; i < n; ++i) {
    degree[i] = static_cast<uint32_t>(graph.before[i].size());
    if (!degree[i])
      ready.push_back(i);
  }
  // Giffler and Thompson: the op that can end first decides the stream and
  // the time by which the chosen op must start.
  while (!ready.empty()) {
    double limit = std::numeric_limits<double>::infinity();
    uint32_t stream = 0;
    for (uint32_t op : ready) {
      double end = partial.start(problem, graph, op) + problem.ops[op].seconds;
      if (end < limit) {
        limit = end;
        stream = problem.ops[op].stream;
      }
    }
    size_t best = ready.size();
    for (size_t i = 0; i < ready.size(); ++i) {
      uint32_t op = ready[i];
      // An op of no length starts at the limit.
      if (problem.ops[op].stream != stream ||
          partial.start(problem, graph, op) > limit)
        continue;
      if (best == ready.size() || graph.path[op] > graph.path[ready[best]] ||
          (graph.path[op] == graph.path[ready[best]] && op < ready[best]))
        best = i;
    }
    uint32_t op = ready[best];
    ready.erase(ready.begin() + static_cast<std::ptrdiff_t>(best));
    partial.issue(problem, graph, op);
    order.push_back(op);
    for (uint32_t a : graph.after[op])
      if (!--degree[a])
        ready.push_back(a);
  }
  return evaluate(problem, order, repeats);
}

//===----------------------------------------------------------------------===//
// Local search
//===----------------------------------------------------------------------===//

namespace {
class LocalSearch {
public:
  LocalSearch(const PairProblem &problem, const SearchOptions &options)
      : graph(problem), evaluator(problem, options.repeats),
        left(options.evaluations), random(options.seed),
        bound(lowerBounds(problem, options.repeats).best()) {}

  /// Takes part: the best of all starts is kept.
  void start(const std::vector<uint32_t> &order) {
    current = order;
    currentTime = evaluator.makespan(current);
    starts.push_back({currentTime, order});
    keep();
  }

  void run() {
    std::sort(starts.begin(), starts.end(), [](const Start &a, const Start &b) {
      return std::tie(a.time, a.order) < std::tie(b.time, b.order);
    });
    for (const Start &s : starts) {
      current = s.order;
      currentTime = s.time;
      descend();
    }
    while (left && !done() && best.size() > 1) {
      current = best;
      for (int i = 0; i < 4; ++i)
        perturb();
      currentTime = spend();
      descend();
    }
  }

  std::vector<uint32_t> best;

private:
  struct Start {
    double time;
    std::vector<uint32_t> order;
  };

  bool done() const { return bestTime <= bound * (1 + 1e-12); }
  double spend() {
    --left;
    return evaluator.makespan(current);
  }
  void keep() {
    if (currentTime < bestTime) {
      bestTime = currentTime;
      best = current;
    }
  }

  /// Positions [low, high] to which the op at `at` can move.
  void window(size_t at, size_t &low, size_t &high) const {
    uint32_t op = current[at];
    auto contains = [](const std::vector<uint32_t> &list, uint32_t op) {
      return std::find(list.begin(), list.end(), op) != list.end();
    };
    for (low = at; low > 0 && !contains(graph.before[op], current[low - 1]);)
      --low;
    for (high = at; high + 1 < current.size() &&
                    !contains(graph.after[op], current[high + 1]);)
      ++high;
  }
  void move(size_t from, size_t to) {
    auto it = [&](size_t i) {
      return current.begin() + static_cast<std::ptrdiff_t>(i);
    };
    if (from < to)
      std::rotate(it(from), it(from + 1), it(to + 1));
    else
      std::rotate(it(to), it(from), it(from + 1));
  }

  void perturb() {
    size_t low, high, at = random.below(static_cast<uint32_t>(current.size()));
    window(at, low, high);
    move(at, low + random.below(static_cast<uint32_t>(high - low + 1)));
  }

  /// Moves single ops to where the makespan is least, until none helps.
  void descend() {
    keep();
    bool improved = true;
    while (improved) {
      improved = false;
      for (uint32_t op = 0; op < current.size(); ++op) {
        size_t low, high,
            at = static_cast<size_t>(
                std::find(current.begin(), current.end(), op) -
                current.begin());
        window(at, low, high);
        size_t place = at, bestPlace = at;
        for (size_t to = low; to <= high; ++to) {
          if (!left || done())
            break;
          if (to == at)
            continue;
          move(place, to);
          place = to;
          double time = spend();
          if (time < currentTime * (1 - 1e-12)) {
            currentTime = time;
            bestPlace = to;
          }
        }
        move(place, bestPlace);
        improved |= bestPlace != at;
        keep();
        if (!left || done())
          return;
      }
    }
  }

  Graph graph;
  Evaluator evaluator;
  uint32_t left;
  Random random;
  double bound;
  std::vector<uint32_t> current;
  double currentTime = 0;
  double bestTime = std::numeric_limits<double>::infinity();
  std::vector<Start> starts;
};
} // namespace

Schedule moert::search(const PairProblem &problem,
                       const std::vector<std::vector<uint32_t>> &incumbents,
                       const SearchOptions &options, std::string &error) {
  LocalSearch search(problem, options);
  for (size_t i = 0; i < incumbents.size(); ++i) {
    // Times are not looked at before the order is known to be one.
    Schedule check;
    check.order = incumbents[i];
    if (check.order.size() == problem.ops.size() &&
        std::all_of(check.order.begin(), check.order.end(),
                    [&](uint32_t op) { return op < problem.ops.size(); }))
      check = evaluate(problem, incumbents[i]);
    error = check.verify(problem);
    if (!error.empty()) {
      error = "incumbent " + std::to_string(i) + ": " + error;
      return {};
    }
    search.start(incumbents[i]);
  }
  search.start(listSchedule(problem).order);
  search.run();
  return evaluate(problem, search.best, options.repeats);
}

//===----------------------------------------------------------------------===//
// Branch and bound
//===----------------------------------------------------------------------===//

namespace {
class Enumeration {
public:
  Enumeration(const PairProblem &problem, uint32_t repeats, uint64_t nodes)
      : problem(problem), repeats(repeats), nodesLeft(nodes), graph(problem),
        evaluator(problem, repeats), partial(problem),
        degree(problem.ops.size()), left(problem.streams) {
    Schedule first = listSchedule(problem, repeats);
    best = first.order;
    bestTime = first.makespan;
    bound = lowerBounds(problem, repeats).best();
    for (uint32_t i = 0; i < degree.size(); ++i) {
      degree[i] = static_cast<uint32_t>(graph.before[i].size());
      left[problem.ops[i].stream] += problem.ops[i].seconds;
      hostLeft += problem.ops[i].host;
    }
  }

  /// False if out of nodes.
  bool run() {
    if (order.size() == problem.ops.size()) {
      double time = repeats == 1 ? partial.last : evaluator.makespan(order);
      if (time < bestTime) {
        bestTime = time;
        best = order;
      }
      return true;
    }
    // The bound holds for one repetition; more only start later.
    if (bestTime <= bound || remaining() >= bestTime)
      return true;
    if (!nodesLeft)
      return false;
    --nodesLeft;
    for (uint32_t op = 0; op < problem.ops.size(); ++op) {
      if (degree[op] || isIssued(op))
        continue;
      Partial saved = partial;
      const PairProblem::Op &o = problem.ops[op];
      partial.issue(problem, graph, op);
      order.push_back(op);
      left[o.stream] -= o.seconds;
      hostLeft -= o.host;
      for (uint32_t a : graph.after[op])
        --degree[a];
      bool finished = run();
      for (uint32_t a : graph.after[op])
        ++degree[a];
      hostLeft += o.host;
      left[o.stream] += o.seconds;
      order.pop_back();
      partial = saved;
      if (!finished)
        return false;
    }
    return true;
  }

  std::vector<uint32_t> best;

private:
  bool isIssued(uint32_t op) const {
    return std::find(order.begin(), order.end(), op) != order.end();
  }
  /// No order that goes on from here ends before.
  double remaining() const {
    double end = std::max(partial.last, partial.host + hostLeft);
    for (uint32_t s = 0; s < problem.streams; ++s)
      end = std::max(end, partial.streamFree[s] + left[s]);
    for (uint32_t op = 0; op < problem.ops.size(); ++op)
      if (!degree[op] && !isIssued(op))
        end = std::max(end, partial.start(problem, graph, op) + graph.path[op]);
    // Sums in another order may differ in the last bits.
    return end * (1 - 1e-12);
  }

  const PairProblem &problem;
  uint32_t repeats;
  uint64_t nodesLeft;
  Graph graph;
  Evaluator evaluator;
  Partial partial;
  std::vector<uint32_t> degree, order;
  std::vector<double> left;
  double hostLeft = 0, bestTime = 0, bound = 0;
};
} // namespace

bool moert::solveExactly(const PairProblem &problem, uint32_t repeats,
                         uint64_t nodes, Schedule &result) {
  Enumeration enumeration(problem, repeats, nodes);
  if (!enumeration.run())
    return false;
  result = evaluate(problem, enumeration.best, repeats);
  return true;
}
