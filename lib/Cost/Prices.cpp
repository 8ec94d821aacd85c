//===- Prices.cpp - The ops of a table, priced ----------------------------===//

#include "Prices.h"

#include <algorithm>

using namespace moert;

static Price priceOp(const Table &table, const System &system, const Op &op) {
  Price price;
  price.host = hostSeconds(system, op.kind, op.capture >= 0);
  switch (op.kind) {
  case OpKind::Launch: {
    const Kernel &kernel = table.kernels[op.kernel];
    ElementType type = ElementType::F32;
    for (const Operand &operand : op.operands)
      if (operand.type == ElementType::BF16)
        type = ElementType::BF16;
    price.seconds =
        kernelSeconds(system, kernel.op, kernel.flops, kernel.bytes, type);
    break;
  }
  case OpKind::Collective: {
    const Communicator &group = table.communicators[op.communicator];
    price.seconds = collectiveSeconds(system, op.collective, op.bytes,
                                      group.size, group.stride);
    price.resource = insideDomain(system, group.size, group.stride)
                         ? Resource::NVLink
                         : Resource::Network;
    price.slowdown = computeSlowdown(system, group.smBudget);
    break;
  }
  case OpKind::Send:
  case OpKind::Recv:
    price.resource = Resource::Pair;
    price.slowdown =
        computeSlowdown(system, table.communicators[op.communicator].smBudget);
    break;
  case OpKind::HostRead:
    price.resource = Resource::Copy;
    price.seconds = system.hostCopyLatency;
    break;
  }
  return price;
}

std::vector<std::vector<Price>> moert::priceOps(const Table &table,
                                                const System &system) {
  std::vector<std::vector<Price>> prices;
  for (const Template &tmpl : table.templates) {
    std::vector<Price> list;
    int32_t capture = -1;
    for (const Op &op : tmpl.ops) {
      list.push_back(priceOp(table, system, op));
      if (op.capture >= 0 && op.capture != capture)
        list.back().host = system.hostGraph;
      capture = op.capture;
    }
    prices.push_back(std::move(list));
  }
  return prices;
}

uint32_t Placement::programOf(int64_t rank) const {
  uint32_t p = 0;
  while (p + 1 < table.programs.size() &&
         (rank < table.programs[p].firstRank ||
          rank >= table.programs[p].firstRank + table.programs[p].rankCount))
    ++p;
  return p;
}

int64_t Placement::peerOf(uint32_t program, const Op &op) const {
  const Communicator &group = table.communicators[op.communicator];
  int64_t rank = table.programs[program].firstRank;
  int64_t at = rank / group.stride % group.size;
  int64_t to = (at + op.peer % group.size + group.size) % group.size;
  return rank + (to - at) * group.stride;
}

std::vector<uint32_t> Placement::members(uint32_t program,
                                         uint32_t communicator) const {
  const Communicator &group = table.communicators[communicator];
  int64_t rank = table.programs[program].firstRank;
  int64_t base = rank - rank / group.stride % group.size * group.stride;
  std::vector<uint32_t> programs;
  for (int64_t i = 0; i < group.size; ++i)
    programs.push_back(programOf(base + i * group.stride));
  std::sort(programs.begin(), programs.end());
  programs.erase(std::unique(programs.begin(), programs.end()), programs.end());
  return programs;
}
