//===- Interpreter.h - Issues a rank's program to its GPU -------*- C++ -*-===//
//
// Walks the program in issue order. A wait becomes a wait for an event that is
// recorded after the awaited op, unless the stream's own order does; captures
// become graphs, one for each set of addresses.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_LIB_RUNTIME_CUDA_INTERPRETER_H
#define MOE_LIB_RUNTIME_CUDA_INTERPRETER_H

#include "Communicators.h"
#include "Launcher.h"
#include "Profile.h"
#include "moe/Table/HostValues.h"

#include <unordered_map>

namespace moert::cuda {

class Interpreter {
public:
  /// Plans every op of the rank's program. All outlive the interpreter;
  /// `arena` is device memory.
  Interpreter(const Table &table, uint32_t program, Launcher &launcher,
              Communicators &communicators, char *arena);
  ~Interpreter();
  Interpreter(const Interpreter &) = delete;

  /// Issues the program once and waits for all of it. Returns what the step
  /// must be refused for (an overflow: layer and rows); empty: nothing.
  std::string run();

  cudaStream_t stream(size_t number) const { return streams[number]; }
  void *workspace(size_t number) const { return scratch[number].memory; }
  /// What runs the kernel; empty: no op of this rank.
  std::string implementation(uint32_t kernel) const;
  /// Times launches from now on; null: no more. Captured ops run eagerly then.
  void setProfile(Profile *to) { profile = to; }

private:
  /// An op in the program.
  struct Place {
    int64_t call = 0;
    uint32_t local = 0;
    int64_t flat = 0;
  };

  int64_t alignmentOf(uint32_t tmpl, const Op &op) const;
  void findWaiters();
  void planHostFrames();
  void issue(const Place &place);
  int64_t issueCapture(const Place &first);
  cudaGraphExec_t capture(const Place &first, int64_t end);
  void waitFor(cudaStream_t stream, const Place &place, int64_t own);
  void record(int64_t flat, cudaStream_t stream);
  void release(int64_t flat);
  void enqueue(const Place &place, cudaStream_t stream);
  /// The host waits for all that was enqueued.
  void finish(cudaStream_t stream);
  void enqueueAllToAll(const Place &place, void *const *pointers,
                       cudaStream_t stream);
  void follow(const Place &place);
  void *address(int64_t call, const Operand &operand) const;
  cudaEvent_t takeEvent();

  const Table &table;
  ScheduleView view;
  Launcher &launcher;
  Communicators &communicators;
  char *arena;
  /// By template and op; templates that the program does not call have none.
  std::vector<std::vector<LaunchPlan>> plans;
  std::vector<cudaStream_t> streams;
  std::vector<Scratch> scratch;

  /// By flat index: how many ops wait for it by event.
  std::vector<int32_t> waiters;
  struct Recorded {
    cudaEvent_t event;
    int32_t left;
  };
  std::unordered_map<int64_t, Recorded> recorded;
  std::vector<cudaEvent_t> freeEvents;

  /// Pinned memory, which copies need.
  struct PinnedBuffer {
    int32_t *memory = nullptr;
    int64_t bytes = 0;
    ~PinnedBuffer();
    /// At least as many bytes; what was there is lost if it must grow.
    int32_t *get(int64_t wanted);
  };
  /// Host frames by address in the arena, in `pinned`.
  std::map<int64_t, int32_t *> hostFrames;
  HostValues values;
  /// `overflowFlag`: what an overflow writes to the flag.
  PinnedBuffer pinned, overflowFlag;
  std::string refusal;

  /// By template, capture, and the call's addresses. The first run of a
  /// capture is eager: libraries load code lazily, which a capture forbids.
  using GraphKey =
      std::pair<std::pair<uint32_t, int32_t>, std::vector<int64_t>>;
  std::map<GraphKey, cudaGraphExec_t> graphs;
  std::map<std::pair<uint32_t, int32_t>, bool> warm;
  bool ranges = false;
  Profile *profile = nullptr;
};

} // namespace moert::cuda

#endif // MOE_LIB_RUNTIME_CUDA_INTERPRETER_H
