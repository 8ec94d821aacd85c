//===- Clean.cpp - Programs without a fault ---------------------*- C++ -*-===//

#include "Check.h"

#include <chrono>
#include <dlfcn.h>
#include <fstream>
#include <thread>

using namespace check;

namespace {

constexpr size_t kCount = 4;

/// A step on two streams: product, collective, kernel, into `result`.
struct Step {
  cudaStream_t compute = newStream(), transfer = newStream();
  ncclComm_t communicator = world();
  float *x = upload<float>({1, 2, 3, 4}), *w = upload<float>({1, 1, 0, 1});
  float *y = device<float>(kCount), *sum = device<float>(kCount);
  float *result = device<float>(kCount), *side = device<float>(kCount);

  void run() {
    multiply({x, CUDA_R_32F, 2, 2}, false, {w, CUDA_R_32F, 2, 2}, false,
             {y, CUDA_R_32F, 2, 2}, float(1 + rank()), 0, 1, compute);
    order(compute, transfer);
    OK(ncclAllReduce(y, sum, kCount, ncclFloat32, ncclSum, communicator,
                     transfer));
    twice(x, side, compute);
    order(transfer, compute);
    scale(sum, result, kCount, 0.5, compute);
    twice(result, result, compute);
  }
  /// X = [1 3; 2 4], W = [1 0; 1 1], X * W = [4 3; 6 4] by columns 4 6 3 4.
  void verify() {
    float ranks = float(worldSize() * (worldSize() + 1) / 2);
    std::vector<float> got = download(result, kCount);
    CHECK((got ==
           std::vector<float>{4 * ranks, 6 * ranks, 3 * ranks, 4 * ranks}));
    CHECK((download(side, kCount) == std::vector<float>{2, 4, 6, 8}));
  }
  void leave() {
    OK(ncclCommFinalize(communicator));
    OK(ncclCommDestroy(communicator));
    for (float *pointer : {x, w, y, sum, result, side})
      OK(cudaFree(pointer));
  }
};

void eager() {
  Step step;
  for (int i = 0; i < 3; ++i)
    step.run();
  step.verify();
  step.leave();
}

void graph() {
  Step step;
  // The addresses of the workspace and of kernels are there before a capture.
  step.run();
  OK(cudaDeviceSynchronize());
  OK(cudaStreamBeginCapture(step.compute, cudaStreamCaptureModeThreadLocal));
  step.run();
  cudaStreamCaptureStatus status;
  OK(cudaStreamIsCapturing(step.transfer, &status));
  CHECK(status == cudaStreamCaptureStatusActive);
  cudaGraph_t captured;
  OK(cudaStreamEndCapture(step.compute, &captured));
  OK(cudaStreamIsCapturing(step.transfer, &status));
  CHECK(status == cudaStreamCaptureStatusNone);
  cudaGraphExec_t executable;
  OK(cudaGraphInstantiate(&executable, captured, 0));
  OK(cudaGraphDestroy(captured));
  // Nothing ran while it was captured.
  OK(cudaMemsetAsync(step.result, 0, kCount * sizeof(float), step.compute));
  CHECK((download(step.result, kCount) == std::vector<float>(kCount)));
  OK(cudaGraphUpload(executable, step.compute));
  for (int i = 0; i < 3; ++i)
    OK(cudaGraphLaunch(executable, step.compute));
  // Launches of one graph follow each other, also on another stream.
  OK(cudaGraphLaunch(executable, step.transfer));
  step.verify();
  OK(cudaGraphExecDestroy(executable));
  step.leave();
}

template <typename T> void fill(std::vector<T> &values, int seed) {
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = T(int((i * 7 + seed * 13) % 11) - 5);
}

/// Small integers: exact in every order.
void product(int m, int n, int k, int variant) {
  bool transposeA = variant & 1, transposeB = variant & 2, half = variant & 4;
  int order = variant & 8 ? CUBLASLT_ORDER_ROW : CUBLASLT_ORDER_COL;
  constexpr int kBatch = 2;
  std::vector<float> a(m * k * kBatch), b(k * n * kBatch), c(m * n * kBatch);
  fill(a, 1);
  fill(b, 2);
  fill(c, 3);
  auto put = [&](const std::vector<float> &values, bool isHalf) -> void * {
    if (!isHalf)
      return upload(values);
    std::vector<uint16_t> bits;
    for (float value : values)
      bits.push_back(toBf16(value));
    return upload(bits);
  };
  Matrix x{put(a, half), half ? CUDA_R_16BF : CUDA_R_32F,
           uint64_t(transposeA ? k : m), uint64_t(transposeA ? m : k), order};
  Matrix y{put(b, half), half ? CUDA_R_16BF : CUDA_R_32F,
           uint64_t(transposeB ? n : k), uint64_t(transposeB ? k : n), order};
  Matrix z{put(c, half), half ? CUDA_R_16BF : CUDA_R_32F, uint64_t(m),
           uint64_t(n), order};
  multiply(x, transposeA, y, transposeB, z, 2, -1, kBatch, nullptr);
  auto index = [&](const Matrix &matrix, int row, int column) {
    return order == CUBLASLT_ORDER_COL ? column * matrix.rows + row
                                       : row * matrix.columns + column;
  };
  std::vector<float> got;
  if (half)
    for (uint16_t bits :
         download(static_cast<const uint16_t *>(z.data), c.size()))
      got.push_back(fromBf16(bits));
  else
    got = download(static_cast<const float *>(z.data), c.size());
  for (int batch = 0; batch < kBatch; ++batch)
    for (int i = 0; i < m; ++i)
      for (int j = 0; j < n; ++j) {
        float sum = 0;
        for (int l = 0; l < k; ++l)
          sum +=
              a[batch * m * k +
                (transposeA ? index(x, l, i) : index(x, i, l))] *
              b[batch * k * n + (transposeB ? index(y, j, l) : index(y, l, j))];
        size_t at = batch * m * n + index(z, i, j);
        float expected = 2 * sum - c[at];
        CHECK(got[at] == (half ? fromBf16(toBf16(expected)) : expected));
      }
}

void products() {
  for (int variant = 0; variant < 16; ++variant)
    product(3, 5, 4, variant);
  // A product of a part of a matrix leaves the rest to others.
  float *x = upload<float>({1, 2, 3, 4}), *y = device<float>(8);
  cudaStream_t streams[] = {newStream(), newStream()};
  Matrix a{x, CUDA_R_32F, 2, 2};
  multiply(a, false, a, false, {y, CUDA_R_32F, 2, 2, CUBLASLT_ORDER_COL, 4}, 1,
           0, 1, streams[0]);
  scale(x, y + 2, 2, 1, streams[1]);
  scale(x + 2, y + 6, 2, 1, streams[1]);
  CHECK((download(y, 8) == std::vector<float>{7, 10, 1, 2, 15, 22, 3, 4}));
}

/// Every collective, in f32, bf16 and integers.
void collectives() {
  ncclComm_t all = world();
  int ranks = worldSize(), self = rank(), count = 0, own = -1;
  OK(ncclCommCount(all, &count));
  OK(ncclCommUserRank(all, &own));
  CHECK(count == ranks && own == self);
  cudaStream_t stream = newStream();
  // 0.1f: the sum depends on the order of the ranks.
  float mine = 0.1f * float(self + 1), sum = 0;
  for (int r = 0; r < ranks; ++r)
    sum = r == 0 ? 0.1f : sum + 0.1f * float(r + 1);
  float *x = upload(std::vector<float>(ranks, mine));
  float *y = device<float>(ranks);
  OK(ncclAllReduce(x, y, ranks, ncclFloat32, ncclSum, all, stream));
  CHECK(download(y, ranks) == std::vector<float>(ranks, sum));
  OK(ncclReduceScatter(x, y, 1, ncclFloat32, ncclSum, all, stream));
  CHECK(download(y, 1)[0] == sum);
  OK(ncclReduceScatter(x, y, 1, ncclFloat32, ncclMax, all, stream));
  CHECK(download(y, 1)[0] == 0.1f * float(ranks));
  OK(ncclAllGather(x, y, 1, ncclFloat32, all, stream));
  for (int r = 0; r < ranks; ++r)
    CHECK(download(y, ranks)[r] == 0.1f * float(r + 1));
  OK(ncclBroadcast(x, y, 1, ncclFloat32, ranks - 1, all, stream));
  CHECK(download(y, 1)[0] == 0.1f * float(ranks));

  uint16_t *h = upload(std::vector<uint16_t>{toBf16(1 + self / 128.f)});
  OK(ncclAllReduce(h, h, 1, ncclBfloat16, ncclSum, all, stream));
  float exact = 0;
  for (int r = 0; r < ranks; ++r)
    exact += 1 + r / 128.f;
  CHECK(download(h, 1)[0] == toBf16(exact));
  int32_t *i = upload(std::vector<int32_t>{self + 5});
  OK(ncclAllReduce(i, i, 1, ncclInt32, ncclMax, all, stream));
  CHECK(download(i, 1)[0] == ranks + 4);
  uint8_t *u = upload(std::vector<uint8_t>{uint8_t(self + 1)});
  OK(ncclAllReduce(u, u, 1, ncclUint8, ncclSum, all, stream));
  CHECK(download(u, 1)[0] == ranks * (ranks + 1) / 2);

  // All to all, in a group; elements say from whom to whom.
  std::vector<float> outgoing;
  for (int to = 0; to < ranks; ++to)
    outgoing.push_back(float(10 * self + to));
  float *out = upload(outgoing), *in = device<float>(ranks);
  OK(ncclGroupStart());
  for (int peer = 0; peer < ranks; ++peer) {
    OK(ncclSend(out + peer, 1, ncclFloat32, peer, all, stream));
    OK(ncclRecv(in + peer, 1, ncclFloat32, peer, all, stream));
  }
  OK(ncclGroupEnd());
  for (int peer = 0; peer < ranks; ++peer)
    CHECK(download(in, ranks)[peer] == float(10 * peer + self));

  // Halves, by the parity of the rank, in descending order.
  ncclComm_t half = nullptr, none = nullptr;
  OK(ncclCommSplit(all, self % 2, -self, &half, nullptr));
  OK(ncclCommSplit(all, NCCL_SPLIT_NOCOLOR, 0, &none, nullptr));
  CHECK(none == nullptr);
  OK(ncclCommCount(half, &count));
  OK(ncclAllGather(x, y, 1, ncclFloat32, half, stream));
  std::vector<float> gathered = download(y, count);
  int next = 0;
  for (int r = ranks - 1; r >= 0; --r)
    if (r % 2 == self % 2)
      CHECK(gathered[next++] == 0.1f * float(r + 1));
  CHECK(next == count);
  OK(ncclCommDestroy(half));
  OK(ncclCommDestroy(all));
}

/// Messages that no buffer of the system holds, from all to all at once.
void large() {
  ncclComm_t all = world();
  int ranks = worldSize();
  size_t count = 1 << 20;
  cudaStream_t stream = newStream();
  float *x = upload(std::vector<float>(count, float(rank() + 1)));
  float *y = device<float>(count * ranks);
  OK(ncclAllGather(x, y, count, ncclFloat32, all, stream));
  OK(ncclReduceScatter(y, x, count, ncclFloat32, ncclSum, all, stream));
  std::vector<float> got = download(x, count);
  CHECK(got[0] == float(ranks * (rank() + 1)) && got[count - 1] == got[0]);
  OK(ncclCommDestroy(all));
}

/// A query makes progress; pinned memory; the host's own order.
void queries() {
  float *host = nullptr;
  void *pointer = nullptr;
  OK(cudaMallocHost(&pointer, 4 * sizeof(float)));
  host = static_cast<float *>(pointer);
  float *x = device<float>(4);
  cudaStream_t stream = newStream();
  cudaEvent_t event = newEvent();
  EXPECT(cudaEventQuery(event), cudaSuccess);
  for (int i = 0; i < 4; ++i)
    host[i] = float(i);
  OK(cudaMemcpyAsync(x, host, 16, cudaMemcpyHostToDevice, stream));
  for (int i = 0; i < 10; ++i)
    twice(x, x, stream);
  OK(cudaMemcpyAsync(host, x, 16, cudaMemcpyDeviceToHost, stream));
  OK(cudaEventRecord(event, stream));
  int notReady = 0;
  cudaError_t error;
  while ((error = cudaEventQuery(event)) == cudaErrorNotReady)
    ++notReady;
  OK(error);
  CHECK(notReady > 0 && host[3] == 3 * 1024);
  // The host knows that it is over: nothing races with the next use.
  OK(cudaMemsetAsync(x, 0, 16, newStream()));
  OK(cudaDeviceSynchronize());
  EXPECT(cudaStreamQuery(stream), cudaSuccess);
  // A stream that is destroyed still does its work.
  twice(x, x, stream);
  OK(cudaStreamDestroy(stream));
  EXPECT(cudaStreamQuery(stream), cudaErrorInvalidResourceHandle);
  OK(cudaDeviceSynchronize());
  OK(cudaFree(x));
  OK(cudaFreeHost(host));
}

/// Host work that waits for another process while its device has work, too.
void away() {
  ncclComm_t all = world();
  float *x = upload<float>({1});
  cudaStream_t stream = newStream();
  OK(ncclAllReduce(x, x, 1, ncclFloat32, ncclSum, all, stream));
  std::string flag = std::string(std::getenv("RENDEZVOUS")) + "/done";
  if (rank() == 0) {
    while (!std::ifstream(flag))
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
  } else {
    OK(cudaStreamSynchronize(stream));
    std::ofstream(flag) << "done";
  }
  CHECK(download(x, 1)[0] == float(worldSize()));
  OK(ncclCommDestroy(all));
}

/// Non-blocking communicators answer that they are in progress first.
void nonblocking() {
  ncclUniqueId id;
  OK(ncclGetUniqueId(&id));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm;
  EXPECT(ncclCommInitRankConfig(&comm, 1, id, 0, &config), ncclInProgress);
  float *x = upload<float>({1});
  EXPECT(ncclAllReduce(x, x, 1, ncclFloat32, ncclSum, comm, nullptr),
         ncclInvalidArgument);
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress)
    OK(ncclCommGetAsyncError(comm, &state));
  OK(state);
  OK(ncclAllReduce(x, x, 1, ncclFloat32, ncclSum, comm, nullptr));
  EXPECT(ncclCommFinalize(comm), ncclInProgress);
  OK(ncclCommDestroy(comm));
}

