//===- Capture.h - Stream capture and graphs --------------------*- C++ -*-===//

#ifndef MOE_TOOLS_STAND_IN_CAPTURE_H
#define MOE_TOOLS_STAND_IN_CAPTURE_H

#include "Cuda.h"
#include "Scheduler.h"

#include <chrono>
#include <map>
#include <thread>

namespace standin {

struct Node {
  std::shared_ptr<Work> work;
  std::vector<int> after;
  /// Nodes of a chain follow each other: they were captured on one stream.
  int chain;
};

struct Graph {
  std::vector<Node> nodes;
  std::vector<std::string> chains;
};

struct Executable {
  Graph graph;
  std::vector<int> lanes;
  /// A launch follows the one before.
  OpRef lastEnd;
};

struct Capture {
  Graph graph;
  Stream *origin = nullptr;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;
  bool invalid = false;
  std::map<Stream *, int> chains;
};

struct Event {
  bool recorded = false;
  OpRef op;
  Clock clock;
  /// Of the call that recorded it: the stand-in knows nothing of speed.
  std::chrono::steady_clock::time_point time;
  /// Or, recorded in a capture: the nodes that it follows. The capture may
  /// have ended since.
  std::shared_ptr<Capture> capture;
  std::vector<int> nodes;
};

/// Puts work on the stream or into its capture.
cudaError_t submit(Stream &stream, std::shared_ptr<Work> work);

cudaError_t record(Event &event, Stream &stream);
cudaError_t wait(Stream &stream, Event &event);

/// Error of a call that must know what the device did, or may wait for it, and
/// which `stream` or `event` (either may be null) it asks about. An illegal
/// call invalidates the captures that forbid it.
cudaError_t forbidden(const char *call, Stream *stream = nullptr,
                      Event *event = nullptr);

void launch(Executable &executable, Stream &stream);

} // namespace standin

#endif // MOE_TOOLS_STAND_IN_CAPTURE_H
