//===- Problem.h - The order of a pair of templates, as a problem ---------===//
//
// One host issues ops one after another; each op runs on the stream it is
// bound to, and streams run what they are given in the order of issue. What is
// free is the order of issue. A pair of templates (the forward half of one
// micro-batch, the backward half of another) is such a problem; it knows no
// IR. Times are seconds.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_SCHEDULE_PROBLEM_H
#define MOE_SCHEDULE_PROBLEM_H

#include <cstdint>
#include <string>
#include <vector>

namespace moert {

struct PairProblem {
  struct Op {
    std::string name;
    /// The queue that runs it.
    uint32_t stream = 0;
    /// Time on the stream, and time of the host to issue it.
    double seconds = 0, host = 0;
    /// The host waits for its end before it issues the next op.
    bool blocking = false;
  };
  struct Edge {
    uint32_t from = 0, to = 0;
    bool operator==(const Edge &o) const {
      return from == o.from && to == o.to;
    }
  };

  uint32_t streams = 0;
  std::vector<Op> ops;
  /// `to` starts after the end of `from`, and is issued after it (an event is
  /// recorded before something waits for it).
  std::vector<Edge> edges;
  /// `to` is issued after `from`; nothing is said of their times.
  std::vector<Edge> issueEdges;
  /// Between repetitions: `to` of one starts after the end of `from` of the
  /// one before. May be cyclic.
  std::vector<Edge> carried;

  /// Is the input valid: indices in range, times finite and not negative, no
  /// cycle in edges and issueEdges. Empty, or what is wrong.
  std::string check() const;

  /// Text: one statement a line, `#` starts a comment.
  ///   streams 2
  ///   op NAME STREAM SECONDS HOST [blocking]
  ///   edge NAME NAME     issue NAME NAME     carried NAME NAME
  /// parse(print(p)) is p. False and `error` (with the line) on bad text; the
  /// result is checked.
  static bool parse(const std::string &text, PairProblem &problem,
                    std::string &error);
  std::string print() const;
};

/// An order of issue, and what follows from it for some repetitions, back to
/// back, in that order.
struct Schedule {
  /// Op indices, in issue order.
  std::vector<uint32_t> order;
  uint32_t repeats = 1;
  /// Start of op i of repetition r: starts[r * ops + i].
  std::vector<double> starts;
  /// End of the last op of the last repetition.
  double makespan = 0;
  /// From the end of the first repetition to the end of the last, each.
  /// With one repetition: the makespan.
  double period = 0;

  /// Is this a solution: the order is a permutation that respects edges and
  /// issueEdges, starts respect host, streams, edges, carried, and the
  /// makespan is theirs. Empty, or what is wrong. Shares no code with
  /// evaluate().
  std::string verify(const PairProblem &problem) const;
};

/// The times of `order` (a permutation that respects edges and issueEdges):
/// an op starts as soon as it is issued, its predecessors are done, and the
/// ops issued before it on its stream are done.
Schedule evaluate(const PairProblem &problem,
                  const std::vector<uint32_t> &order, uint32_t repeats = 1);

/// Evaluates many orders of one problem: as evaluate(), the makespan only.
class Evaluator {
public:
  Evaluator(const PairProblem &problem, uint32_t repeats);
  double makespan(const std::vector<uint32_t> &order);
  /// Ends of all ops after makespan(): ends()[r * ops + i].
  const std::vector<double> &ends() const { return end; }

private:
  const PairProblem &problem;
  uint32_t repeats;
  /// Predecessors of op i: from[first[i] .. first[i + 1]); likewise carried.
  std::vector<uint32_t> first, from, carriedFirst, carriedFrom;
  std::vector<double> end, streamFree;
};

} // namespace moert

#endif // MOE_SCHEDULE_PROBLEM_H
