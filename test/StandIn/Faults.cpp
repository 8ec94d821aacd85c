//===- Faults.cpp - Programs with one fault each ----------------*- C++ -*-===//

#include "Check.h"

#include <chrono>
#include <thread>
#include <unistd.h>

using namespace check;

namespace {

struct Two {
  cudaStream_t a = newStream(), b = newStream();
  float *x = upload<float>({1, 2, 3, 4}), *y = upload<float>({0, 0, 0, 0});
};

/// The product writes what the collective sends, and no event is between.
void race() {
  Two t;
  ncclComm_t all = world();
  Matrix x{t.x, CUDA_R_32F, 2, 2}, y{t.y, CUDA_R_32F, 2, 2};
  multiply(x, false, x, false, y, 1, 0, 1, t.a);
  OK(ncclAllReduce(t.y, t.y, 4, ncclFloat32, ncclSum, all, t.b));
  OK(cudaDeviceSynchronize());
}

/// A receive of a group writes what a send of it reads.
void groupRace() {
  Two t;
  ncclComm_t all = world();
  OK(ncclGroupStart());
  OK(ncclSend(t.x, 2, ncclFloat32, 0, all, t.a));
  OK(ncclRecv(t.x + 1, 2, ncclFloat32, 0, all, t.a));
  OK(ncclGroupEnd());
}

/// The event is recorded before the kernel whose result is copied.
void earlyEvent() {
  Two t;
  cudaEvent_t event = newEvent();
  OK(cudaEventRecord(event, t.a));
  scale(t.x, t.y, 4, 2, t.a);
  OK(cudaStreamWaitEvent(t.b, event, 0));
  scale(t.y, t.x, 4, 2, t.b);
  OK(cudaDeviceSynchronize());
}

/// A generated kernel keeps sums in its library, one launch's at a time.
void kernelState() {
  Two t;
  float *z = device<float>(4);
  twice(t.x, t.y, t.a);
  twice(t.x, z, t.b);
  OK(cudaDeviceSynchronize());
}

/// Two branches of a graph write the same bytes.
void graphRace() {
  Two t;
  cudaEvent_t fork = newEvent();
  scale(t.x, t.y, 4, 2, t.a);
  OK(cudaDeviceSynchronize());
  OK(cudaStreamBeginCapture(t.a, cudaStreamCaptureModeGlobal));
  OK(cudaEventRecord(fork, t.a));
  OK(cudaStreamWaitEvent(t.b, fork, 0));
  scale(t.x, t.y, 4, 2, t.a);
  scale(t.x, t.y + 3, 1, 2, t.b);
  order(t.b, t.a);
  cudaGraph_t graph;
  OK(cudaStreamEndCapture(t.a, &graph));
  cudaGraphExec_t executable;
  OK(cudaGraphInstantiate(&executable, graph, 0));
  OK(cudaGraphLaunch(executable, t.a));
}

/// The host doesn't wait, and copies in another stream.
void unwaited() {
  Two t;
  scale(t.x, t.y, 4, 2, t.a);
  float host[4];
  OK(cudaMemcpy(host, t.y, sizeof host, cudaMemcpyDeviceToHost));
}

/// Errors of captures, one after the other.
void captures() {
  Two t;
  cudaGraph_t graph;
  scale(t.x, t.y, 4, 2, t.a);
  OK(cudaDeviceSynchronize());
  auto begin = [&](cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal) {
    OK(cudaStreamBeginCapture(t.a, mode));
    scale(t.x, t.y, 4, 2, t.a);
  };
  auto fork = [&] { order(t.a, t.b); };

  // A branch that is not joined.
  begin();
  fork();
  scale(t.y, t.x, 4, 2, t.b);
  EXPECT(cudaStreamEndCapture(t.a, &graph), cudaErrorStreamCaptureUnjoined);
  CHECK(graph == nullptr);
  // A branch without work of its own is joined.
  begin();
  fork();
  OK(cudaStreamEndCapture(t.a, &graph));
  OK(cudaGraphDestroy(graph));

  // Calls that wait, ask or allocate; the capture is lost with them.
  void *pointer;
  for (int call = 0; call < 5; ++call) {
    begin();
    EXPECT(call == 0   ? cudaStreamSynchronize(t.a)
           : call == 1 ? cudaStreamQuery(t.a)
           : call == 2 ? cudaMalloc(&pointer, 16)
           : call == 3 ? cudaDeviceSynchronize()
                       : cudaMemcpy(t.x, t.y, 4, cudaMemcpyDefault),
           cudaErrorStreamCaptureUnsupported);
    EXPECT(cudaGetLastError(), cudaErrorStreamCaptureUnsupported);
    EXPECT(cudaMemsetAsync(t.x, 0, 16, t.a), cudaErrorStreamCaptureInvalidated);
    EXPECT(cudaStreamEndCapture(t.a, &graph),
           cudaErrorStreamCaptureInvalidated);
  }
  // Unless the mode allows it.
  begin(cudaStreamCaptureModeRelaxed);
  OK(cudaMalloc(&pointer, 16));
  OK(cudaStreamEndCapture(t.a, &graph));
  begin();
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  OK(cudaThreadExchangeStreamCaptureMode(&mode));
  OK(cudaFree(pointer));
  OK(cudaThreadExchangeStreamCaptureMode(&mode));
  CHECK(mode == cudaStreamCaptureModeRelaxed);
  OK(cudaStreamEndCapture(t.a, &graph));
  // Another thread's call, by the mode.
  for (auto kind :
       {cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeGlobal}) {
    begin(kind);
    cudaError_t error = cudaSuccess;
    std::thread([&] { error = cudaMalloc(&pointer, 16); }).join();
    bool global = kind == cudaStreamCaptureModeGlobal;
    EXPECT(error, global ? cudaErrorStreamCaptureUnsupported : cudaSuccess);
    EXPECT(cudaStreamEndCapture(t.a, &graph),
           global ? cudaErrorStreamCaptureInvalidated : cudaSuccess);
  }

  // An event of outside, and of inside.
  cudaEvent_t event = newEvent();
  OK(cudaEventRecord(event, t.b));
  begin();
  EXPECT(cudaStreamWaitEvent(t.a, event, 0), cudaErrorStreamCaptureIsolation);
  EXPECT(cudaStreamEndCapture(t.a, &graph), cudaErrorStreamCaptureInvalidated);
  begin();
  OK(cudaEventRecord(event, t.a));
  EXPECT(cudaEventQuery(event), cudaErrorCapturedEvent);
  EXPECT(cudaStreamEndCapture(t.a, &graph), cudaErrorStreamCaptureInvalidated);
  EXPECT(cudaEventSynchronize(event), cudaErrorCapturedEvent);

  // Two captures joined; a capture that ends in another stream.
  begin();
  OK(cudaStreamBeginCapture(t.b, cudaStreamCaptureModeGlobal));
  OK(cudaEventRecord(event, t.b));
  EXPECT(cudaStreamWaitEvent(t.a, event, 0), cudaErrorStreamCaptureMerge);
  EXPECT(cudaStreamEndCapture(t.a, &graph), cudaErrorStreamCaptureInvalidated);
  EXPECT(cudaStreamEndCapture(t.b, &graph), cudaErrorStreamCaptureInvalidated);
  begin();
  fork();
  EXPECT(cudaStreamEndCapture(t.b, &graph), cudaErrorStreamCaptureUnmatched);
  EXPECT(cudaStreamEndCapture(t.a, &graph), cudaErrorStreamCaptureInvalidated);
  // In another thread.
  begin(cudaStreamCaptureModeThreadLocal);
  cudaError_t error = cudaSuccess;
  std::thread([&] { error = cudaStreamEndCapture(t.a, &graph); }).join();
  EXPECT(error, cudaErrorStreamCaptureWrongThread);
  EXPECT(cudaStreamEndCapture(t.a, &graph), cudaErrorStreamCaptureInvalidated);
  // A blocking stream in a capture, and the default stream.
  cudaStream_t blocking;
  OK(cudaStreamCreateWithFlags(&blocking, cudaStreamDefault));
  OK(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeRelaxed));
  EXPECT(cudaMemsetAsync(t.x, 0, 4, nullptr), cudaErrorStreamCaptureImplicit);
  EXPECT(cudaStreamEndCapture(blocking, &graph),
         cudaErrorStreamCaptureInvalidated);
  // After all of that the streams work.
  scale(t.x, t.y, 4, 2, t.a);
  CHECK(download(t.y, 4)[3] == 8);
}

