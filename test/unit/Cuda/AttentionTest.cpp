//===- AttentionTest.cpp - cuDNN's graphs of attention --------------------===//
//
// The graphs that AttentionPlan builds, computed op by op by the stand-in for
// cuDNN, against the kernels of the host engine.
//
//===----------------------------------------------------------------------===//

#include "lib/Runtime/Cuda/Attention.h"

#include "test/unit/Runtime/KernelsTestSupport.h"
#include "test/unit/Tolerances.h"
#include "tools/stand-in/Enqueue.h"

#include <cudnn_graph.h>

#include <deque>

using namespace moert;
using namespace moert::cuda;
using namespace moert::test;

namespace {

struct Enqueued {
  void *stream;
  std::vector<moe_range> ranges;
  void (*run)(void *);
  void *state;
  void (*destroy)(void *);
};
/// Runs when the test says so, as a stream may be late.
std::deque<Enqueued> queue;

void runQueue() {
  for (; !queue.empty(); queue.pop_front()) {
    queue.front().run(queue.front().state);
    queue.front().destroy(queue.front().state);
  }
}

} // namespace

int moe_standin_enqueue(void *stream, const char *, const moe_range *ranges,
                        int count, void (*run)(void *), void *state,
                        void (*destroy)(void *)) {
  queue.push_back({stream, {ranges, ranges + count}, run, state, destroy});
  return 0;
}

namespace {

/// A tensor's bytes at an aligned address, as a device has them.
struct DeviceTensor {
  explicit DeviceTensor(const Tensor &t)
      : host(t), memory(t.bytes.size() + 16) {
    std::copy(t.bytes.begin(), t.bytes.end(), bytes());
  }
  uint8_t *bytes() {
    auto address = reinterpret_cast<uintptr_t>(memory.data());
    return memory.data() + (16 - address % 16) % 16;
  }
  Tensor read() {
    Tensor t = host;
    std::copy_n(bytes(), t.bytes.size(), t.bytes.begin());
    return t;
  }

private:
  Tensor host;
  std::vector<uint8_t> memory;
};

struct Case {
  int64_t batch, sequence, heads, kvHeads, headDim;
};

class Attention : public testing::TestWithParam<Case> {
protected:
  void SetUp() override {
    Case c = GetParam();
    shape = {c.batch,   c.sequence, c.heads,
             c.kvHeads, c.headDim,  1 / std::sqrt(double(c.headDim))};
    attributes = {{"heads", double(c.heads)},
                  {"kv_heads", double(c.kvHeads)},
                  {"head_dim", double(c.headDim)},
                  {"sequence", double(c.sequence)},
                  {"scale", shape.scale}};
    ASSERT_EQ(cudnnCreate(&handle), CUDNN_STATUS_SUCCESS);
    ASSERT_EQ(cudnnSetStream(handle, stream), CUDNN_STATUS_SUCCESS);
    int64_t rows = c.batch * c.sequence;
    Shape wide = {rows, c.heads * c.headDim},
          narrow = {rows, c.kvHeads * c.headDim};
    forward = {random(BF16, wide, 1), random(BF16, narrow, 2),
               random(BF16, narrow, 3), Tensor(BF16, wide),
               Tensor(F32, {rows, c.heads})};
    run("attention", attributes, {&forward[0], &forward[1], &forward[2]}, {},
        {&forward[3], &forward[4]});
  }
  void TearDown() override { cudnnDestroy(handle); }

  /// Launches a plan on copies of `tensors`, of which the first `reads` are
  /// read, and compares what it writes with the rest.
  void expectAgreement(const std::vector<Tensor> &tensors, size_t reads) {
    std::deque<DeviceTensor> device;
    std::vector<void *> pointers;
    for (size_t i = 0; i < tensors.size(); ++i) {
      device.emplace_back(
          i < reads ? tensors[i] : Tensor(tensors[i].type, tensors[i].shape));
      pointers.push_back(device.back().bytes());
    }
    std::string error;
    auto plan = AttentionPlan::create(handle, shape, error);
    ASSERT_TRUE(plan) << error;
    int64_t bytes = plan->workspaceBytes();
    std::vector<uint8_t> workspace(bytes + 16 + 64, 0xaa);
    uint8_t *begin = workspace.data() +
                     (16 - reinterpret_cast<uintptr_t>(workspace.data()) % 16);
    ASSERT_EQ(plan->launch(handle, pointers.data(), begin), "");
    plan.reset();

    ASSERT_EQ(queue.size(), 1u);
    EXPECT_EQ(queue[0].stream, stream);
    expectRanges(queue[0].ranges, pointers, tensors, reads, begin, bytes);
    if (HasFatalFailure())
      return;
    runQueue();
    for (size_t i = 0; i < reads; ++i)
      EXPECT_EQ(device[i].read().bytes, tensors[i].bytes) << "operand " << i;
    for (size_t i = reads; i < tensors.size(); ++i)
      expectNear(device[i].read(), tensors[i].values(), moe_test::kCudnnGraph,
                 "operand " + std::to_string(i));
    EXPECT_TRUE(std::all_of(begin + bytes, workspace.data() + workspace.size(),
                            [](uint8_t b) { return b == 0xaa; }))
        << "it writes past its workspace";
  }

