//===- Interpreter.cpp - Issues a rank's program to its GPU ---------------===//

#include "Interpreter.h"
#include "Fault.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <nvtx3/nvToolsExt.h>
#include <set>
#include <utility>

using namespace moert;
using namespace moert::cuda;

static bool onHost(const Template &t, const Operand &operand) {
  return t.frames[operand.frame].kind == FrameKind::Host;
}

//===----------------------------------------------------------------------===//
// Preparation
//===----------------------------------------------------------------------===//

/// Why CUDA can't run the op as the table has it; empty: it can.
static std::string misuse(const Template &t, const Op &op) {
  if (op.capture >= 0 && op.kind != OpKind::Launch)
    return "is captured, but only kernels can be";
  for (size_t i = 0; i < op.operands.size(); ++i) {
    bool isCount = op.kind == OpKind::Collective &&
                   op.collective == CollectiveKind::AllToAll &&
                   (i == 1 || i == 2);
    bool isTarget = op.kind == OpKind::HostRead && i == 1;
    if (onHost(t, op.operands[i]) != (isCount || isTarget))
      return "has operand " + std::to_string(i) + " on the wrong side";
  }
  return "";
}

Interpreter::Interpreter(const Table &table, uint32_t program,
                         Launcher &launcher, Communicators &communicators,
                         char *arena)
    : table(table), view(table, program), launcher(launcher),
      communicators(communicators), arena(arena), plans(table.templates.size()),
      // Names of ranges cost time: only a profiler asks for them.
      ranges(std::getenv("NVTX_INJECTION64_PATH") ||
             std::getenv("MOE_RT_NVTX")) {
  // A profile measures on the first stream.
  std::set<size_t> computing = {0};
  for (const Call &call : view.program().calls) {
    const Template &t = table.templates[call.tmpl];
    if (!plans[call.tmpl].empty())
      continue;
    for (const Op &op : t.ops) {
      std::string problem = misuse(t, op);
      if (!problem.empty())
        fail("template '" + t.name + "', '" + op.location + "' " + problem);
      plans[call.tmpl].emplace_back();
      if (op.kind != OpKind::Launch)
        continue;
      computing.insert(op.stream);
      LaunchPlan &plan = plans[call.tmpl].back();
      plan = launcher.plan(table.kernels[op.kernel], op,
                           alignmentOf(call.tmpl, op));
      if (op.capture >= 0 && plan.needsRows())
        fail("template '" + t.name + "', '" + op.location +
             "' is captured, but takes counts of rows from the host");
    }
  }
  checkRows(view, [&](uint32_t tmpl, uint32_t local) {
    return plans[tmpl][local].needsRows();
  });
  int lowest = 0, highest = 0;
  MOE_CHECK(cudaDeviceGetStreamPriorityRange(&lowest, &highest));
  for (const Stream &stream : table.streams) {
    // Ours rise, CUDA's fall.
    int priority = std::clamp(lowest - stream.priority, highest, lowest);
    streams.push_back(nullptr);
    MOE_CHECK(cudaStreamCreateWithPriority(&streams.back(),
                                           cudaStreamNonBlocking, priority));
    Scratch &own = scratch.emplace_back();
    if (computing.count(scratch.size() - 1))
      MOE_CHECK(cudaMalloc(&own.memory, launcher.scratchBytes()));
    MOE_CHECK(cudaMalloc(&own.zeros, kScratchBytes));
    if (int64_t bytes = launcher.shapesBytes())
      MOE_CHECK(cudaMalloc(&own.shapes, bytes));
    MOE_CHECK(cudaMemsetAsync(own.zeros, 0, kScratchBytes, streams.back()));
  }
  findWaiters();
  planHostFrames();
}

Interpreter::~Interpreter() {
  // After a failure ops may be left; communicators are gone then.
  cudaDeviceSynchronize();
  // Graphs hold on to what they launch: they go first.
  for (auto &[key, graph] : graphs)
    cudaGraphExecDestroy(graph);
  for (cudaEvent_t event : freeEvents)
    cudaEventDestroy(event);
  for (auto &[flat, entry] : recorded)
    cudaEventDestroy(entry.event);
  for (Scratch &own : scratch) {
    cudaFree(own.memory);
    cudaFree(own.zeros);
    cudaFree(own.shapes);
  }
  for (cudaStream_t stream : streams)
    cudaStreamDestroy(stream);
}

std::string Interpreter::implementation(uint32_t kernel) const {
  for (size_t t = 0; t < plans.size(); ++t)
    for (size_t i = 0; i < plans[t].size(); ++i) {
      const Op &op = table.templates[t].ops[i];
      if (op.kind == OpKind::Launch && op.kernel == kernel)
        return launcher.describe(plans[t][i]);
    }
  return "";
}

