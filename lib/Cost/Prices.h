//===- Prices.h - The ops of a table, priced ------------------------------===//
//
// What the simulator and the bound share: one price for each op of a template.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_LIB_COST_PRICES_H
#define MOE_LIB_COST_PRICES_H

#include "moe/Cost/System.h"

namespace moert {

/// What an op occupies while it runs.
enum class Resource : uint8_t {
  Compute,
  NVLink,
  Network,
  /// Copy to the host.
  Copy,
  /// Send, receive: with another rank's.
  Pair,
};

struct Price {
  double seconds = 0;
  /// Host time before the op is issued: a captured range is paid by its first
  /// op.
  double host = 0;
  /// Share of the compute rate that it takes away.
  double slowdown = 0;
  Resource resource = Resource::Compute;
};

/// Prices of templates[t].ops[i]: prices[t][i]. The seconds of sends and
/// receives are left to the ranks' positions (0).
std::vector<std::vector<Price>> priceOps(const Table &table,
                                         const System &system);

/// Where the ranks of a communicator run.
struct Placement {
  explicit Placement(const Table &table) : table(table) {}

  /// The program of a rank.
  uint32_t programOf(int64_t rank) const;
  /// The rank `peer` positions from the first rank of a program.
  int64_t peerOf(uint32_t program, const Op &op) const;
  /// Programs of the members of its group, ascending.
  std::vector<uint32_t> members(uint32_t program, uint32_t communicator) const;

private:
  const Table &table;
};

} // namespace moert

#endif // MOE_LIB_COST_PRICES_H
