//===- Capture.cpp - Stream capture and graphs ------------------*- C++ -*-===//

#include "Capture.h"
#include "Report.h"

#include <set>

namespace standin {
namespace {

/// Captures that have not ended.
std::set<Capture *> &openCaptures() {
  static std::set<Capture *> &result = *new std::set<Capture *>;
  return result;
}

thread_local cudaStreamCaptureMode threadMode = cudaStreamCaptureModeGlobal;

bool isOpen(const std::shared_ptr<Capture> &capture) {
  return openCaptures().count(capture.get()) != 0;
}

cudaError_t invalidate(Capture &capture, cudaError_t error, std::string why) {
  capture.invalid = true;
  note("CAPTURE: " + why + " (error " + std::to_string(error) + ")");
  return error;
}

int chainOf(Capture &capture, Stream &stream) {
  auto [it, isNew] =
      capture.chains.try_emplace(&stream, int(capture.graph.chains.size()));
  if (isNew)
    capture.graph.chains.push_back(scheduler().laneName(stream.lane));
  return it->second;
}

/// A blocking stream in a capture can't be waited for by the legacy stream.
cudaError_t checkImplicit(Stream &stream) {
  Scheduler &s = scheduler();
  if (&stream != &s.legacy)
    return cudaSuccess;
  for (Stream *other : s.streams)
    if (other->blocking && other->capture)
      return invalidate(*other->capture, cudaErrorStreamCaptureImplicit,
                        "the default stream waits for a capturing stream");
  return cudaSuccess;
}

std::set<int> ancestors(const Graph &graph, const std::vector<int> &of) {
  std::set<int> result;
  std::vector<int> work = of;
  while (!work.empty()) {
    int node = work.back();
    work.pop_back();
    if (!result.insert(node).second)
      continue;
    const std::vector<int> &after = graph.nodes[node].after;
    work.insert(work.end(), after.begin(), after.end());
  }
  return result;
}

cudaError_t endCapture(Stream &stream, std::unique_ptr<Graph> &graph) {
  std::shared_ptr<Capture> capture = stream.capture;
  if (!capture)
    return cudaErrorIllegalState;
  if (capture->origin != &stream)
    return invalidate(*capture, cudaErrorStreamCaptureUnmatched,
                      "a capture ends in another stream than it began in");
  if (capture->mode != cudaStreamCaptureModeRelaxed &&
      capture->thread != std::this_thread::get_id())
    return invalidate(*capture, cudaErrorStreamCaptureWrongThread,
                      "a capture ends in another thread than it began in");
  std::set<int> joined = ancestors(capture->graph, stream.tail);
  std::string unjoined;
  for (Stream *other : scheduler().streams) {
    if (other->capture != capture)
      continue;
    for (int node : other->tail)
      if (!joined.count(node))
        unjoined = scheduler().laneName(other->lane) +
                   " was not joined after " +
                   capture->graph.nodes[node].work->name;
    other->capture.reset();
    other->tail.clear();
  }
  openCaptures().erase(capture.get());
  if (capture->invalid)
    return cudaErrorStreamCaptureInvalidated;
  if (!unjoined.empty())
    return invalidate(*capture, cudaErrorStreamCaptureUnjoined, unjoined);
  graph = std::make_unique<Graph>(capture->graph);
  return cudaSuccess;
}

/// Begin and end of a launch in its stream.
std::shared_ptr<Work> mark() { return std::make_shared<Work>(); }

} // namespace

cudaError_t submit(Stream &stream, std::shared_ptr<Work> work) {
  if (cudaError_t error = checkImplicit(stream))
    return error;
  if (!stream.capture) {
    scheduler().enqueue(stream, std::move(work));
    return cudaSuccess;
  }
  Capture &capture = *stream.capture;
  if (capture.invalid)
    return cudaErrorStreamCaptureInvalidated;
  capture.graph.nodes.push_back(
      {std::move(work), stream.tail, chainOf(capture, stream)});
  stream.tail = {int(capture.graph.nodes.size()) - 1};
  return cudaSuccess;
}

cudaError_t record(Event &event, Stream &stream) {
  if (cudaError_t error = checkImplicit(stream))
    return error;
  if (stream.capture && stream.capture->invalid)
    return cudaErrorStreamCaptureInvalidated;
  event = Event();
  event.recorded = true;
  event.time = std::chrono::steady_clock::now();
  if (stream.capture) {
    event.capture = stream.capture;
    event.nodes = stream.tail;
    return cudaSuccess;
  }
  // The legacy stream has to gather the blocking streams first.
  event.op = &stream == &scheduler().legacy
                 ? scheduler().enqueue(stream, mark())
                 : stream.last;
  event.clock = stream.clock;
  event.clock.join(scheduler().host());
  return cudaSuccess;
}

cudaError_t wait(Stream &stream, Event &event) {
  if (cudaError_t error = checkImplicit(stream))
    return error;
  if (stream.capture && stream.capture->invalid)
    return cudaErrorStreamCaptureInvalidated;
  if (!event.capture) {
    if (stream.capture)
      return invalidate(*stream.capture, cudaErrorStreamCaptureIsolation,
                        scheduler().laneName(stream.lane) +
                            " waits for an event of outside of its capture");
    if (!event.recorded)
      return cudaSuccess;
    stream.clock.join(event.clock);
    if (event.op && !event.op->done)
      scheduler().enqueue(stream, mark(), {event.op});
    return cudaSuccess;
  }
  if (!isOpen(event.capture)) {
    if (stream.capture)
      return invalidate(*stream.capture, cudaErrorStreamCaptureMerge,
                        "a wait for an event of an earlier capture");
    return cudaErrorCapturedEvent;
  }
  if (event.capture->invalid)
    return cudaErrorStreamCaptureInvalidated;
  if (stream.capture && stream.capture != event.capture) {
    event.capture->invalid = true;
    return invalidate(*stream.capture, cudaErrorStreamCaptureMerge,
                      "a wait joins two captures");
  }
  stream.capture = event.capture;
  for (int node : event.nodes)
    if (std::find(stream.tail.begin(), stream.tail.end(), node) ==
        stream.tail.end())
      stream.tail.push_back(node);
  return cudaSuccess;
}

cudaError_t forbidden(const char *call, Stream *stream, Event *event) {
  if (stream && stream->capture)
    return invalidate(*stream->capture,
                      stream->capture->invalid
                          ? cudaErrorStreamCaptureInvalidated
                          : cudaErrorStreamCaptureUnsupported,
                      std::string(call) + " on a stream that is captured");
  if (event && event->capture)
    return invalidate(*event->capture, cudaErrorCapturedEvent,
                      std::string(call) + " on an event of a capture");
  if (threadMode == cudaStreamCaptureModeRelaxed)
    return cudaSuccess;
  cudaError_t error = cudaSuccess;
  for (Capture *capture : openCaptures()) {
    bool ours = capture->thread == std::this_thread::get_id();
    if (ours ? capture->mode != cudaStreamCaptureModeRelaxed
             : capture->mode == cudaStreamCaptureModeGlobal &&
                   threadMode == cudaStreamCaptureModeGlobal)
      error = invalidate(*capture, cudaErrorStreamCaptureUnsupported,
                         std::string(call) + " during a capture");
  }
  return error;
}

void launch(Executable &executable, Stream &stream) {
  Scheduler &s = scheduler();
  std::vector<OpRef> before;
  if (executable.lastEnd)
    before.push_back(executable.lastEnd);
  OpRef begin = s.enqueue(stream, mark(), before);
  std::vector<OpRef> ops;
  for (const Node &node : executable.graph.nodes) {
    std::vector<OpRef> after{begin};
    Clock clock = begin->clock;
    for (int i : node.after) {
      after.push_back(ops[i]);
      clock.join(ops[i]->clock);
    }
    ops.push_back(s.enqueueOn(executable.lanes[node.chain], std::move(clock),
                              node.work, std::move(after)));
  }
  executable.lastEnd = s.enqueue(stream, mark(), std::move(ops));
}

} // namespace standin

