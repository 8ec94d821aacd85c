//===- Runtime.cpp - Devices, memory, streams, events -----------*- C++ -*-===//

#include "Calls.h"
#include "Enqueue.h"
#include "Memory.h"

#include <cstring>
#include <set>

namespace standin {
namespace {

thread_local cudaError_t lastError = cudaSuccess;
thread_local int currentDevice = 0;

std::set<Event *> &events() {
  static std::set<Event *> &result = *new std::set<Event *>;
  return result;
}

Event *eventOf(cudaEvent_t handle) {
  auto *event = reinterpret_cast<Event *>(handle);
  return events().count(event) ? event : nullptr;
}

struct Message {
  cudaError_t error;
  const char *name, *text;
};
#define MESSAGE(error, text) {error, #error, text}
const Message kMessages[] = {
    MESSAGE(cudaSuccess, "no error"),
    MESSAGE(cudaErrorInvalidValue, "invalid argument"),
    MESSAGE(cudaErrorMemoryAllocation, "out of memory"),
    MESSAGE(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    MESSAGE(cudaErrorInsufficientDriver,
            "CUDA driver version is insufficient for CUDA runtime version"),
    MESSAGE(cudaErrorInvalidDeviceFunction, "invalid device function"),
    MESSAGE(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    MESSAGE(cudaErrorInvalidDevice, "invalid device ordinal"),
    MESSAGE(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    MESSAGE(cudaErrorIllegalState,
            "the operation cannot be performed in the present state"),
    MESSAGE(cudaErrorNotReady, "device not ready"),
    MESSAGE(cudaErrorNotSupported, "operation not supported"),
    MESSAGE(cudaErrorStreamCaptureUnsupported,
            "operation not permitted when stream is capturing"),
    MESSAGE(cudaErrorStreamCaptureInvalidated,
            "operation failed due to a previous error during capture"),
    MESSAGE(cudaErrorStreamCaptureMerge,
            "operation would result in a merge of separate capture sequences"),
    MESSAGE(cudaErrorStreamCaptureUnmatched,
            "capture was not ended in the same stream as it began"),
    MESSAGE(cudaErrorStreamCaptureUnjoined,
            "capturing stream has unjoined work"),
    MESSAGE(cudaErrorStreamCaptureIsolation,
            "dependency created on uncaptured work in another stream"),
    MESSAGE(cudaErrorStreamCaptureImplicit,
            "operation would make the legacy stream depend on a capturing "
            "blocking stream"),
    MESSAGE(cudaErrorCapturedEvent,
            "operation not permitted on an event last recorded in a capturing "
            "stream"),
    MESSAGE(cudaErrorStreamCaptureWrongThread,
            "attempt to terminate a thread-local capture sequence from another "
            "thread"),
};
#undef MESSAGE

class Copy : public Work {
public:
  Copy(void *to, const void *from, size_t bytes) : to(to), from(from) {
    name = "cudaMemcpyAsync";
    addRange(to, bytes, MOE_WRITE);
    addRange(const_cast<void *>(from), bytes, MOE_READ);
    this->bytes = bytes;
  }
  /// Takes the source now: pageable memory of the host.
  void stage() {
    staged.assign(static_cast<const char *>(from),
                  static_cast<const char *>(from) + bytes);
    from = staged.data();
  }
  void run() override { std::memmove(to, from, bytes); }

private:
  void addRange(void *begin, size_t count, int effect) {
    if (memory().placeOf(uintptr_t(begin)) != Place::Host)
      ranges.push_back({begin, int64_t(count), effect});
  }
  void *to;
  const void *from;
  size_t bytes;
  std::vector<char> staged;
};

class Fill : public Work {
public:
  Fill(void *to, int value, size_t bytes) : value(value) {
    name = "cudaMemsetAsync";
    ranges.push_back({to, int64_t(bytes), MOE_WRITE});
  }
  void run() override { std::memset(ranges[0].begin, value, ranges[0].bytes); }

private:
  int value;
};

class FunctionWork : public Work {
public:
  FunctionWork(const char *name, const moe_range *ranges, int count,
               void (*function)(void *), void *state, void (*destroy)(void *))
      : function(function), state(state), destroy(destroy) {
    this->name = name;
    this->ranges.assign(ranges, ranges + count);
  }
  ~FunctionWork() override {
    if (destroy)
      destroy(state);
  }
  void run() override { function(state); }

private:
  void (*function)(void *);
  void *state;
  void (*destroy)(void *);
};

/// What the host knows once it has waited for the last op of a stream.
void join(Stream &stream, Scheduler::Lock &lock) {
  OpRef last = stream.last;
  Clock clock = stream.clock;
  if (last)
    scheduler().until(lock, [&] { return last->done; });
  scheduler().host().join(clock);
}

cudaError_t copy(void *to, const void *from, size_t bytes, cudaStream_t handle,
                 Scheduler::Lock &lock) {
  Stream *stream = streamOf(handle);
  if (!stream)
    return cudaErrorInvalidResourceHandle;
  if (bytes == 0)
    return cudaSuccess;
  if (!to || !from)
    return cudaErrorInvalidValue;
  auto work = std::make_shared<Copy>(to, from, bytes);
  // Copies of pageable memory are not asynchronous: the source is taken at
  // once, the target is complete on return.
  bool pageable = !stream->capture;
  if (pageable && memory().placeOf(uintptr_t(from)) == Place::Host)
    work->stage();
  if (cudaError_t error = submit(*stream, std::move(work)))
    return error;
  if (pageable && memory().placeOf(uintptr_t(to)) == Place::Host)
    join(*stream, lock);
  return cudaSuccess;
}

cudaError_t allocate(const char *name, Place place, void **result,
                     size_t bytes) {
  if (!result)
    return cudaErrorInvalidValue;
  if (cudaError_t error = forbidden(name))
    return error;
  *result = bytes ? memory().allocate(place, bytes) : nullptr;
  return *result || !bytes ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t release(const char *name, Place place, void *pointer) {
  if (cudaError_t error = forbidden(name))
    return error;
  if (!pointer)
    return cudaSuccess;
  size_t bytes = memory().sizeOf(place, pointer);
  if (bytes == 0)
    return cudaErrorInvalidValue;
  uintptr_t begin = uintptr_t(pointer);
  scheduler().races().forget(begin, begin + bytes, scheduler().host());
  memory().release(pointer);
  return cudaSuccess;
}

cudaError_t createStream(cudaStream_t *result, unsigned flags, int priority) {
  if (!result)
    return cudaErrorInvalidValue;
  static int number = 0;
  Scheduler &s = scheduler();
  auto *stream = new Stream;
  stream->lane = s.newLane("stream " + std::to_string(++number));
  stream->blocking = !(flags & cudaStreamNonBlocking);
  stream->priority = priority;
  s.streams.insert(stream);
  *result = reinterpret_cast<cudaStream_t>(stream);
  return cudaSuccess;
}

int processors() { return settings().capabilityMajor >= 10 ? 148 : 132; }

cudaError_t attribute(int &value, cudaDeviceAttr which) {
  switch (which) {
  case cudaDevAttrComputeCapabilityMajor:
    value = settings().capabilityMajor;
    return cudaSuccess;
  case cudaDevAttrComputeCapabilityMinor:
    value = settings().capabilityMinor;
    return cudaSuccess;
  case cudaDevAttrMultiProcessorCount:
    value = processors();
    return cudaSuccess;
  case cudaDevAttrMaxThreadsPerBlock:
  case cudaDevAttrMaxBlockDimX:
    value = 1024;
    return cudaSuccess;
  case cudaDevAttrMaxThreadsPerMultiProcessor:
    value = 2048;
    return cudaSuccess;
  case cudaDevAttrWarpSize:
    value = 32;
    return cudaSuccess;
  case cudaDevAttrMaxSharedMemoryPerBlock:
    value = 48 << 10;
    return cudaSuccess;
  case cudaDevAttrMaxSharedMemoryPerBlockOptin:
    value = 227 << 10;
    return cudaSuccess;
  case cudaDevAttrL2CacheSize:
    value = 50 << 20;
    return cudaSuccess;
  default:
    note("cudaDeviceGetAttribute " + std::to_string(which) + " is not known");
    return cudaErrorInvalidValue;
  }
}

} // namespace

cudaError_t keepError(cudaError_t error) {
  if (error != cudaSuccess && error != cudaErrorNotReady)
    lastError = error;
  return error;
}

Stream *streamOf(cudaStream_t handle) {
  Scheduler &s = scheduler();
  if (!handle || handle == cudaStreamLegacy)
    return &s.legacy;
  auto *stream = reinterpret_cast<Stream *>(handle);
  return s.streams.count(stream) ? stream : nullptr;
}

} // namespace standin

using namespace standin;

extern "C" int moe_standin_enqueue(void *handle, const char *name,
                                   const moe_range *ranges, int count,
                                   void (*run)(void *), void *state,
                                   void (*destroy)(void *)) {
  auto work =
      std::make_shared<FunctionWork>(name, ranges, count, run, state, destroy);
  return call([&](Scheduler::Lock &) {
    Stream *stream = streamOf(static_cast<cudaStream_t>(handle));
    return stream ? submit(*stream, std::move(work))
                  : cudaErrorInvalidResourceHandle;
  });
}

//===----------------------------------------------------------------------===//
// Devices and errors
//===----------------------------------------------------------------------===//

cudaError_t cudaDriverGetVersion(int *version) {
  *version = settings().noDriver ? 0 : CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count) {
  *count = 0;
  return call([&](Scheduler::Lock &) {
    *count = settings().devices;
    return *count ? cudaSuccess : cudaErrorNoDevice;
  });
}

cudaError_t cudaSetDevice(int device) {
  return call([&](Scheduler::Lock &) {
    if (device < 0 || device >= settings().devices)
      return cudaErrorInvalidDevice;
    currentDevice = device;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDevice(int *device) {
  return call([&](Scheduler::Lock &) {
    *device = currentDevice;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr which,
                                   int device) {
  return call([&](Scheduler::Lock &) {
    if (device < 0 || device >= settings().devices)
      return cudaErrorInvalidDevice;
    return attribute(*value, which);
  });
}

const char *cudaGetErrorName(cudaError_t error) {
  for (const Message &message : kMessages)
    if (message.error == error)
      return message.name;
  return "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t error) {
  for (const Message &message : kMessages)
    if (message.error == error)
      return message.text;
  return "unrecognized error code";
}

cudaError_t cudaGetLastError() { return std::exchange(lastError, cudaSuccess); }

cudaError_t cudaPeekAtLastError() { return lastError; }

cudaError_t cudaDeviceSynchronize() {
  return call([&](Scheduler::Lock &lock) {
    Scheduler &s = scheduler();
    for (Stream *stream : s.streams)
      if (stream->capture)
        return forbidden("cudaDeviceSynchronize", stream);
    if (cudaError_t error = forbidden("cudaDeviceSynchronize"))
      return error;
    s.until(lock, [&] { return s.quiet(); });
    s.host().join(s.legacy.clock);
    s.host().join(s.destroyed);
    for (Stream *stream : s.streams)
      s.host().join(stream->clock);
    return cudaSuccess;
  });
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

cudaError_t cudaMalloc(void **result, size_t bytes) {
  return call([&](Scheduler::Lock &) {
    return allocate("cudaMalloc", Place::Device, result, bytes);
  });
}

cudaError_t cudaFree(void *pointer) {
  return call([&](Scheduler::Lock &) {
    return release("cudaFree", Place::Device, pointer);
  });
}

cudaError_t cudaMallocHost(void **result, size_t bytes) {
  return call([&](Scheduler::Lock &) {
    return allocate("cudaMallocHost", Place::Pinned, result, bytes);
  });
}

cudaError_t cudaFreeHost(void *pointer) {
  return call([&](Scheduler::Lock &) {
    return release("cudaFreeHost", Place::Pinned, pointer);
  });
}

cudaError_t cudaMemGetInfo(size_t *free, size_t *total) {
  return call([&](Scheduler::Lock &) {
    *total = Memory::total();
    *free = *total - memory().used();
    return cudaSuccess;
  });
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes,
                            cudaMemcpyKind, cudaStream_t stream) {
  return call([&](Scheduler::Lock &lock) {
    return copy(to, from, bytes, stream, lock);
  });
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes,
                       cudaMemcpyKind) {
  return call([&](Scheduler::Lock &lock) {
    if (cudaError_t error = forbidden("cudaMemcpy"))
      return error;
    cudaError_t error = copy(to, from, bytes, nullptr, lock);
    if (error == cudaSuccess)
      join(scheduler().legacy, lock);
    return error;
  });
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes,
                            cudaStream_t handle) {
  return call([&](Scheduler::Lock &) {
    Stream *stream = streamOf(handle);
    if (!stream)
      return cudaErrorInvalidResourceHandle;
    if (bytes == 0)
      return cudaSuccess;
    return submit(*stream, std::make_shared<Fill>(to, value, bytes));
  });
}

//===----------------------------------------------------------------------===//
// Streams
//===----------------------------------------------------------------------===//

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *result, unsigned flags,
                                         int priority) {
  return call(
      [&](Scheduler::Lock &) { return createStream(result, flags, priority); });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *result, unsigned flags) {
  return call(
      [&](Scheduler::Lock &) { return createStream(result, flags, 0); });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
  return call([&](Scheduler::Lock &) {
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  return call([&](Scheduler::Lock &) {
    Stream *stream = streamOf(handle);
    if (!stream || stream == &scheduler().legacy)
      return cudaErrorInvalidResourceHandle;
    if (stream->capture)
      stream->capture->invalid = true;
    // Its ops still run.
    scheduler().destroyed.join(stream->clock);
    scheduler().streams.erase(stream);
    delete stream;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return call([&](Scheduler::Lock &lock) {
    Stream *stream = streamOf(handle);
    if (!stream)
      return cudaErrorInvalidResourceHandle;
    if (cudaError_t error = forbidden("cudaStreamSynchronize", stream))
      return error;
    join(*stream, lock);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  return call([&](Scheduler::Lock &lock) {
    Stream *stream = streamOf(handle);
    if (!stream)
      return cudaErrorInvalidResourceHandle;
    if (cudaError_t error = forbidden("cudaStreamQuery", stream))
      return error;
    if (stream->last && !stream->last->done)
      scheduler().advance(lock);
    if (stream->last && !stream->last->done)
      return cudaErrorNotReady;
    scheduler().host().join(stream->clock);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event,
                                unsigned) {
  return call([&](Scheduler::Lock &) {
    Stream *stream = streamOf(handle);
    Event *recorded = eventOf(event);
    if (!stream || !recorded)
      return cudaErrorInvalidResourceHandle;
    return wait(*stream, *recorded);
  });
}

//===----------------------------------------------------------------------===//
// Events
//===----------------------------------------------------------------------===//

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *result, unsigned) {
  return call([&](Scheduler::Lock &) {
    auto *event = new Event;
    events().insert(event);
    *result = reinterpret_cast<cudaEvent_t>(event);
    return cudaSuccess;
  });
}

cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  return call([&](Scheduler::Lock &) {
    Event *event = eventOf(handle);
    if (!event)
      return cudaErrorInvalidResourceHandle;
    events().erase(event);
    delete event;
    return cudaSuccess;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream) {
  return call([&](Scheduler::Lock &) {
    Event *event = eventOf(handle);
    Stream *on = streamOf(stream);
    if (!event || !on)
      return cudaErrorInvalidResourceHandle;
    return record(*event, *on);
  });
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
  return call([&](Scheduler::Lock &lock) {
    Event *event = eventOf(handle);
    if (!event)
      return cudaErrorInvalidResourceHandle;
    if (cudaError_t error = forbidden("cudaEventQuery", nullptr, event))
      return error;
    OpRef op = event->op;
    Clock clock = event->clock;
    if (op && !op->done)
      scheduler().advance(lock);
    if (op && !op->done)
      return cudaErrorNotReady;
    scheduler().host().join(clock);
    return cudaSuccess;
  });
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t from,
                                 cudaEvent_t to) {
  return call([&](Scheduler::Lock &) {
    Event *start = eventOf(from), *stop = eventOf(to);
    if (!start || !stop || !start->recorded || !stop->recorded)
      return cudaErrorInvalidResourceHandle;
    if ((start->op && !start->op->done) || (stop->op && !stop->op->done))
      return cudaErrorNotReady;
    *milliseconds =
        std::chrono::duration<float, std::milli>(stop->time - start->time)
            .count();
    return cudaSuccess;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  return call([&](Scheduler::Lock &lock) {
    Event *event = eventOf(handle);
    if (!event)
      return cudaErrorInvalidResourceHandle;
    if (cudaError_t error = forbidden("cudaEventSynchronize", nullptr, event))
      return error;
    OpRef op = event->op;
    Clock clock = event->clock;
    if (op)
      scheduler().until(lock, [&] { return op->done; });
    scheduler().host().join(clock);
    return cudaSuccess;
  });
}
