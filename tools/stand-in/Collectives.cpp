//===- Collectives.cpp - What NCCL's ops do ---------------------*- C++ -*-===//

#include "Communicator.h"
#include "Numbers.h"

#include <cstring>
#include <set>

namespace standin {
namespace {

const char *kindName(int32_t kind) {
  static const char *const names[] = {"ncclAllReduce", "ncclReduceScatter",
                                      "ncclAllGather", "ncclBroadcast",
                                      "ncclSend",      "ncclRecv"};
  return names[kind];
}

std::string typeName(int32_t type) {
  switch (type) {
  case ncclInt8:
    return "i8";
  case ncclUint8:
    return "u8";
  case ncclInt32:
    return "i32";
  case ncclFloat32:
    return "f32";
  case ncclBfloat16:
    return "bf16";
  default:
    return "type " + std::to_string(type);
  }
}

std::string describe(const Signature &s) {
  std::string text = std::string(kindName(s.kind)) + " of " +
                     std::to_string(s.count) + " " + typeName(s.type);
  if (s.kind <= int(Kind::ReduceScatter))
    text += s.reduction == ncclSum ? ", sum" : ", max";
  if (s.kind == int(Kind::Broadcast))
    text += ", root " + std::to_string(s.root);
  return text;
}

bool isPair(Kind kind) { return kind == Kind::Send || kind == Kind::Recv; }

/// In the order of ranks, in `Sum`, rounded once.
template <typename T, typename Sum>
void reduce(const std::vector<Message> &inputs, size_t count, bool max,
            void *to) {
  for (size_t i = 0; i < count; ++i) {
    Sum sum{};
    for (size_t rank = 0; rank < inputs.size(); ++rank) {
      T element;
      std::memcpy(&element, inputs[rank].payload.data() + i * sizeof(T),
                  sizeof(T));
      Sum value = Sum(element);
      sum = rank == 0 ? value : max ? std::max(sum, value) : Sum(sum + value);
    }
    T result(sum);
    std::memcpy(static_cast<char *>(to) + i * sizeof(T), &result, sizeof(T));
  }
}

void reduce(ncclDataType_t type, const std::vector<Message> &inputs,
            size_t count, bool max, void *to) {
  switch (type) {
  case ncclFloat32:
    return reduce<float, float>(inputs, count, max, to);
  case ncclBfloat16:
    return reduce<Bf16, float>(inputs, count, max, to);
  case ncclInt32:
    return reduce<int32_t, int32_t>(inputs, count, max, to);
  case ncclInt8:
    return reduce<int8_t, int8_t>(inputs, count, max, to);
  default:
    return reduce<uint8_t, uint8_t>(inputs, count, max, to);
  }
}

class NcclFlight : public Flight {
public:
  NcclFlight(CommunicatorRef communicator, const std::vector<Part> &parts)
      : c(std::move(communicator)), parts(parts) {
    for (const Part &part : parts)
      sequences.push_back(part.kind == Kind::Send   ? c->sent[part.root]++
                          : part.kind == Kind::Recv ? c->received[part.root]++
                                                    : c->collectives++);
    long number = ++counts().nccl;
    fails = settings().failRank == counts().rank &&
            settings().failSequence == number;
  }

  void start() override {
    if (fails)
      c->error = ncclInternalError;
    if (c->aborted || fails)
      return;
    for (size_t i = 0; i < parts.size(); ++i)
      post(parts[i], sequences[i]);
  }

  bool arrived() override {
    if (c->aborted)
      return true;
    if (fails)
      return false;
    // What has arrived stays.
    for (; next < parts.size(); ++next, nextPeer = 0) {
      std::vector<int> from = peers(parts[next]);
      for (; nextPeer < from.size(); ++nextPeer)
        if (!c->mesh->has(key(next, from[nextPeer])))
          return false;
    }
    return true;
  }

  void finish() override {
    for (size_t i = 0; i < parts.size() && !c->aborted; ++i)
      take(i);
  }

