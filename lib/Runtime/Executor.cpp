//===- Executor.cpp - Runs the programs of all ranks ----------------------===//

#include "Executor.h"
#include "Collectives.h"

#include <algorithm>
#include <thread>
#include <utility>

using namespace moert;

static bool communicates(const Op &op) {
  return op.kind == OpKind::Collective || op.kind == OpKind::Send ||
         op.kind == OpKind::Recv;
}

/// Is it read by the host, as it issues the op?
static bool readByHost(const Template &t, const Operand &operand) {
  return operand.effect == Effect::Read &&
         t.frames[operand.frame].kind == FrameKind::Host;
}

Executor::Schedule::Schedule(const Table &table, uint32_t program)
    : view(table, program), streamOps(table.streams.size()),
      communicatorOps(table.communicators.size()) {
  int64_t calls = view.program().calls.size();
  for (int64_t call = 0, flat = 0; call < calls; ++call) {
    const Template &t = view.templateOf(call);
    for (const Op &op : t.ops) {
      for (const Operand &operand : op.operands)
        if (readByHost(t, operand) &&
            (hostReaders.empty() || hostReaders.back() != flat))
          hostReaders.push_back(flat);
      streamOps[op.stream].push_back(flat);
      if (communicates(op))
        communicatorOps[op.communicator].push_back(flat);
      // Within a graph a copy to the host holds up nobody.
      if (op.kind == OpKind::HostRead && op.capture < 0)
        blockingReads.push_back(flat);
      ++flat;
    }
  }
}

std::pair<int64_t, const Op *> Executor::Schedule::at(int64_t flat) const {
  int64_t call = view.callOf(flat);
  return {call, &view.op(call, flat - view.firstOpOf(call))};
}

Executor::Executor(const Table &table, const std::vector<Rank> &ranks,
                   const std::vector<KernelCode> &code,
                   const EngineOptions &options)
    : table(table), ranks(ranks), code(code), options(options),
      random(options.orderSeed) {
  for (uint32_t i = 0; i < table.programs.size(); ++i)
    schedules.emplace_back(table, i);
  states.resize(ranks.size());
}

int64_t Executor::issueLimit(uint32_t rank) const {
  const Schedule &schedule = scheduleOf(rank);
  size_t next = states[rank].nextRead;
  return next < schedule.blockingReads.size() ? schedule.blockingReads[next] + 1
                                              : schedule.view.size();
}

void Executor::reset() {
  for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
    RankState &state = states[rank];
    state.remaining = scheduleOf(rank).view.size();
    state.done.assign(state.remaining, 0);
    state.streams.resize(table.streams.size());
    for (StreamState &stream : state.streams) {
      stream.next = 0;
      stream.busy = false;
    }
    state.nextOnCommunicator.assign(table.communicators.size(), 0);
    state.posted.assign(table.communicators.size(), 0);
    state.nextRead = state.nextHostReader = 0;
  }
  arrived.assign(table.communicators.size(),
                 std::vector<int64_t>(table.ranks, 0));
  ready.clear();
  running = idle = 0;
  sent.clear();
  failure.clear();
}

bool Executor::run(std::string &error) {
  reset();
  for (uint32_t rank = 0; rank < ranks.size(); ++rank)
    issue(rank);
  for (uint32_t rank = 0; rank < ranks.size(); ++rank)
    advance(rank);
  std::vector<std::thread> helpers;
  for (int i = 1; i < options.threads; ++i)
    helpers.emplace_back([this] { work(); });
  work();
  for (std::thread &helper : helpers)
    helper.join();
  if (failure.empty())
    failure = deadlock();
  error = failure;
  return error.empty();
}

//===----------------------------------------------------------------------===//
// Starting ops
//===----------------------------------------------------------------------===//

/// The host reads what it passes by value to the ops that it issues now.
void Executor::issue(uint32_t rank) {
  const Schedule &schedule = scheduleOf(rank);
  RankState &state = states[rank];
  const std::vector<int64_t> &readers = schedule.hostReaders;
  int64_t limit = issueLimit(rank);
  for (size_t &next = state.nextHostReader;
       next < readers.size() && readers[next] < limit; ++next) {
    auto [call, op] = schedule.at(readers[next]);
    std::vector<char> &values = state.hostValues[readers[next]];
    // A graph keeps the values that it was made with.
    if (op->capture >= 0 && !values.empty())
      continue;
    values.clear();
    for (const Operand &operand : op->operands)
      if (readByHost(schedule.view.templateOf(call), operand)) {
        Range range = schedule.view.range(call, operand);
        const char *arena = ranks[rank].arena.data();
        values.insert(values.end(), arena + range.begin, arena + range.end);
      }
  }
}