/// Calls `visit(awaited flat index)` for each wait that the stream's own order
/// does not keep.
template <typename F>
static void forCrossWaits(const ScheduleView &view, int64_t call,
                          uint32_t local, F visit) {
  const Op &op = view.op(call, local);
  for (const Wait &wait : op.waits) {
    int64_t awaited = view.waitedOp(call, wait);
    if (awaited < 0)
      continue;
    int64_t other = view.callOf(awaited);
    if (view.op(other, uint32_t(awaited - view.firstOpOf(other))).stream !=
        op.stream)
      visit(awaited);
  }
}

/// Bytes that divide the addresses of the op's tensors in all calls; 0: it has
/// numbers alone, which may lie anywhere.
int64_t Interpreter::alignmentOf(uint32_t tmpl, const Op &op) const {
  int64_t alignment = 0;
  for (const Call &call : view.program().calls)
    if (call.tmpl == tmpl)
      for (const Operand &operand : op.operands)
        if (operand.shape.size() > 1 || operand.elements() > 1)
          alignment =
              std::gcd(alignment, call.bases[operand.frame] + operand.offset);
  return alignment;
}

void Interpreter::findWaiters() {
  waiters.assign(view.size(), 0);
  int64_t calls = view.program().calls.size();
  for (int64_t call = 0; call < calls; ++call)
    for (uint32_t local = 0; local < view.templateOf(call).ops.size(); ++local)
      forCrossWaits(view, call, local,
                    [&](int64_t awaited) { ++waiters[awaited]; });
}

void Interpreter::planHostFrames() {
  std::map<int64_t, int64_t> bytes;
  for (const Call &call : view.program().calls) {
    const Template &t = table.templates[call.tmpl];
    for (size_t f = 0; f < t.frames.size(); ++f)
      if (t.frames[f].kind == FrameKind::Host)
        bytes[call.bases[f]] =
            std::max(bytes[call.bases[f]], t.frames[f].bytes);
  }
  int64_t total = 0;
  for (auto [base, size] : bytes)
    total += size;
  char *at = reinterpret_cast<char *>(pinned.get(total));
  for (auto [base, size] : bytes) {
    hostFrames[base] = reinterpret_cast<int32_t *>(at);
    at += size;
  }
}

void *Interpreter::address(int64_t call, const Operand &operand) const {
  const Template &t = view.templateOf(call);
  if (!onHost(t, operand)) {
    int64_t begin = view.range(call, operand).begin;
    // Half of a temporary lies on its neighbour.
    if (planted("arena overlap") && operand.effect == Effect::Write &&
        t.frames[operand.frame].kind == FrameKind::Temporary)
      begin -= std::min(begin, operand.bytes() / 2) / 256 * 256;
    return arena + begin;
  }
  int64_t base = view.program().calls[call].bases[operand.frame];
  return reinterpret_cast<char *>(hostFrames.at(base)) + operand.offset;
}

//===----------------------------------------------------------------------===//
// Events
//===----------------------------------------------------------------------===//

cudaEvent_t Interpreter::takeEvent() {
  if (freeEvents.empty()) {
    freeEvents.push_back(nullptr);
    MOE_CHECK(
        cudaEventCreateWithFlags(&freeEvents.back(), cudaEventDisableTiming));
  }
  cudaEvent_t event = freeEvents.back();
  freeEvents.pop_back();
  return event;
}

/// After the op, if others wait for it.
void Interpreter::record(int64_t flat, cudaStream_t stream) {
  if (waiters[flat] == 0)
    return;
  cudaEvent_t event = takeEvent();
  MOE_CHECK(cudaEventRecord(event, stream));
  recorded[flat] = {event, waiters[flat]};
}

/// One op less will wait for it: a wait keeps what was recorded when it was
/// called, so that the last one gives the event back.
void Interpreter::release(int64_t flat) {
  auto found = recorded.find(flat);
  if (--found->second.left == 0) {
    freeEvents.push_back(found->second.event);
    recorded.erase(found);
  }
}

/// For the op's waits; those for ops from flat index `own` on are kept inside
/// the graph that is launched.
void Interpreter::waitFor(cudaStream_t stream, const Place &place,
                          int64_t own) {
  forCrossWaits(view, place.call, place.local, [&](int64_t awaited) {
    if (awaited >= own)
      return;
    if (!planted("event dropped"))
      MOE_CHECK(cudaStreamWaitEvent(stream, recorded.at(awaited).event, 0));
    release(awaited);
  });
}

//===----------------------------------------------------------------------===//
// Issuing
//===----------------------------------------------------------------------===//