  std::string waitsFor() const override {
    if (fails)
      return "nothing: it failed as MOE_STANDIN_FAIL says";
    std::string text;
    for (size_t i = 0; i < parts.size(); ++i)
      for (int peer : peers(parts[i])) {
        if (c->mesh->has(key(i, peer)))
          continue;
        text += text.empty() ? "" : "; ";
        text += "rank " + std::to_string(peer);
        if (c->mesh->gone(c->members[peer]))
          text += ", which has ended,";
        text += " to post the other side of " + describe(signature(parts[i])) +
                ", number " + std::to_string(sequences[i]);
      }
    return text;
  }

private:
  static Signature signature(const Part &part) {
    bool pair = isPair(part.kind);
    return {int32_t(part.kind), int32_t(part.type),
            pair ? 0 : int32_t(part.reduction), pair ? 0 : part.root,
            int64_t(part.count)};
  }

  /// Ranks that a part needs a message of.
  std::vector<int> peers(const Part &part) const {
    if (isPair(part.kind))
      return {part.root};
    std::vector<int> all(c->size());
    for (int i = 0; i < c->size(); ++i)
      all[i] = i;
    return all;
  }

  /// Of the message that part `i` needs of a peer. Both ends of a pair count
  /// their calls for each other.
  Key key(size_t i, int peer) const {
    Kind kind = parts[i].kind;
    return c->key(kind == Kind::Send   ? Channel::Posted
                  : kind == Kind::Recv ? Channel::Data
                                       : Channel::Collective,
                  peer, sequences[i]);
  }

  void post(const Part &part, int64_t sequence) const {
    size_t bytes = part.count * elementBytes(part.type);
    Signature own = signature(part);
    auto *from = static_cast<const char *>(part.from);
    switch (part.kind) {
    case Kind::Send:
      c->send(part.root, Channel::Data, sequence, own, from, bytes);
      return;
    case Kind::Recv:
      c->send(part.root, Channel::Posted, sequence, own);
      return;
    case Kind::AllReduce:
    case Kind::AllGather:
      for (int to = 0; to < c->size(); ++to)
        c->send(to, Channel::Collective, sequence, own, from, bytes);
      return;
    case Kind::ReduceScatter:
      for (int to = 0; to < c->size(); ++to)
        c->send(to, Channel::Collective, sequence, own, from + to * bytes,
                bytes);
      return;
    case Kind::Broadcast:
      for (int to = 0; to < c->size(); ++to)
        c->send(to, Channel::Collective, sequence, own, from,
                part.root == c->rank ? bytes : 0);
      return;
    }
  }

  void take(size_t i) {
    const Part &part = parts[i];
    size_t bytes = part.count * elementBytes(part.type);
    std::vector<Message> inputs;
    for (int peer : peers(part)) {
      inputs.push_back(c->mesh->take(key(i, peer)));
      check(part, sequences[i], peer, inputs.back().signature);
    }
    auto *to = static_cast<char *>(part.to);
    auto put = [&](size_t at, const Message &message) {
      if (bytes)
        std::memcpy(to + at, message.payload.data(), bytes);
    };
    switch (part.kind) {
    case Kind::Send:
      return;
    case Kind::Recv:
      return put(0, inputs[0]);
    case Kind::AllReduce:
    case Kind::ReduceScatter:
      return reduce(part.type, inputs, part.count, part.reduction == ncclMax,
                    to);
    case Kind::AllGather:
      for (size_t rank = 0; rank < inputs.size(); ++rank)
        put(rank * bytes, inputs[rank]);
      return;
    case Kind::Broadcast:
      return put(0, inputs[part.root]);
    }
  }

  void check(const Part &part, int64_t sequence, int peer,
             const Signature &theirs) const {
    Signature own = signature(part);
    bool same =
        isPair(part.kind)
            ? theirs.count * elementBytes(ncclDataType_t(theirs.type)) ==
                      own.count * elementBytes(part.type) &&
                  theirs.type == own.type
            : theirs == own;
    if (!same)
      fault("COLLECTIVE",
            "mismatch in " + c->name + ", number " + std::to_string(sequence) +
                ": rank " + std::to_string(c->rank) + " does " + describe(own) +
                ", rank " + std::to_string(peer) + " does " + describe(theirs));
  }