void Executor::advance(uint32_t rank) {
  for (uint32_t stream = 0; stream < table.streams.size(); ++stream)
    tryStart(rank, stream);
}

void Executor::tryStart(uint32_t rank, uint32_t number) {
  const Schedule &schedule = scheduleOf(rank);
  RankState &state = states[rank];
  StreamState &stream = state.streams[number];
  const std::vector<int64_t> &ops = schedule.streamOps[number];
  if (stream.busy || stream.next == ops.size())
    return;
  int64_t flat = ops[stream.next];
  if (flat >= issueLimit(rank))
    return;
  auto [call, opAt] = schedule.at(flat);
  const Op &op = *opAt;
  for (const Wait &wait : op.waits) {
    int64_t awaited = schedule.view.waitedOp(call, wait);
    if (awaited >= 0 && !state.done[awaited])
      return;
  }
  if (communicates(op) &&
      schedule.onCommunicator(
          op.communicator, state.nextOnCommunicator[op.communicator]) != flat)
    return;

  stream.busy = true;
  Task &task = stream.task;
  task.rank = rank;
  task.flat = flat;
  task.call = call;
  task.op = &op;
  task.tiles = -1;
  task.nextTile = task.doneTiles = 0;
  if (communicates(op))
    post(task);
  else
    makeReady(task);
}

void Executor::post(Task &task) {
  states[task.rank].posted[task.op->communicator] = 1;
  if (task.op->kind == OpKind::Collective)
    postCollective(task);
  else
    postPair(task);
}

const Executor::Task *Executor::postedTask(int64_t rank,
                                           uint32_t communicator) const {
  const RankState &state = states[rank];
  if (!state.posted[communicator])
    return nullptr;
  const Schedule &schedule = scheduleOf(rank);
  const Op &op = *schedule
                      .at(schedule.onCommunicator(
                          communicator, state.nextOnCommunicator[communicator]))
                      .second;
  return &state.streams[op.stream].task;
}

Executor::Task *Executor::postedTask(int64_t rank, uint32_t communicator) {
  return const_cast<Task *>(
      std::as_const(*this).postedTask(rank, communicator));
}

void Executor::postCollective(Task &task) {
  const Communicator &c = table.communicators[task.op->communicator];
  int64_t first = memberOf(c, task.rank, 0);
  int64_t &count = arrived[task.op->communicator][first];
  // Comparing with one that waits is enough: those agree with each other.
  for (int64_t m = 0; m < c.size && count > 0; ++m) {
    Task *other = postedTask(first + m * c.stride, task.op->communicator);
    if (!other || other == &task || other->op->kind != OpKind::Collective)
      continue;
    if (!sameCollective(*task.op, *other->op))
      return fail("collectives disagree on communicator '" + c.name +
                  "': " + describe(task) + " and " + describe(*other));
    break;
  }
  if (++count < c.size)
    return;
  count = 0;
  task.members.clear();
  for (int64_t m = 0; m < c.size; ++m)
    task.members.push_back(
        postedTask(first + m * c.stride, task.op->communicator));
  makeReady(task);
}

void Executor::postPair(Task &task) {
  const Communicator &c = table.communicators[task.op->communicator];
  int64_t position = positionIn(c, task.rank) + task.op->peer;
  Task *other =
      postedTask(memberOf(c, task.rank, position), task.op->communicator);
  bool isSend = task.op->kind == OpKind::Send;
  if (!other || other->op->kind != (isSend ? OpKind::Recv : OpKind::Send) ||
      other->op->peer != -task.op->peer)
    return;
  Task &send = isSend ? task : *other, &recv = isSend ? *other : task;
  if (!sameTransfer(*send.op, *recv.op))
    return fail("a send and its receive differ in type or size on "
                "communicator '" +
                c.name + "': " + describe(send) + " and " + describe(recv));
  send.members = {&send, &recv};
  makeReady(send);
}

//===----------------------------------------------------------------------===//
// The ready list
//===----------------------------------------------------------------------===//

