//===- Problem.cpp - The order of a pair of templates, as a problem -------===//

#include "moe/Schedule/Problem.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <sstream>

using namespace moert;

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

std::string PairProblem::check() const {
  for (const Op &op : ops) {
    if (op.stream >= streams)
      return "op '" + op.name + "' is on stream " + std::to_string(op.stream) +
             " of " + std::to_string(streams);
    if (!std::isfinite(op.seconds) || op.seconds < 0 ||
        !std::isfinite(op.host) || op.host < 0)
      return "op '" + op.name + "' has a time that is negative or not finite";
  }
  for (const auto *list : {&edges, &issueEdges, &carried})
    for (const Edge &edge : *list)
      if (edge.from >= ops.size() || edge.to >= ops.size())
        return "an edge names op " +
               std::to_string(std::max(edge.from, edge.to)) + " of " +
               std::to_string(ops.size());
  // Kahn: what is left over lies on a cycle or behind one.
  std::vector<std::vector<uint32_t>> next(ops.size());
  std::vector<uint32_t> degree(ops.size());
  for (const auto *list : {&edges, &issueEdges})
    for (const Edge &edge : *list) {
      next[edge.from].push_back(edge.to);
      ++degree[edge.to];
    }
  std::vector<uint32_t> ready;
  for (uint32_t i = 0; i < ops.size(); ++i)
    if (!degree[i])
      ready.push_back(i);
  for (size_t done = 0; done < ready.size(); ++done)
    for (uint32_t to : next[ready[done]])
      if (!--degree[to])
        ready.push_back(to);
  for (uint32_t i = 0; i < ops.size(); ++i)
    if (degree[i])
      return "the edges have a cycle, through or before op '" + ops[i].name +
             "'";
  return "";
}

std::string Schedule::verify(const PairProblem &problem) const {
  size_t n = problem.ops.size();
  auto name = [&](uint32_t op) { return "'" + problem.ops[op].name + "'"; };
  if (order.size() != n)
    return "the order has " + std::to_string(order.size()) + " ops of " +
           std::to_string(n);
  std::vector<size_t> position(n, n);
  for (size_t i = 0; i < n; ++i) {
    if (order[i] >= n || position[order[i]] != n)
      return "position " + std::to_string(i) +
             " of the order repeats an op or names none";
    position[order[i]] = i;
  }
  for (const auto *list : {&problem.edges, &problem.issueEdges})
    for (const PairProblem::Edge &edge : *list)
      if (position[edge.from] >= position[edge.to])
        return name(edge.to) + " is issued before " + name(edge.from);
  if (repeats < 1 || starts.size() != n * repeats)
    return "wrong number of start times";

  // Sums are in another order than in evaluate().
  double tolerance = 1e-9 * std::max(makespan, 1e-12);
  auto late = [&](double time, double earliest) {
    return time < earliest - tolerance;
  };
  auto endOf = [&](uint32_t r, uint32_t op) {
    return starts[r * n + op] + problem.ops[op].seconds;
  };
  double issued = 0, last = 0;
  std::vector<double> streamEnd(problem.streams);
  for (uint32_t r = 0; r < repeats; ++r)
    for (uint32_t op : order) {
      const PairProblem::Op &o = problem.ops[op];
      double start = starts[r * n + op];
      issued += o.host;
      if (late(start, issued))
        return name(op) + " starts before it is issued";
      if (late(start, streamEnd[o.stream]))
        return name(op) + " starts before its stream is free";
      streamEnd[o.stream] = endOf(r, op);
      last = std::max(last, endOf(r, op));
      if (o.blocking)
        issued = std::max(issued, endOf(r, op));
    }
  for (uint32_t r = 0; r < repeats; ++r) {
    for (const PairProblem::Edge &edge : problem.edges)
      if (late(starts[r * n + edge.to], endOf(r, edge.from)))
        return name(edge.to) + " starts before the end of " + name(edge.from);
    for (const PairProblem::Edge &edge : problem.carried)
      if (r && late(starts[r * n + edge.to], endOf(r - 1, edge.from)))
        return name(edge.to) + " starts before the end of " + name(edge.from) +
               " of the repetition before";
  }
  if (std::fabs(last - makespan) > tolerance)
    return "the makespan is not the end of the last op";
  return "";
}

//===----------------------------------------------------------------------===//
// Evaluation
//===----------------------------------------------------------------------===//

/// Predecessor lists in one array.
static void gather(size_t ops, const std::vector<PairProblem::Edge> &edges,
                   std::vector<uint32_t> &first, std::vector<uint32_t> &from) {
  first.assign(ops + 1, 0);
  for (const PairProblem::Edge &edge : edges)
    ++first[edge.to + 1];
  for (size_t i = 0; i < ops; ++i)
    first[i + 1] += first[i];
  from.resize(edges.size());
  std::vector<uint32_t> next(first.begin(), first.end() - 1);
  for (const PairProblem::Edge &edge : edges)
    from[next[edge.to]++] = edge.from;
}

Evaluator::Evaluator(const PairProblem &problem, uint32_t repeats)
    : problem(problem), repeats(repeats), end(problem.ops.size() * repeats),
      streamFree(problem.streams) {
  gather(problem.ops.size(), problem.edges, first, from);
  gather(problem.ops.size(), problem.carried, carriedFirst, carriedFrom);
}