using namespace standin;

// The calls of the runtime about captures and graphs. Runtime.cpp has the rest.
#include "Calls.h"

cudaError_t cudaStreamBeginCapture(cudaStream_t handle,
                                   cudaStreamCaptureMode mode) {
  return call([&](Scheduler::Lock &) {
    Stream *stream = streamOf(handle);
    if (!stream)
      return cudaErrorInvalidResourceHandle;
    if (stream == &scheduler().legacy)
      return cudaErrorStreamCaptureUnsupported;
    if (stream->capture)
      return cudaErrorIllegalState;
    auto capture = std::make_shared<Capture>();
    capture->origin = stream;
    capture->mode = mode;
    capture->thread = std::this_thread::get_id();
    openCaptures().insert(capture.get());
    stream->capture = std::move(capture);
    stream->tail.clear();
    return cudaSuccess;
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t *graph) {
  return call([&](Scheduler::Lock &) {
    Stream *stream = streamOf(handle);
    if (!stream || !graph)
      return cudaErrorInvalidValue;
    std::unique_ptr<Graph> result;
    cudaError_t error = endCapture(*stream, result);
    *graph = reinterpret_cast<cudaGraph_t>(result.release());
    return error;
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle,
                                  cudaStreamCaptureStatus *status) {
  return call([&](Scheduler::Lock &) {
    Stream *stream = streamOf(handle);
    if (!stream || !status)
      return cudaErrorInvalidValue;
    *status = !stream->capture           ? cudaStreamCaptureStatusNone
              : stream->capture->invalid ? cudaStreamCaptureStatusInvalidated
                                         : cudaStreamCaptureStatusActive;
    return cudaSuccess;
  });
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode *mode) {
  return call([&](Scheduler::Lock &) {
    std::swap(*mode, threadMode);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *result, cudaGraph_t graph,
                                 unsigned long long) {
  return call([&](Scheduler::Lock &) {
    if (!result || !graph)
      return cudaErrorInvalidValue;
    static int number = 0;
    auto executable = std::make_unique<Executable>();
    executable->graph = *reinterpret_cast<Graph *>(graph);
    ++number;
    for (const std::string &chain : executable->graph.chains)
      executable->lanes.push_back(scheduler().newLane(
          "graph " + std::to_string(number) + ", " + chain));
    *result = reinterpret_cast<cudaGraphExec_t>(executable.release());
    return cudaSuccess;
  });
}

cudaError_t cudaGraphUpload(cudaGraphExec_t executable, cudaStream_t handle) {
  return call([&](Scheduler::Lock &) {
    Stream *stream = streamOf(handle);
    if (!executable || !stream)
      return cudaErrorInvalidValue;
    return stream->capture ? forbidden("cudaGraphUpload", stream) : cudaSuccess;
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t handle) {
  return call([&](Scheduler::Lock &) {
    Stream *stream = streamOf(handle);
    if (!executable || !stream)
      return cudaErrorInvalidValue;
    // A graph within a graph is legal, but nothing of the project makes one.
    if (stream->capture)
      return forbidden("cudaGraphLaunch", stream);
    launch(*reinterpret_cast<Executable *>(executable), *stream);
    ++counts().graphs;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return call([&](Scheduler::Lock &) {
    delete reinterpret_cast<Graph *>(graph);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  return call([&](Scheduler::Lock &) {
    delete reinterpret_cast<Executable *>(executable);
    return cudaSuccess;
  });
}