std::string Interpreter::run() {
  refusal.clear();
  int64_t calls = view.program().calls.size(), flat = 0;
  for (int64_t call = 0; call < calls; ++call) {
    const Template &t = view.templateOf(call);
    for (uint32_t local = 0; local < t.ops.size();) {
      Place place{call, local, flat};
      int64_t issued = 1;
      if (t.ops[local].capture >= 0)
        issued = issueCapture(place);
      else
        issue(place);
      local += uint32_t(issued);
      flat += issued;
    }
  }
  for (cudaStream_t stream : streams)
    finish(stream);
  return refusal;
}

void Interpreter::issue(const Place &place) {
  cudaStream_t stream = streams[view.op(place.call, place.local).stream];
  waitFor(stream, place, place.flat);
  enqueue(place, planted("wrong stream") ? streams.back() : stream);
  follow(place);
  record(place.flat, stream);
}

void Interpreter::enqueue(const Place &place, cudaStream_t stream) {
  const Op &op = view.op(place.call, place.local);
  if (ranges)
    nvtxRangePushA(view.location(place.call, place.local).c_str());
  std::vector<void *> pointers;
  for (const Operand &operand : op.operands)
    pointers.push_back(address(place.call, operand));
  switch (op.kind) {
  case OpKind::Launch: {
    const LaunchPlan &plan =
        plans[view.program().calls[place.call].tmpl][place.local];
    const std::vector<int32_t> *rows = nullptr;
    if (plan.needsRows())
      rows = &values.rowsOf(view, place.call, place.local);
    const Kernel &kernel = table.kernels[op.kernel];
    if (profile)
      profile->begin(stream);
    launcher.launch(plan, kernel, op, pointers.data(), rows, scratch[op.stream],
                    stream);
    if (profile)
      profile->end(kernel, stream);
    break;
  }
  case OpKind::Collective:
    if (op.collective == CollectiveKind::AllToAll) {
      enqueueAllToAll(place, pointers.data(), stream);
      break;
    }
    [[fallthrough]];
  case OpKind::Send:
  case OpKind::Recv:
    communicators.launch(op, pointers.data(), stream);
    break;
  case OpKind::HostRead:
    MOE_CHECK(cudaMemcpyAsync(pointers[1], pointers[0], op.operands[0].bytes(),
                              cudaMemcpyDeviceToHost, stream));
    finish(stream);
    break;
  }
  if (ranges)
    nvtxRangePop();
}

void Interpreter::finish(cudaStream_t stream) {
  cudaEvent_t event = takeEvent();
  MOE_CHECK(cudaEventRecord(event, stream));
  communicators.wait(event);
  freeEvents.push_back(event);
}

int32_t *Interpreter::PinnedBuffer::get(int64_t wanted) {
  if (wanted > bytes) {
    MOE_CHECK(cudaFreeHost(std::exchange(memory, nullptr)));
    bytes = 0;
    MOE_CHECK(cudaMallocHost(reinterpret_cast<void **>(&memory), wanted));
    bytes = wanted;
  }
  return memory;
}

Interpreter::PinnedBuffer::~PinnedBuffer() { cudaFreeHost(memory); }

void Interpreter::enqueueAllToAll(const Place &place, void *const *pointers,
                                  cudaStream_t stream) {
  const Op &op = view.op(place.call, place.local);
  int64_t received = communicators.allToAll(
      op, pointers, static_cast<const int32_t *>(pointers[1]),
      static_cast<const int32_t *>(pointers[2]), !refusal.empty(), stream);
  int64_t capacity = op.operands[4].shape[0];
  if (received <= capacity)
    return;
  int64_t layer = view.layer(place.call, place.local);
  if (refusal.empty()) {
    refusal = "'" + view.location(place.call, place.local) +
              "' overflows: layer " + std::to_string(layer) + " needs " +
              std::to_string(received) + " rows, its capacity is " +
              std::to_string(capacity);
    // The first one's number stays: the copy reads it later.
    *overflowFlag.get(4) = int32_t(1 + std::max<int64_t>(layer, 0));
  }
  MOE_CHECK(cudaMemcpyAsync(pointers[3], overflowFlag.memory, 4,
                            cudaMemcpyHostToDevice, stream));
}

/// What the host knows of memory after the op.
void Interpreter::follow(const Place &place) {
  const Op &op = view.op(place.call, place.local);
  const void *read = op.kind == OpKind::HostRead
                         ? address(place.call, op.operands[1])
                         : nullptr;
  values.follow(view, place.call, place.local,
                static_cast<const int32_t *>(read));
}

//===----------------------------------------------------------------------===//
// Captures
//===----------------------------------------------------------------------===//

