//===- Pair.h - The order of a template, from costs -----------------------===//
//
// A pair is one template made of two: the forward of a layer for one
// micro-batch and the backward of a layer for another. Whatever the host
// issues in which order, the bits are the same; the order decides what hides
// what.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_SCHEDULE_PAIR_H
#define MOE_SCHEDULE_PAIR_H

#include "moe/Cost/System.h"
#include "moe/Schedule/Problem.h"
#include "moe/Table/Table.h"

#include <set>

namespace moert {

/// Streams of a schedule, by index.
enum StreamIndex : uint32_t { kCompute, kComm, kPipeline };

/// Frame names of the halves of a pair are those of its parts with these.
inline constexpr const char *kForwardPrefix = "f.";
inline constexpr const char *kBackwardPrefix = "b.";

/// The ops of `forward`, then those of `backward`, over both's frames.
Template mergeTemplates(const Template &forward, const Template &backward);

/// Ops that are issued as one: a captured range, or a single op.
using Unit = std::vector<uint32_t>;

/// The ops of a template as units: consecutive ops of `half` kinds whose
/// module is in `captured` form one.
std::vector<Unit> formUnits(const Template &tmpl,
                            const std::set<std::string> &captured);

/// The problem of ordering the units, priced on a system. Carried edges: from
/// what a half puts out to what it takes in, as pairs follow each other.
PairProblem pairProblem(const Table &table, const Template &tmpl,
                        const std::vector<Unit> &units, const System &system);

/// Order of units after Megatron's combined 1F1B: communication of one half is
/// issued before the computation of the other that hides it; weight gradients
/// after the communication that follows them.
std::vector<uint32_t> megatronOrder(const Template &tmpl,
                                    const std::vector<Unit> &units);

/// What scheduling a template found. Seconds of the steady state: of one
/// execution when it is repeated.
struct OrderReport {
  std::string name;
  /// In program order on one stream; in Megatron's order; in the order taken;
  /// what no order can beat.
  double serial = 0, megatron = 0, chosen = 0, bound = 0;
};

/// Reorders the template's ops and makes captures of captured modules. The
/// result is never worse than Megatron's order under the same costs. Empty
/// `error`, or why it could not.
OrderReport scheduleTemplate(const Table &table, Template &tmpl,
                             const std::set<std::string> &captured,
                             const System &system, std::string &error);

/// Seconds of one op on its stream.
double opSeconds(const Table &table, const Op &op, const System &system);

} // namespace moert

#endif // MOE_SCHEDULE_PAIR_H