/// Ranks disagree about the number of elements.
void counts() {
  Two t;
  ncclComm_t all = world();
  OK(ncclAllReduce(t.x, t.y, 4, ncclFloat32, ncclSum, all, t.a));
  OK(ncclAllReduce(t.x, t.y, rank() == 0 ? 4 : 3, ncclFloat32, ncclSum, all,
                   t.a));
  OK(cudaDeviceSynchronize());
}

/// Ranks disagree about what to do.
void kinds() {
  Two t;
  ncclComm_t all = world();
  if (rank() == 0)
    OK(ncclBroadcast(t.x, t.y, 4, ncclFloat32, 0, all, t.a));
  else
    OK(ncclAllReduce(t.x, t.y, 4, ncclFloat32, ncclMax, all, t.a));
  OK(cudaDeviceSynchronize());
}

void pair() {
  Two t;
  ncclComm_t all = world();
  if (rank() == 0)
    OK(ncclSend(t.x, 4, ncclFloat32, 1, all, t.a));
  else
    OK(ncclRecv(t.y, 2, ncclFloat32, 0, all, t.a));
  OK(cudaDeviceSynchronize());
}

/// Both ranks send first, outside of a group.
void sends() {
  Two t;
  ncclComm_t all = world();
  OK(ncclSend(t.x, 4, ncclFloat32, 1 - rank(), all, t.a));
  OK(ncclRecv(t.y, 4, ncclFloat32, 1 - rank(), all, t.a));
  OK(cudaDeviceSynchronize());
}