/// Ops of other parts, such as cuDNN's: they run in the order of their stream,
/// those of two streams in any. Prints the order.
void enqueue() {
  using Enqueue = int (*)(void *, const char *, const void *, int,
                          void (*)(void *), void *, void (*)(void *));
  auto put =
      reinterpret_cast<Enqueue>(dlsym(RTLD_DEFAULT, "moe_standin_enqueue"));
  CHECK(put);
  static std::string order;
  static int destroyed = 0;
  auto run = [](void *state) { order += *static_cast<char *>(state); };
  auto destroy = [](void *state) {
    ++destroyed;
    delete static_cast<char *>(state);
  };
  cudaStream_t streams[] = {newStream(), newStream()};
  for (int i = 0; i < 4; ++i)
    for (int s = 0; s < 2; ++s)
      OK(put(streams[s], "letter", nullptr, 0, run, new char("aA"[s] + i),
             destroy));
  CHECK(order.empty());
  OK(cudaDeviceSynchronize());
  std::printf("%s\n", order.c_str());
  CHECK(destroyed == 8);
  std::string lower, upper;
  for (char c : order)
    (c >= 'a' ? lower : upper) += c;
  CHECK(lower == "abcd" && upper == "ABCD");

  // Captured: run by each launch, destroyed with the last of the graph.
  order.clear();
  OK(cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeGlobal));
  OK(put(streams[0], "letter", nullptr, 0, run, new char('x'), destroy));
  cudaGraph_t graph;
  OK(cudaStreamEndCapture(streams[0], &graph));
  cudaGraphExec_t executable;
  OK(cudaGraphInstantiate(&executable, graph, 0));
  OK(cudaGraphDestroy(graph));
  for (int i = 0; i < 3; ++i)
    OK(cudaGraphLaunch(executable, streams[0]));
  OK(cudaGraphExecDestroy(executable));
  OK(cudaDeviceSynchronize());
  CHECK(order == "xxx" && destroyed == 9);
}

/// As long as a step of a large schedule: the checks must not be what takes
/// the time.
void many() {
  constexpr int kStreams = 6, kBuffers = 40, kOps = 20000;
  std::vector<cudaStream_t> streams;
  std::vector<float *> buffers;
  for (int i = 0; i < kStreams; ++i)
    streams.push_back(newStream());
  for (int i = 0; i < kBuffers; ++i)
    buffers.push_back(upload<float>({1, 1, 1, 1}));
  for (int i = 0; i < kOps; ++i) {
    int from = i % kStreams, buffer = i % kBuffers;
    scale(buffers[buffer], buffers[buffer], 4, 1, streams[from]);
    order(streams[from], streams[(from + 1) % kStreams]);
  }
  CHECK(download(buffers[0], 1)[0] == 1);
}

} // namespace

const std::vector<Named> check::cleanScenarios = {
    {"eager", eager},       {"graph", graph},
    {"products", products}, {"collectives", collectives},
    {"large", large},       {"queries", queries},
    {"away", away},         {"nonblocking", nonblocking},
    {"enqueue", enqueue},   {"many", many}};