  /// The operands, whole and with their effects; the rest lies, without
  /// overlap, in the workspace.
  void expectRanges(const std::vector<moe_range> &ranges,
                    const std::vector<void *> &pointers,
                    const std::vector<Tensor> &tensors, size_t reads,
                    uint8_t *workspace, int64_t workspaceBytes) {
    size_t operands = 0;
    std::vector<uint8_t> used(workspaceBytes);
    for (const moe_range &r : ranges) {
      size_t i = std::find(pointers.begin(), pointers.end(), r.begin) -
                 pointers.begin();
      if (i < tensors.size()) {
        ++operands;
        EXPECT_EQ(r.bytes, int64_t(tensors[i].bytes.size())) << i;
        EXPECT_EQ(r.effect, i < reads ? MOE_READ : MOE_WRITE) << i;
        continue;
      }
      int64_t offset = static_cast<uint8_t *>(r.begin) - workspace;
      ASSERT_GE(offset, 0);
      ASSERT_LE(offset + r.bytes, workspaceBytes);
      for (int64_t b = offset; b < offset + r.bytes; ++b)
        EXPECT_FALSE(std::exchange(used[b], 1)) << "byte " << b << " twice";
    }
    EXPECT_EQ(operands, tensors.size());
  }

  void expectBackward() {
    std::vector<Tensor> t = forward;
    t.push_back(random(BF16, t[0].shape, 4));
    t.emplace_back(BF16, t[0].shape);
    t.emplace_back(BF16, t[1].shape);
    t.emplace_back(BF16, t[2].shape);
    run("attention_grad", attributes,
        {&t[0], &t[1], &t[2], &t[3], &t[4], &t[5]}, {}, {&t[6], &t[7], &t[8]});
    shape.backward = true;
    expectAgreement(t, 6);
  }

  AttentionShape shape;
  Attributes attributes;
  std::vector<Tensor> forward;
  cudnnHandle_t handle = nullptr;
  cudaStream_t stream = reinterpret_cast<cudaStream_t>(0x1234);
};

TEST_P(Attention, Forward) { expectAgreement(forward, 3); }

TEST_P(Attention, DeterministicBackward) { expectBackward(); }

/// dq is summed in a tensor of its own.
TEST_P(Attention, BackwardInAnyOrder) {
  shape.deterministicWorkspace = 0;
  expectBackward();
}

INSTANTIATE_TEST_SUITE_P(Shapes, Attention,
                         testing::Values(Case{1, 128, 2, 2, 64},
                                         Case{2, 64, 8, 2, 32},
                                         Case{3, 37, 4, 1, 24},
                                         Case{1, 300, 2, 1, 128},
                                         Case{2, 1, 2, 2, 8}));

/// A plan is told apart by all that it depends on.
TEST(AttentionShape, Order) {
  AttentionShape base, other;
  EXPECT_FALSE(base < base);
  for (auto change : std::vector<std::function<void(AttentionShape &)>>{
           [](AttentionShape &s) { s.batch = 2; },
           [](AttentionShape &s) { s.sequence = 2; },
           [](AttentionShape &s) { s.heads = 2; },
           [](AttentionShape &s) { s.kvHeads = 2; },
           [](AttentionShape &s) { s.headDim = 2; },
           [](AttentionShape &s) { s.scale = 2; },
           [](AttentionShape &s) { s.backward = true; },
           [](AttentionShape &s) { s.deterministicWorkspace = 0; }}) {
    other = base;
    change(other);
    EXPECT_NE(base < other, other < base);
  }
}

} // namespace