/// Each rank has an order, but not the same one.
void crossed() {
  Two t;
  ncclComm_t first = world(), second = world();
  if (rank() == 1)
    std::swap(first, second);
  OK(ncclAllReduce(t.x, t.x, 4, ncclFloat32, ncclSum, first, t.a));
  OK(ncclAllReduce(t.y, t.y, 4, ncclFloat32, ncclSum, second, t.a));
  OK(cudaDeviceSynchronize());
}

/// Neither rank has an order.
void unordered() {
  Two t;
  ncclComm_t first = world(), second;
  OK(ncclCommSplit(first, 0, rank(), &second, nullptr));
  OK(ncclAllReduce(t.x, t.x, 4, ncclFloat32, ncclSum, first, t.a));
  OK(ncclAllReduce(t.y, t.y, 4, ncclFloat32, ncclSum, second, t.b));
  OK(cudaDeviceSynchronize());
}

void freedBeforeUse() {
  Two t;
  OK(cudaFree(t.x));
  scale(t.x, t.y, 4, 2, t.a);
}

void freedWhileUsed() {
  Two t;
  scale(t.x, t.y, 4, 2, t.a);
  OK(cudaFree(t.x));
}

void tooLong() {
  Two t;
  scale(t.x, t.y, 5, 2, t.a);
}

void hostMemory() {
  Two t;
  float host[4] = {};
  scale(host, t.y, 4, 2, t.a);
}

void uninitialised() {
  Two t;
  float *never = device<float>(4);
  OK(cudaMemsetAsync(never, 0, 12, t.a));
  scale(never, t.y, 4, 2, t.a);
  CHECK(download(t.y, 4)[3] != download(t.y, 4)[3]);
}

void unknownKernel() {
  cudaLibrary_t library;
  OK(cudaLibraryLoadData(&library, "", nullptr, nullptr, 0, nullptr, nullptr,
                         0));
  cudaKernel_t kernel;
  EXPECT(cudaLibraryGetKernel(&kernel, library, "moe_missing"),
         cudaErrorInvalidDeviceFunction);
  OK(cudaLibraryUnload(library));
}

void noDriver() {
  int version = -1, count = -1;
  OK(cudaDriverGetVersion(&version));
  CHECK(version == 0);
  EXPECT(cudaGetDeviceCount(&count), cudaErrorInsufficientDriver);
  void *pointer;
  EXPECT(cudaMalloc(&pointer, 16), cudaErrorInsufficientDriver);
  cublasLtHandle_t handle;
  EXPECT(cublasLtCreate(&handle), CUBLAS_STATUS_NOT_INITIALIZED);
  ncclUniqueId id;
  OK(ncclGetUniqueId(&id));
  ncclComm_t comm;
  EXPECT(ncclCommInitRank(&comm, 1, id, 0), ncclUnhandledCudaError);
}

