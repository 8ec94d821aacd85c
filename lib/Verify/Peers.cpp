//===- Peers.cpp - How programs meet in communicators ---------------------===//

#include "Flat.h"

#include <algorithm>

using namespace moert;
using namespace moert::verifier;

static int64_t baseOf(const Communicator &c, int64_t rank) {
  return rank - (rank / c.stride) % c.size * c.stride;
}

Peers::Peers(const Table &table, const std::vector<FlatProgram> &programs)
    : table(table), rankPrograms(table.ranks) {
  for (uint32_t p = 0; p < table.programs.size(); ++p)
    for (int64_t i = 0; i < table.programs[p].rankCount; ++i)
      rankPrograms[table.programs[p].firstRank + i] = p;

  for (const Communicator &c : table.communicators) {
    std::vector<uint32_t> parent(table.programs.size());
    for (uint32_t p = 0; p < parent.size(); ++p)
      parent[p] = p;
    auto root = [&](uint32_t p) {
      while (parent[p] != p)
        p = parent[p] = parent[parent[p]];
      return p;
    };
    for (int64_t rank = 0; rank < table.ranks; ++rank) {
      uint32_t a = root(rankPrograms[rank]);
      uint32_t b = root(rankPrograms[baseOf(c, rank)]);
      parent[std::max(a, b)] = std::min(a, b);
    }
    for (uint32_t &p : parent)
      p = root(p);
    classes.push_back(std::move(parent));
  }

  for (const FlatProgram &program : programs) {
    std::vector<int32_t> numbers(program.size(), -1);
    std::vector<std::vector<int32_t>> ops(table.communicators.size());
    program.forEachOp([&](int32_t index, int32_t, const Op &op,
                          const FlatOperand *, const FlatOperand *) {
      if (op.kind == OpKind::Collective) {
        numbers[index] = ops[op.communicator].size();
        ops[op.communicator].push_back(index);
      } else if (op.kind == OpKind::Send || op.kind == OpKind::Recv) {
        int32_t id = channelOf(program.index, op);
        if (id < 0)
          id = makeChannel(program.index, op);
        if (id < 0)
          return mixed.push_back({&program, index});
        Channel &channel = channels[id];
        std::vector<int32_t> &list =
            op.kind == OpKind::Send ? channel.sends : channel.receives;
        numbers[index] = list.size();
        list.push_back(index);
      }
    });
    ordinal.push_back(std::move(numbers));
    collectiveOps.push_back(std::move(ops));
  }
}

int64_t Peers::classSize(uint32_t communicator, uint32_t program) const {
  const std::vector<uint32_t> &all = classes[communicator];
  return std::count(all.begin(), all.end(), all[program]);
}

bool Peers::overlap(uint32_t a, uint32_t b, uint32_t program) const {
  const Communicator &first = table.communicators[a];
  const Communicator &second = table.communicators[b];
  int64_t rank = table.programs[program].firstRank;
  int64_t base = baseOf(first, rank), other = baseOf(second, rank);
  int64_t shared = 0;
  for (int64_t i = 0; i < first.size && shared < 2; ++i)
    shared += baseOf(second, base + i * first.stride) == other;
  return shared > 1;
}

int32_t Peers::channelOf(uint32_t program, const Op &op) const {
  auto it = channelIds.find(
      {program, op.communicator, op.peer, op.kind == OpKind::Send});
  return it == channelIds.end() ? -1 : it->second;
}

int32_t Peers::makeChannel(uint32_t program, const Op &op) {
  const Program &p = table.programs[program];
  int64_t by = op.peer * table.communicators[op.communicator].stride;
  int32_t peer = rankPrograms[p.firstRank + by];
  for (int64_t i = 0; i < p.rankCount; ++i)
    if (rankPrograms[p.firstRank + i + by] != peer)
      return -1;
  bool isSend = op.kind == OpKind::Send;
  Channel channel;
  channel.communicator = op.communicator;
  channel.from = isSend ? program : peer;
  channel.to = isSend ? peer : program;
  channel.distance = isSend ? op.peer : -op.peer;
  int32_t id = 0;
  for (; id < int32_t(channels.size()); ++id) {
    const Channel &c = channels[id];
    if (c.communicator == channel.communicator && c.from == channel.from &&
        c.to == channel.to && c.distance == channel.distance)
      break;
  }
  if (id == int32_t(channels.size()))
    channels.push_back(channel);
  channelIds[{program, op.communicator, op.peer, isSend}] = id;
  return id;
}