/// Issues all ops of the capture; returns their number.
int64_t Interpreter::issueCapture(const Place &first) {
  const Template &t = view.templateOf(first.call);
  const Call &call = view.program().calls[first.call];
  int32_t number = t.ops[first.local].capture;
  int64_t end = first.local;
  while (end < int64_t(t.ops.size()) && t.ops[end].capture == number)
    ++end;
  int64_t count = end - first.local;
  auto placeOf = [&](int64_t local) {
    return Place{first.call, uint32_t(local), first.flat + local - first.local};
  };
  std::pair<uint32_t, int32_t> name{call.tmpl, number};
  if (!std::exchange(warm[name], true) || profile) {
    for (int64_t local = first.local; local < end; ++local)
      issue(placeOf(local));
    return count;
  }

  cudaGraphExec_t &graph = graphs[{name, call.bases}];
  if (!graph)
    graph = capture(first, end);
  // The graph follows all that any of its ops waits for, and the earlier ops
  // of all its streams; those streams' later ops follow the graph.
  cudaStream_t origin = streams[t.ops[first.local].stream];
  std::vector<cudaStream_t> others;
  for (int64_t local = first.local; local < end; ++local) {
    waitFor(origin, placeOf(local), first.flat);
    cudaStream_t stream = streams[t.ops[local].stream];
    if (stream != origin &&
        std::find(others.begin(), others.end(), stream) == others.end())
      others.push_back(stream);
  }
  auto order = [&](cudaStream_t before, cudaStream_t after) {
    cudaEvent_t event = takeEvent();
    MOE_CHECK(cudaEventRecord(event, before));
    MOE_CHECK(cudaStreamWaitEvent(after, event, 0));
    freeEvents.push_back(event);
  };
  for (cudaStream_t other : others)
    order(other, origin);
  if (ranges)
    nvtxRangePushA(t.captures[number].name.c_str());
  MOE_CHECK(cudaGraphLaunch(graph, origin));
  if (ranges)
    nvtxRangePop();
  for (cudaStream_t other : others)
    order(origin, other);
  for (int64_t local = first.local; local < end; ++local) {
    follow(placeOf(local));
    record(placeOf(local).flat, origin);
  }
  // Waits inside the graph are its own.
  for (int64_t local = first.local; local < end; ++local)
    forCrossWaits(view, first.call, uint32_t(local), [&](int64_t awaited) {
      if (awaited >= first.flat)
        release(awaited);
    });
  return count;
}

cudaGraphExec_t Interpreter::capture(const Place &first, int64_t end) {
  const Template &t = view.templateOf(first.call);
  cudaStream_t origin = streams[t.ops[first.local].stream];
  // Events of a capture are not to be used outside of it.
  std::vector<cudaEvent_t> events;
  auto recordOn = [&](cudaStream_t stream) {
    events.push_back(nullptr);
    MOE_CHECK(cudaEventCreateWithFlags(&events.back(), cudaEventDisableTiming));
    MOE_CHECK(cudaEventRecord(events.back(), stream));
    return events.back();
  };
  std::map<int64_t, cudaEvent_t> done;
  std::vector<cudaStream_t> forked;
  MOE_CHECK(cudaStreamBeginCapture(origin, cudaStreamCaptureModeThreadLocal));
  cudaEvent_t begin = recordOn(origin);
  for (int64_t local = first.local; local < end; ++local) {
    Place place{first.call, uint32_t(local), first.flat + local - first.local};
    cudaStream_t stream = streams[t.ops[local].stream];
    if (stream != origin &&
        std::find(forked.begin(), forked.end(), stream) == forked.end()) {
      MOE_CHECK(cudaStreamWaitEvent(stream, begin, 0));
      forked.push_back(stream);
    }
    forCrossWaits(view, place.call, place.local, [&](int64_t awaited) {
      auto found = done.find(awaited);
      if (found != done.end())
        MOE_CHECK(cudaStreamWaitEvent(stream, found->second, 0));
    });
    enqueue(place, stream);
    if (waiters[place.flat])
      done[place.flat] = recordOn(stream);
  }
  if (planted("missing join")) {
    cudaStream_t other =
        origin == streams.back() ? streams.front() : streams.back();
    MOE_CHECK(cudaStreamWaitEvent(other, begin, 0));
    MOE_CHECK(cudaMemsetAsync(scratch.back().zeros, 0, 1, other));
  }
  if (planted("sync in capture"))
    MOE_CHECK(cudaStreamSynchronize(origin));
  for (cudaStream_t stream : forked)
    MOE_CHECK(cudaStreamWaitEvent(origin, recordOn(stream), 0));
  cudaGraph_t graph = nullptr;
  MOE_CHECK(cudaStreamEndCapture(origin, &graph));
  cudaGraphExec_t exec = nullptr;
  MOE_CHECK(cudaGraphInstantiate(&exec, graph, 0));
  MOE_CHECK(cudaGraphDestroy(graph));
  MOE_CHECK(cudaGraphUpload(exec, origin));
  for (cudaEvent_t event : events)
    MOE_CHECK(cudaEventDestroy(event));
  return exec;
}