void devices() {
  int count = 0, major = 0, device = -1;
  OK(cudaGetDeviceCount(&count));
  OK(cudaSetDevice(count - 1));
  OK(cudaGetDevice(&device));
  EXPECT(cudaSetDevice(count), cudaErrorInvalidDevice);
  OK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  std::printf("%d devices, capability %d\n", count, major);
}

/// Polls as a program must that wants to survive the failure of another.
ncclResult_t poll(cudaStream_t stream, ncclComm_t all) {
  for (;;) {
    ncclResult_t state = ncclSuccess;
    OK(ncclCommGetAsyncError(all, &state));
    if (state != ncclSuccess)
      return state;
    cudaError_t error = cudaStreamQuery(stream);
    if (error == cudaSuccess)
      return ncclSuccess;
    EXPECT(error, cudaErrorNotReady);
  }
}

/// The second op of rank 1 fails, as the environment says.
void fails() {
  Two t;
  ncclComm_t all = world();
  OK(ncclAllReduce(t.x, t.y, 4, ncclFloat32, ncclSum, all, t.a));
  OK(cudaStreamSynchronize(t.a));
  OK(ncclAllReduce(t.x, t.y, 4, ncclFloat32, ncclSum, all, t.a));
  EXPECT(poll(t.a, all), rank() == 1 ? ncclInternalError : ncclRemoteError);
  OK(ncclCommAbort(all));
  OK(cudaStreamSynchronize(t.a));
}

/// One communicator is taken down while an op of another, which failed, still
/// runs.
void abortsInTurn() {
  Two t;
  ncclComm_t all = world(), other = world();
  OK(ncclAllReduce(t.x, t.y, 4, ncclFloat32, ncclSum, all, t.a));
  OK(ncclAllReduce(t.x, t.y, 4, ncclFloat32, ncclSum, all, t.a));
  EXPECT(poll(t.a, all), rank() == 1 ? ncclInternalError : ncclRemoteError);
  OK(ncclCommAbort(other));
}

/// Both of them at once.
void abortsTogether() {
  Two t;
  ncclComm_t all = world(), other = world();
  OK(ncclAllReduce(t.x, t.y, 4, ncclFloat32, ncclSum, all, t.a));
  OK(ncclAllReduce(t.x, t.y, 4, ncclFloat32, ncclSum, all, t.a));
  EXPECT(poll(t.a, all), rank() == 1 ? ncclInternalError : ncclRemoteError);
  OK(ncclGroupStart());
  OK(ncclCommAbort(other));
  OK(ncclCommAbort(all));
  OK(ncclGroupEnd());
  OK(cudaStreamSynchronize(t.a));
}

/// Rank 1 ends without a word.
void dies() {
  Two t;
  ncclComm_t all = world();
  if (rank() == 1)
    _exit(7);
  OK(ncclAllReduce(t.x, t.y, 4, ncclFloat32, ncclSum, all, t.a));
  EXPECT(poll(t.a, all), ncclRemoteError);
  OK(ncclCommAbort(all));
  OK(cudaStreamSynchronize(t.a));
}

} // namespace

const std::vector<Named> check::faultScenarios = {
    {"race", race},
    {"group-race", groupRace},
    {"early-event", earlyEvent},
    {"kernel-state", kernelState},
    {"graph-race", graphRace},
    {"unwaited", unwaited},
    {"captures", captures},
    {"counts", counts},
    {"kinds", kinds},
    {"pair", pair},
    {"sends", sends},
    {"crossed", crossed},
    {"unordered", unordered},
    {"freed-before-use", freedBeforeUse},
    {"freed-while-used", freedWhileUsed},
    {"too-long", tooLong},
    {"host-memory", hostMemory},
    {"uninitialised", uninitialised},
    {"unknown-kernel", unknownKernel},
    {"no-driver", noDriver},
    {"devices", devices},
    {"fails", fails},
    {"aborts-in-turn", abortsInTurn},
    {"aborts-together", abortsTogether},
    {"dies", dies},
};
