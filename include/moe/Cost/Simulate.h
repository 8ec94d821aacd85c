//===- Simulate.h - A table on a machine, in time -------------------------===//
//
// Plays every program of a table on one rank that stands for all of its ranks.
//
// The host issues ops in order, each takes it hostSeconds; a captured range is
// issued whole, after hostGraph; after a HostRead it waits. A stream runs its
// ops in issue order, each as soon as it is issued and its waits are met.
// Kernels that run at the same time on one GPU share its rate evenly.
// Collectives that run at the same time over one link (NVLink, network) share
// it. Contention: while collectives or sends run, compute loses the largest of
// their computeSlowdown; while kernels compute, collectives lose
// System::communicationSlowdown. A collective of one program starts when this
// rank is ready, as its members are alike; one whose group spans programs, and
// a send with its receive, starts when all programs are ready and takes the
// same time for all of them, whatever runs beside it.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_COST_SIMULATE_H
#define MOE_COST_SIMULATE_H

#include "moe/Cost/System.h"

namespace moert {

/// When one op ran.
struct TimedOp {
  uint32_t program = 0;
  /// Position in the program: call, and op of its template.
  int64_t call = 0;
  uint32_t op = 0;
  double start = 0, end = 0;
};

/// Of one rank of a program, in seconds of the step.
struct ProgramTimes {
  /// Time in which kernels, collectives and sends ran: lengths of unions of
  /// intervals, not sums.
  double compute = 0, communication = 0;
  /// Communication with no kernel beside it.
  double exposed = 0;
  /// Neither ran: the device had nothing issued (host), or waited for other
  /// programs, the end of the step included (bubble), or for a copy to the
  /// host.
  double host = 0, bubble = 0, copy = 0;
  /// Time the host spent issuing; and waiting for copies.
  double hostBusy = 0, hostBlocked = 0;
  /// End of the program's last op.
  double end = 0;
};

struct Simulation {
  double makespan = 0;
  std::vector<ProgramTimes> programs;
  /// All ops in order of their end, if asked for.
  std::vector<TimedOp> timeline;
};

/// The table must be well-formed (checkTable). False and `error` if ops wait
/// for each other forever; it names one for each program.
bool simulate(const Table &table, const System &system, bool timeline,
              Simulation &result, std::string &error);

/// The timeline as Chrome-trace JSON (opens in Perfetto): a process for each
/// program, a thread for each stream, times in microseconds.
std::string toTrace(const Table &table, const Simulation &simulation);

/// What no order, no stream and no event can beat, by the model above. It
/// never reads the order of ops, streams or waits.
struct StepBound {
  /// For each program: kernels and collectives of one link, with the contention
  /// that they can't avoid; or the host's work.
  double device = 0, host = 0;
  /// Pipelines: first forward through the programs before + own forward and
  /// backward + last backward through the programs before.
  double pipeline = 0;

  double best() const;
};

/// With C the sum of the kernels' times of a program, M that of its collectives
/// over one link, s the least computeSlowdown among these and c the
/// communicationSlowdown: if both run at once for a time x, then the step takes
///   max(C + s x, M + c x, C + M - (1 - s - c) x)
/// and `device` is the least of that over x, greatest over programs and links.
/// `host` is the sum of hostSeconds, hostGraph and hostSync.
///
/// `pipeline` needs programs that send "F" ops only to the next program (else
/// it is 0). F(p) is the least over micro-batches of the time of one
/// micro-batch's ops of half F on program p, the larger of kernels and of each
/// link; B(p) likewise for half B, less weight gradients (ops *_wgrad), which
/// nothing waits for. Ops without half count for `device` and `host` only.
/// Then, as in `device`, with loads L(p) of all ops of halves F, B, W and L'(p)
/// of halves F and B less weight gradients, it is the greatest over p of
///   F(0) + .. + F(p-1) + max(L(p), L'(p) + B(0) + .. + B(p-1)).
/// This holds where a program can't begin a micro-batch before all earlier
/// programs have done its F, nor an earlier program its B.
StepBound stepLowerBound(const Table &table, const System &system);

} // namespace moert

#endif // MOE_COST_SIMULATE_H