  CommunicatorRef c;
  const std::vector<Part> &parts;
  std::vector<int64_t> sequences;
  bool fails = false;
  size_t next = 0, nextPeer = 0;
};

int sharedProcesses(const Communicator &x, const Communicator &y) {
  std::set<int> processes;
  for (int member : x.members)
    processes.insert(x.mesh->process(member));
  int shared = 0;
  for (int member : y.members)
    shared += int(processes.count(y.mesh->process(member)));
  return shared;
}

class NcclWork : public Work {
public:
  NcclWork(CommunicatorRef communicator, std::vector<Part> all, long group)
      : c(std::move(communicator)), parts(std::move(all)), group(group) {
    for (const Part &part : parts) {
      if (name.find(kindName(int(part.kind))) == std::string::npos)
        name +=
            (name.empty() ? "" : "+") + std::string(kindName(int(part.kind)));
      size_t first = ranges.size();
      addRanges(part);
      for (size_t i = 0; i < first; ++i)
        for (size_t j = first; j < ranges.size(); ++j)
          checkGroup(ranges[i], ranges[j]);
    }
    name += " in " + c->name;
  }

  std::unique_ptr<Flight> issue(Op &op, std::vector<OpRef> &after) override {
    checkOrder(op);
    if (c->last)
      after.push_back(c->last);
    c->last = op.shared_from_this();
    c->uses[op.lane] = {op.tick, name, group};
    return std::make_unique<NcclFlight>(c, parts);
  }

private:
  void addRanges(const Part &part) {
    int64_t one = int64_t(part.count * elementBytes(part.type));
    int64_t every = one * c->size();
    if (part.kind != Kind::Recv &&
        (part.kind != Kind::Broadcast || part.root == c->rank))
      ranges.push_back({const_cast<void *>(part.from),
                        part.kind == Kind::ReduceScatter ? every : one,
                        MOE_READ});
    if (part.kind != Kind::Send)
      ranges.push_back(
          {part.to, part.kind == Kind::AllGather ? every : one, MOE_WRITE});
  }

  /// Calls of one group run at the same time.
  void checkGroup(const moe_range &x, const moe_range &y) const {
    uintptr_t begin = std::max(uintptr_t(x.begin), uintptr_t(y.begin));
    uintptr_t end =
        std::min(uintptr_t(x.begin) + x.bytes, uintptr_t(y.begin) + y.bytes);
    if (begin < end && (x.effect != MOE_READ || y.effect != MOE_READ))
      fault("RACE", "two calls of a group, " + name + " in " + c->name +
                        ", touch " + describeBytes(begin, end));
  }

  /// Ops that share more than one rank may wait for each other in two orders,
  /// if nothing says in which they run.
  void checkOrder(const Op &op) const {
    for (auto &[handle, other] : communicators()) {
      if (other == c || other->uses.empty() || sharedProcesses(*c, *other) < 2)
        continue;
      for (auto &[lane, use] : other->uses)
        if (use.group != group && !op.clock.covers(lane, use.tick))
          fault("UNORDERED", "collectives: nothing orders " + use.name + " (" +
                                 scheduler().laneName(lane) + ") and " + name +
                                 " (" + scheduler().laneName(op.lane) +
                                 "), and other ranks are in both");
    }
  }

  CommunicatorRef c;
  std::vector<Part> parts;
  long group;
};

} // namespace

size_t elementBytes(ncclDataType_t type) {
  switch (type) {
  case ncclInt8:
  case ncclUint8:
    return 1;
  case ncclBfloat16:
    return 2;
  case ncclInt32:
  case ncclFloat32:
    return 4;
  default:
    return 0;
  }
}

std::shared_ptr<Work> makeWork(CommunicatorRef communicator,
                               std::vector<Part> parts, long group) {
  return std::make_shared<NcclWork>(std::move(communicator), std::move(parts),
                                    group);
}

} // namespace standin