double Evaluator::makespan(const std::vector<uint32_t> &order) {
  size_t n = problem.ops.size();
  std::fill(streamFree.begin(), streamFree.end(), 0.0);
  double host = 0, last = 0;
  for (uint32_t r = 0; r < repeats; ++r) {
    double *ends = end.data() + r * n;
    for (uint32_t op : order) {
      const PairProblem::Op &o = problem.ops[op];
      host += o.host;
      double start = std::max(host, streamFree[o.stream]);
      for (uint32_t e = first[op]; e < first[op + 1]; ++e)
        start = std::max(start, ends[from[e]]);
      if (r)
        for (uint32_t e = carriedFirst[op]; e < carriedFirst[op + 1]; ++e)
          start =
              std::max(start, ends[carriedFrom[e] - static_cast<int64_t>(n)]);
      double finish = start + o.seconds;
      ends[op] = streamFree[o.stream] = finish;
      last = std::max(last, finish);
      if (o.blocking)
        host = std::max(host, finish);
    }
  }
  return last;
}

Schedule moert::evaluate(const PairProblem &problem,
                         const std::vector<uint32_t> &order, uint32_t repeats) {
  Evaluator evaluator(problem, repeats);
  Schedule schedule;
  schedule.order = order;
  schedule.repeats = repeats;
  schedule.makespan = evaluator.makespan(order);
  schedule.starts = evaluator.ends();
  size_t n = problem.ops.size();
  double firstEnd = 0;
  for (size_t i = 0; i < n; ++i)
    firstEnd = std::max(firstEnd, schedule.starts[i]);
  for (size_t i = 0; i < schedule.starts.size(); ++i)
    schedule.starts[i] -= problem.ops[i % n].seconds;
  schedule.period = repeats == 1
                        ? schedule.makespan
                        : (schedule.makespan - firstEnd) / (repeats - 1);
  return schedule;
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

std::string PairProblem::print() const {
  std::string text = "streams " + std::to_string(streams) + "\n";
  auto number = [](double value) {
    char buffer[32];
    std::snprintf(buffer, sizeof(buffer), "%.17g", value);
    return std::string(buffer);
  };
  for (const Op &op : ops)
    text += "op " + op.name + " " + std::to_string(op.stream) + " " +
            number(op.seconds) + " " + number(op.host) +
            (op.blocking ? " blocking\n" : "\n");
  auto list = [&](const char *keyword, const std::vector<Edge> &which) {
    for (const Edge &edge : which)
      text += std::string(keyword) + " " + ops[edge.from].name + " " +
              ops[edge.to].name + "\n";
  };
  list("edge", edges);
  list("issue", issueEdges);
  list("carried", carried);
  return text;
}

/// The whole word as a number.
static bool parseNumber(const std::string &word, double &value) {
  try {
    size_t used = 0;
    value = std::stod(word, &used);
    return used == word.size();
  } catch (const std::exception &) {
    return false;
  }
}

bool PairProblem::parse(const std::string &text, PairProblem &problem,
                        std::string &error) {
  problem = PairProblem();
  std::map<std::string, uint32_t> index;
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    auto fail = [&](const std::string &reason) {
      problem = PairProblem();
      error = "line " + std::to_string(number) + ": " + reason;
      return false;
    };
    std::istringstream stream(line.substr(0, line.find('#')));
    std::vector<std::string> words;
    for (std::string word; stream >> word;)
      words.push_back(word);
    if (words.empty())
      continue;
    const std::string &keyword = words[0];
    if (keyword == "streams") {
      double count;
      if (words.size() != 2 || !parseNumber(words[1], count) || count < 1 ||
          count > 64 || count != std::floor(count))
        return fail("expected 'streams N', 1 <= N <= 64");
      problem.streams = static_cast<uint32_t>(count);
    } else if (keyword == "op") {
      double queue;
      Op op;
      if (words.size() < 5 || words.size() > 6 ||
          !parseNumber(words[2], queue) || !parseNumber(words[3], op.seconds) ||
          !parseNumber(words[4], op.host) ||
          (words.size() == 6 && words[5] != "blocking"))
        return fail("expected 'op NAME STREAM SECONDS HOST [blocking]'");
      if (!(queue >= 0 && queue < problem.streams) ||
          queue != std::floor(queue))
        return fail("no stream '" + words[2] + "'");
      op.name = words[1];
      op.stream = static_cast<uint32_t>(queue);
      op.blocking = words.size() == 6;
      if (!index.emplace(op.name, problem.ops.size()).second)
        return fail("op '" + op.name + "' is there already");
      problem.ops.push_back(op);
    } else if (keyword == "edge" || keyword == "issue" ||
               keyword == "carried") {
      if (words.size() != 3)
        return fail("expected '" + keyword + " NAME NAME'");
      for (int i : {1, 2})
        if (!index.count(words[i]))
          return fail("no op '" + words[i] + "' above this line");
      auto &list = keyword == "edge"    ? problem.edges
                   : keyword == "issue" ? problem.issueEdges
                                        : problem.carried;
      list.push_back({index[words[1]], index[words[2]]});
    } else {
      return fail("unknown statement '" + keyword +
                  "', expected streams, op, edge, issue or carried");
    }
  }
  error = problem.check();
  if (error.empty())
    return true;
  problem = PairProblem();
  return false;
}