/// A heap's top is the greatest: order the earliest issued last.
template <typename T> static bool issuedLater(const T *a, const T *b) {
  return std::tie(a->flat, a->rank) > std::tie(b->flat, b->rank);
}

void Executor::makeReady(Task &task) {
  ready.push_back(&task);
  if (!options.orderSeed)
    std::push_heap(ready.begin(), ready.end(), issuedLater<Task>);
}

Executor::Task &Executor::pick() {
  if (!options.orderSeed)
    return *ready.front();
  std::swap(ready[random() % ready.size()], ready.back());
  return *ready.back();
}

/// Removes the task picked last.
void Executor::drop() {
  if (!options.orderSeed)
    std::pop_heap(ready.begin(), ready.end(), issuedLater<Task>);
  ready.pop_back();
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

void Executor::work() {
  std::unique_lock<std::mutex> lock(mutex);
  while (true) {
    ++idle;
    changed.wait(lock, [&] {
      return !failure.empty() || !ready.empty() || running == 0;
    });
    --idle;
    if (!failure.empty() || ready.empty())
      break;
    Task &task = pick();
    if (task.tiles < 0)
      prepare(task);
    int64_t begin = task.nextTile;
    int64_t share = std::max<int64_t>(task.tiles / (2 * options.threads), 1);
    int64_t end = task.nextTile = std::min(begin + share, task.tiles);
    if (end == task.tiles)
      drop();
    ++running;
    bool wake = idle > 0 && !ready.empty();
    lock.unlock();
    if (wake)
      changed.notify_one();

    std::string problem;
    try {
      problem = execute(task, begin, end);
    } catch (const std::exception &e) {
      problem = describe(task) + ": " + e.what();
    }

    lock.lock();
    --running;
    if (!problem.empty())
      fail(problem);
    task.doneTiles += end - begin;
    if (failure.empty() && task.nextTile == task.tiles &&
        task.doneTiles == task.tiles)
      finish(task);
  }
  // The others have nothing to wait for, either.
  changed.notify_all();
}

void Executor::prepare(Task &task) {
  task.tiles = 1;
  if (communicates(*task.op)) {
    for (Task *member : task.members)
      gatherPointers(*member);
    return;
  }
  gatherPointers(task);
  if (task.op->kind != OpKind::Launch)
    return;
  task.launch = {&table.kernels[task.op->kernel], &task.op->operands,
                 task.pointers.data()};
  if (const HostKernel *kernel = code[task.op->kernel].library)
    task.tiles = kernel->tiles(task.launch);
}

void Executor::gatherPointers(Task &task) {
  const ScheduleView &view = scheduleOf(task.rank).view;
  const Template &t = view.templateOf(task.call);
  char *hostValue = nullptr;
  task.pointers.clear();
  for (const Operand &operand : task.op->operands) {
    if (readByHost(t, operand)) {
      if (!hostValue)
        hostValue = states[task.rank].hostValues.at(task.flat).data();
      task.pointers.push_back(hostValue);
      hostValue += operand.bytes();
    } else {
      task.pointers.push_back(ranks[task.rank].arena.at<char>(
          view.range(task.call, operand).begin));
    }
  }
}

std::string Executor::execute(Task &task, int64_t begin, int64_t end) {
  if (task.op->kind == OpKind::HostRead) {
    std::memcpy(task.pointers[1], task.pointers[0],
                task.op->operands[0].bytes());
    return "";
  }
  if (task.op->kind != OpKind::Launch)
    return transfer(task);
  const KernelCode &kernel = code[task.op->kernel];
  if (kernel.generated)
    kernel.generated(task.pointers.data());
  else
    for (int64_t tile = begin; tile < end; ++tile)
      kernel.library->run(task.launch, tile);
  return "";
}

std::string Executor::transfer(Task &task) {
  if (task.op->kind == OpKind::Send) {
    if (int64_t bytes = task.op->operands[0].bytes())
      std::memmove(task.members[1]->pointers[0], task.pointers[0], bytes);
    return "";
  }
  std::vector<Part> parts;
  for (const Task *member : task.members) {
    const ScheduleView &view = scheduleOf(member->rank).view;
    parts.push_back({member->op, member->pointers.data(),
                     view.layer(member->call,
                                member->flat - view.firstOpOf(member->call))});
  }
  size_t member = 0;
  std::string problem = runCollective(parts, member);
  return problem.empty() ? "" : describe(*task.members[member]) + " " + problem;
}

//===----------------------------------------------------------------------===//
// Finishing
//===----------------------------------------------------------------------===//

void Executor::finish(const Task &task) {
  if (!communicates(*task.op)) {
    complete(task);
    return advance(task.rank);
  }
  countSent(task);
  // Slots are used again as ranks advance: complete all members first.
  std::vector<uint32_t> done;
  for (const Task *member : task.members)
    done.push_back(member->rank);
  for (const Task *member : task.members)
    complete(*member);
  for (uint32_t rank : done)
    advance(rank);
}

void Executor::countSent(const Task &task) {
  int64_t &bytes = sent[task.op->module + " " + task.op->half];
  if (task.op->kind == OpKind::Send)
    bytes += task.op->operands[0].bytes();
  else
    for (const Task *member : task.members)
      bytes += moert::sentBytes({member->op, member->pointers.data(), -1});
}

void Executor::complete(const Task &task) {
  RankState &state = states[task.rank];
  state.done[task.flat] = 1;
  --state.remaining;
  StreamState &stream = state.streams[task.op->stream];
  stream.busy = false;
  ++stream.next;
  if (communicates(*task.op)) {
    ++state.nextOnCommunicator[task.op->communicator];
    state.posted[task.op->communicator] = 0;
  }
  if (task.op->capture >= 0)
    return;
  state.hostValues.erase(task.flat);
  if (task.op->kind == OpKind::HostRead) {
    ++state.nextRead;
    issue(task.rank);
  }
}

void Executor::fail(const std::string &message) {
  if (failure.empty())
    failure = message;
}

//===----------------------------------------------------------------------===//
// Reports
//===----------------------------------------------------------------------===//

std::string Executor::describe(uint32_t rank, int64_t flat) const {
  const ScheduleView &view = scheduleOf(rank).view;
  auto [call, op] = scheduleOf(rank).at(flat);
  return "'" + view.location(call, flat - view.firstOpOf(call)) + "' (rank " +
         std::to_string(rank) + ", stream " + table.streams[op->stream].name +
         ")";
}

/// Why the stream's next op has not run; empty: the host has not issued it, or
/// there is none.
std::string Executor::blocker(uint32_t rank, uint32_t number) const {
  const Schedule &schedule = scheduleOf(rank);
  const RankState &state = states[rank];
  const StreamState &stream = state.streams[number];
  const std::vector<int64_t> &ops = schedule.streamOps[number];
  if (stream.next == ops.size() || ops[stream.next] >= issueLimit(rank))
    return "";
  int64_t flat = ops[stream.next];
  auto [call, opAt] = schedule.at(flat);
  const Op &op = *opAt;
  std::string text = describe(rank, flat) + " waits for ";
  if (!stream.busy) {
    for (const Wait &wait : op.waits) {
      int64_t awaited = schedule.view.waitedOp(call, wait);
      if (awaited >= 0 && !state.done[awaited])
        return text + describe(rank, awaited);
    }
    return text +
           describe(rank, schedule.onCommunicator(
                              op.communicator,
                              state.nextOnCommunicator[op.communicator])) +
           ", earlier on its communicator";
  }
  const Communicator &c = table.communicators[op.communicator];
  if (op.kind != OpKind::Collective)
    return text + "rank " +
           std::to_string(memberOf(c, rank, positionIn(c, rank) + op.peer));
  text += "ranks";
  for (int64_t m = 0; m < c.size; ++m) {
    const Task *task = postedTask(memberOf(c, rank, m), op.communicator);
    if (!task || task->op->kind != OpKind::Collective)
      text += " " + std::to_string(memberOf(c, rank, m));
  }
  return text + " of communicator '" + c.name + "'";
}

/// Empty: everything is done.
std::string Executor::deadlock() const {
  std::string text;
  int64_t stuck = 0;
  for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
    if (states[rank].remaining == 0)
      continue;
    for (uint32_t stream = 0; stream < table.streams.size(); ++stream) {
      std::string why = blocker(rank, stream);
      if (!why.empty() && ++stuck <= 16)
        text += "\n  " + why;
    }
  }
  if (stuck > 16)
    text += "\n  and " + std::to_string(stuck - 16) + " more";
  return stuck ? "deadlock: no op can run" + text : "";
}
