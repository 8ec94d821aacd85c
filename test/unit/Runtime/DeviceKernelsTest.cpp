//===- DeviceKernelsTest.cpp - The device's library kernels on the host ---===//
//
// Each case runs a kernel of the host engine, the twin of the device's kernel
// on several grids, and the device's source on simulated lanes, and compares.
// What only a device shows: its shuffles, atomics, memory order and rounding.
//
//===----------------------------------------------------------------------===//

#include "lib/Runtime/Cuda/DeviceKernels.h"
#include "../Tolerances.h"
#include "KernelsTestSupport.h"
#include "Lanes.h"
#include "lib/Runtime/Cuda/Kernels/All.h"
#include "lib/Runtime/Cuda/Twin.h"

using namespace moert;
using namespace moert::test;

extern "C" {
extern const moe_twin moe_twins[];
extern const size_t moe_twin_count;
}

namespace {

struct Simulation {
  const char *name;
  void (*run)(const cuda::Arguments &, unsigned grid, bool backward);
};

template <typename Kernel>
void simulate(const cuda::Arguments &arguments, unsigned grid, bool backward) {
  static Lanes lanes;
  for (unsigned index = 0; index < grid; ++index) {
    typename Kernel::Shared shared;
    std::memset(&shared, 0xff, sizeof(shared));
    lanes.run(backward, [&] {
      Kernel::run(SimulatedBlock{{&lanes}, index, grid}, shared, arguments);
    });
  }
}

using namespace moert::cuda::kernels;
using moert::cuda::kernels::BF16;
const Simulation simulations[] = {
#define MOE_DEVICE_KERNEL(op, type, ...)                                       \
  {"moe_" #op "_" #type, simulate<__VA_ARGS__>},
#include "lib/Runtime/Cuda/Kernels/Kernels.def"
};

template <typename Entry>
const Entry *find(const Entry *entries, size_t count, const std::string &name) {
  for (size_t i = 0; i < count; ++i)
    if (name == entries[i].name)
      return &entries[i];
  return nullptr;
}

/// Starts zeroed, as the runtime's; each launch must leave its counter so.
struct Scratch {
  std::vector<uint64_t> words =
      std::vector<uint64_t>(cuda::kScratchBytes / sizeof(uint64_t));
};

cuda::Arguments argumentsOf(const Launched &l, Scratch &scratch) {
  cuda::Arguments a = {};
  a.operands = int32_t(l.operands.size());
  for (size_t i = 0; i < l.operands.size(); ++i) {
    const Operand &o = l.operands[i];
    a.pointers[i] = l.pointers[i];
    a.bytes[i] = o.bytes();
    a.effects[i] = uint8_t(o.effect);
    for (size_t axis = 0; axis < cuda::kMaxRank; ++axis)
      a.dims[i][axis] = axis < o.shape.size() ? o.shape[axis] : 1;
  }
  size_t number = 0;
  for (const auto &[name, value] : l.kernel.attributes)
    a.numbers[number++] = value;
  a.scratch = scratch.words.data();
  return a;
}

/// One launch, whose outputs can be made anew.
struct Case {
  std::string op;
  Attributes attributes;
  std::vector<Tensor> reads, accumulators, writes;

  struct Outputs {
    std::vector<Tensor> tensors;
    bool operator==(const Outputs &other) const {
      for (size_t i = 0; i < tensors.size(); ++i)
        if (tensors[i].bytes != other.tensors[i].bytes)
          return false;
      return true;
    }
  };

  /// What `launch` leaves in the accumulators and what it writes.
  Outputs run(const std::function<void(const Launched &)> &launch) const {
    std::vector<Tensor> in = reads, acc = accumulators, out = writes;
    auto pointers = [](std::vector<Tensor> &tensors) {
      std::vector<Tensor *> result;
      for (Tensor &t : tensors)
        result.push_back(&t);
      return result;
    };
    launch(prepare(op, attributes, pointers(in), pointers(acc), pointers(out)));
    for (size_t i = 0; i < in.size(); ++i)
      EXPECT_EQ(in[i].bytes, reads[i].bytes) << op << " wrote operand " << i;
    acc.insert(acc.end(), out.begin(), out.end());
    return {acc};
  }

  Outputs onHost() const {
    return run([&](const Launched &l) {
      ASSERT_EQ(checkLaunch(l.kernel, l.operands), "");
      const HostKernel *kernel = findHostKernel(op);
      for (int64_t tile = 0; tile < kernel->tiles(l.launch()); ++tile)
        kernel->run(l.launch(), tile);
    });
  }
  /// `shift`: operands lie that many elements after a multiple of 16 bytes.
  Outputs onTwin(unsigned grid, int64_t shift = 0) const {
    return onDevice(shift, [&](const std::string &name, cuda::Arguments &a) {
      const moe_twin *twin = find(moe_twins, moe_twin_count, name);
      ASSERT_NE(twin, nullptr) << name;
      void *parameters[] = {&a};
      twin->run(parameters, grid);
    });
  }
  Outputs onLanes(unsigned grid, bool backward) const {
    return onDevice(0, [&](const std::string &name, cuda::Arguments &a) {
      find(simulations, std::size(simulations), name)->run(a, grid, backward);
    });
  }

private:
  using Device = std::function<void(const std::string &, cuda::Arguments &)>;

  Outputs onDevice(int64_t shift, const Device &device) const {
    return run([&](const Launched &l) {
      Scratch scratch;
      cuda::Arguments a = argumentsOf(l, scratch);
      EXPECT_GE(cuda::deviceGrid(l.kernel, a), 1u);
      // Each operand in memory of its own, so that its ends are known.
      std::vector<std::unique_ptr<uint8_t[]>> memory;
      for (int i = 0; i < a.operands; ++i) {
        int64_t offset = shift * elementBytes(l.operands[i].type);
        memory.emplace_back(new uint8_t[a.bytes[i] + offset]);
        a.pointers[i] = memory[i].get() + offset;
        std::memcpy(a.pointers[i], l.pointers[i], a.bytes[i]);
      }
      device(cuda::deviceKernelName(l.kernel, l.operands), a);
      for (int i = 0; i < a.operands; ++i)
        std::memcpy(l.pointers[i], a.pointers[i], a.bytes[i]);
      EXPECT_EQ(scratch.words[0], 0u) << op;
    });
  }
};

/// Within `tolerance` of the largest value, and an ulp of bf16; 0: equal bits.
/// What one leaves untouched, or a NaN, the other does.
void expectLike(const Case::Outputs &actual, const Case::Outputs &expected,
                double tolerance, const std::string &what) {
  for (size_t n = 0; n < expected.tensors.size(); ++n) {
    const Tensor &a = actual.tensors[n], &e = expected.tensors[n];
    std::string name = what + ", output " + std::to_string(n);
    if (tolerance == 0.0 || e.type == I32) {
      ASSERT_EQ(a.bytes, e.bytes) << name;
      continue;
    }
    double largest = 0.0;
    for (double v : e.values())
      if (std::isfinite(v))
        largest = std::max(largest, std::abs(v));
    for (int64_t i = 0; i < e.size(); ++i) {
      double x = a.get(i), y = e.get(i);
      ASSERT_EQ(a.untouched(i), e.untouched(i)) << name << " element " << i;
      ASSERT_EQ(std::isnan(x), std::isnan(y)) << name << " element " << i;
      double bound = tolerance * largest;
      if (e.type == test::BF16)
        bound += std::abs(y) * moe_test::kOneUlpBf16;
      ASSERT_TRUE(std::isnan(y) || x == y || std::abs(x - y) <= bound)
          << name << " element " << i << ": " << x << " and " << y;
    }
  }
}

void check(const Case &c, double tolerance) {
  Case::Outputs host = c.onHost(), twin = c.onTwin(1);
  expectLike(twin, host, tolerance, c.op + " by its twin");
  for (unsigned grid : {3u, 64u})
    EXPECT_TRUE(c.onTwin(grid) == twin) << c.op << ", a grid of " << grid;
  EXPECT_TRUE(c.onTwin(3, 1) == twin) << c.op << ", not aligned";
  Case::Outputs lanes = c.onLanes(3, false);
  expectLike(lanes, host, tolerance, c.op + " by lanes");
  EXPECT_TRUE(c.onLanes(1, true) == lanes) << c.op << ", lanes backward";
}

class DeviceKernels : public testing::TestWithParam<ElementType> {
protected:
  ElementType type = GetParam();
};
INSTANTIATE_TEST_SUITE_P(Types, DeviceKernels,
                         testing::Values(F32, test::BF16));

Tensor ints(Shape shape, uint32_t seed, int from, int to) {
  Tensor t(I32, shape);
  std::mt19937 generator(seed);
  std::uniform_int_distribution<int> uniform(from, to);
  for (int64_t i = 0; i < t.size(); ++i)
    t.set(i, uniform(generator));
  return t;
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

TEST_P(DeviceKernels, Embedding) {
  for (int64_t h : {1, 24, 67, 520}) { // Rows of pieces and of elements.
    Tensor ids = ints({45}, 1, -1, 9); // Vocabulary 9: both ends are outside.
    check({"embedding",
           {},
           {random(type, {9, h}, 2), ids},
           {},
           {Tensor(type, {45, h})}},
          0);
  }
}

TEST_P(DeviceKernels, EmbeddingWgradAddsEqualIdsInOrder) {
  for (int64_t h : {5, 530}) { // Some columns, two slices.
    check({"embedding_wgrad",
           {},
           {ints({75}, 1, -1, 9), random(type, {75, h}, 2)},
           {random(F32, {9, h}, 3)},
           {}},
          0);
    check({"embedding_wgrad", // One token alone, 65 times.
           {},
           {ints({65}, 1, 4, 4), random(type, {65, h}, 2)},
           {random(F32, {9, h}, 3)},
           {}},
          0);
  }
}

TEST_P(DeviceKernels, Rope) {
  // Pieces; elements; more frequencies than a tile has; several sequences.
  for (auto [tokens, heads, d, sequence] :
       {std::array<int64_t, 4>{37, 3, 32, 37},
        {10, 2, 10, 5},
        {3, 1, 1040, 3},
        {3, 2, 514, 3},
        {300, 1, 2, 150}})
    for (double inverse : {0.0, 1.0})
      check({"rope",
             {{"head_dim", double(d)},
              {"base", 1e4},
              {"sequence", double(sequence)},
              {"inverse", inverse}},
             {random(type, {tokens, heads * d}, 1)},
             {},
             {Tensor(type, {tokens, heads * d})}},
            0);
}

TEST(DeviceKernels, Zero) {
  for (Shape shape : {Shape{1}, Shape{7, 3}, Shape{5, 2, 2, 103}})
    check({"zero", {}, {}, {}, {Tensor(F32, shape)}}, 0);
}

TEST_P(DeviceKernels, AdamW) {
  for (int64_t n : {1, 1003, 2048})
    for (double clip : {0.0, 0.5})
      for (double flag : {0.0, 1.0})
        check({"adamw",
               {{"lr", 1e-2},
                {"beta1", 0.9},
                {"beta2", 0.999},
                {"eps", 1e-8},
                {"weight_decay", 0.01},
                {"clip", clip}},
               {random(F32, {n}, 1), Tensor(F32, {1}, {3.0}), integers({7}),
                integers({int(flag)})},
               {random(F32, {n}, 2), random(F32, {n}, 3, 0.1),
                Tensor(F32, {n}, Doubles(n, 0.25))},
               {Tensor(type, {n})}},
              0);
}

//===----------------------------------------------------------------------===//
// Sums
//===----------------------------------------------------------------------===//

TEST(DeviceKernels, Sums) {
  // One part; parts with a rest; more than parts of the least size would hold.
  for (int64_t n : {1, 300, 4096, 50001})
    for (const char *op : {"sum", "sum_squares", "grad_norm"}) {
      Tensor x = random(F32, {n}, 1);
      for (int64_t i = 0; i < n; ++i)
        x.set(i, std::abs(x.get(i)));
      check({op, {}, {x}, {}, {Tensor(F32, {1})}}, moe_test::kDeviceSum);
    }
}

TEST(DeviceKernels, SumOfMoreThanAllPartsOfTheLeastSize) {
  int64_t n = Sum::kParts * Sum::kLeast + 5000;
  Tensor x(F32, {n});
  for (int64_t i = 0; i < n; ++i)
    x.set(i, double(i % 64));
  Case c = {"sum", {}, {x}, {}, {Tensor(F32, {1})}};
  Case::Outputs twin = c.onTwin(64);
  expectLike(twin, c.onHost(), moe_test::kDeviceSum, "sum");
  EXPECT_TRUE(c.onTwin(1) == twin);
}

//===----------------------------------------------------------------------===//
// Routing
//===----------------------------------------------------------------------===//

TEST_P(DeviceKernels, RouteAndItsGradient) {
  for (auto [tokens, experts, k] : {std::array<int64_t, 3>{37, 61, 7},
                                    {5, 128, 8},
                                    {9, 3, 3},
                                    {1, 1, 1},
                                    {3, 45, 1},
                                    {2, 40, 40}})
    for (double normalize : {0.0, 1.0}) {
      Tensor logits = random(type, {tokens, experts}, 1, 2.0);
      if (tokens == 5) // Many equal ones.
        for (int64_t i = 0; i < logits.size(); ++i)
          logits.set(i, std::round(logits.get(i)));
      Case route = {"route",
                    {{"normalize", normalize}},
                    {logits},
                    {},
                    {Tensor(type, {tokens, k}), Tensor(I32, {tokens, k})}};
      check(route, moe_test::kDeviceKernel);
      Case::Outputs chosen = route.onHost();
      check({"route_grad",
             {{"normalize", normalize}},
             {logits, chosen.tensors[0], chosen.tensors[1],
              random(type, {tokens, k}, 2)},
             {},
             {Tensor(type, {tokens, experts})}},
            moe_test::kDeviceKernel);
    }
}

TEST_P(DeviceKernels, RouteOfNaNsAndIndicesOutOfRange) {
  Tensor logits(type, {4, 4},
                {NAN, NAN, NAN, NAN, NAN, 1, NAN, 2, -INFINITY, -INFINITY, NAN,
                 INFINITY, 1, -INFINITY, 3, -INFINITY});
  check({"route",
         {{"normalize", 1}},
         {logits},
         {},
         {Tensor(type, {4, 3}), Tensor(I32, {4, 3})}},
        moe_test::kDeviceKernel);
  for (double normalize : {0.0, 1.0})
    check({"route_grad",
           {{"normalize", normalize}},
           {random(type, {2, 5}, 1), random(type, {2, 3}, 2),
            Tensor(I32, {2, 3}, {-1, 5, 2, 3, 2000000000, 0}),
            random(type, {2, 3}, 3)},
           {},
           {Tensor(type, {2, 5})}},
          moe_test::kDeviceKernel);
}

TEST(DeviceKernels, Permutation) {
  // Experts 8 to 12 get nothing; indices out of range; fewer than lanes.
  for (auto [tokens, k, experts, from, to] :
       {std::array<int64_t, 5>{331, 3, 13, 0, 7},
        {97, 2, 5, -2, 6},
        {3, 1, 4, 1, 1},
        {2, 2, 1, 0, 0}})
    check({"permutation",
           {},
           {ints({tokens, k}, 1, int(from), int(to))},
           {},
           {Tensor(I32, {tokens, k}), Tensor(I32, {experts})}},
          0);
}

TEST(DeviceKernels, LocalRows) {
  check({"local_rows",
         {{"ranks", 3}},
         {integers({1, 2, -3, 40, 50, 60, 0, 2000000000, 2000000000})},
         {},
         {Tensor(I32, {3})}},
        0);
  check({"local_rows",
         {{"ranks", 2}},
         {ints({600}, 1, 0, 9)},
         {},
         {Tensor(I32, {300})}},
        0);
}

TEST_P(DeviceKernels, SortChunks) {
  struct Counts {
    int ranks;
    int64_t capacity;
    Tensor recv;
  };
  // With room; cut; spoiled; none; more chunks than lanes.
  for (const Counts &c :
       {Counts{2, 12, integers({2, 0, 3, 1, 4, 0})},
        Counts{2, 7, integers({2, 0, 3, 1, 4, 0})},
        Counts{2, 6, integers({4, -3, 2000000000, 2000000000})},
        Counts{3, 5, integers({0, 0, 0})}, Counts{8, 250, ints({80}, 1, 0, 6)}})
    for (double inverse : {0.0, 1.0})
      for (Shape shape :
           {Shape{c.capacity}, Shape{c.capacity, 5}, Shape{c.capacity, 2, 8}})
        check({"sort_chunks",
               {{"ranks", double(c.ranks)}, {"inverse", inverse}},
               {random(type, shape, 1), c.recv},
               {},
               {Tensor(type, shape)}},
              0);
}

TEST(DeviceKernels, GroupShapes) {
  // A rest of a warp; several warps' worth; no expert has rows; counts that a
  // fault spoiled; more rows than the capacity, at the end of an expert and
  // within one.
  struct Counts {
    std::vector<int32_t> rows;
    int64_t capacity;
  };
  std::vector<int32_t> many(75);
  for (size_t e = 0; e < many.size(); ++e)
    many[e] = int32_t(e * 7 % 5);
  for (const Counts &c :
       {Counts{{3, 0, 4}, 9}, Counts{many, 500}, Counts{{0, 0}, 4},
        Counts{{2, -5, INT32_MAX, INT32_MAX, 1}, 10}, Counts{{4, 6, 3}, 10}}) {
    int64_t experts = c.rows.size(), in = 6, out = 10;
    // No element of the operands is touched.
    char *x = reinterpret_cast<char *>(uintptr_t(1) << 32), *y = x + (1 << 20),
         *w = y + (1 << 20);
    auto shapes = [&](auto launch) {
      std::vector<int32_t> rows = c.rows;
      std::vector<uint64_t> memory(GroupArrays::bytes(experts) / 8 + 1);
      cuda::Arguments a = {};
      a.operands = 5;
      void *pointers[] = {rows.data(), x, y, w, memory.data()};
      std::copy(std::begin(pointers), std::end(pointers), a.pointers);
      a.dims[0][0] = experts;
      a.dims[1][0] = c.capacity;
      a.dims[3][1] = out;
      a.dims[3][2] = in;
      a.numbers[0] = 2;
      a.numbers[1] = 4;
      a.numbers[2] = 1;
      launch(a);
      return memory;
    };
    const moe_twin *twin =
        find(moe_twins, moe_twin_count, "moe_group_shapes_i32");
    ASSERT_NE(twin, nullptr);
    auto onTwin = [&](unsigned grid) {
      return shapes([&](cuda::Arguments &a) {
        void *parameters[] = {&a};
        twin->run(parameters, grid);
      });
    };
    std::vector<uint64_t> memory = onTwin(1);
    EXPECT_EQ(onTwin(3), memory);
    for (bool backward : {false, true})
      EXPECT_EQ(shapes([&](cuda::Arguments &a) {
                  simulate<GroupShapes>(a, 2, backward);
                }),
                memory);
    GroupArrays arrays(memory.data(), experts);
    int64_t first = 0;
    for (int64_t e = 0; e < experts; ++e) {
      int64_t n = std::clamp<int64_t>(c.rows[e], 0, c.capacity - first);
      EXPECT_EQ(arrays.rows[e], n) << "expert " << e;
      EXPECT_EQ(arrays.in[e], in);
      EXPECT_EQ(arrays.out[e], out);
      EXPECT_EQ(arrays.x[e], x + first * in * 2) << "expert " << e;
      EXPECT_EQ(arrays.y[e], y + first * out * 2) << "expert " << e;
      EXPECT_EQ(arrays.w[e], w + e * out * in * 4) << "expert " << e;
      first += n;
    }
    EXPECT_EQ(*arrays.alpha, 1.0f);
    EXPECT_EQ(*arrays.beta, 1.0f);
  }
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

TEST(DeviceKernels, Attention) {
  struct Sizes {
    int64_t sequences, sequence, heads, kvHeads, d;
  };
  // Columns less than lanes, more than a round's, of pieces and of elements.
  for (Sizes s : {Sizes{1, 1, 1, 1, 1}, Sizes{2, 37, 4, 2, 5},
                  Sizes{1, 70, 2, 1, 16}, Sizes{1, 5, 1, 1, 300}}) {
    int64_t tokens = s.sequences * s.sequence;
    Attributes attributes = {{"heads", double(s.heads)},
                             {"kv_heads", double(s.kvHeads)},
                             {"head_dim", double(s.d)},
                             {"sequence", double(s.sequence)},
                             {"scale", 1.0 / std::sqrt(double(s.d))}};
    Shape queries = {tokens, s.heads * s.d}, keys = {tokens, s.kvHeads * s.d};
    Tensor q = random(F32, queries, 1), k = random(F32, keys, 2),
           v = random(F32, keys, 3);
    Case forward = {"attention",
                    attributes,
                    {q, k, v},
                    {},
                    {Tensor(F32, queries), Tensor(F32, {tokens, s.heads})}};
    check(forward, moe_test::kDeviceKernel);
    Case::Outputs o = forward.onHost();
    check({"attention_grad",
           attributes,
           {q, k, v, o.tensors[0], o.tensors[1], random(F32, queries, 4)},
           {},
           {Tensor(F32, queries), Tensor(F32, keys), Tensor(F32, keys)}},
          moe_test::kDeviceKernel);
  }
}

//===----------------------------------------------------------------------===//
// The list
//===----------------------------------------------------------------------===//

TEST(DeviceKernels, NamesGoByTheTypeOfX) {
  auto name = [](const std::string &op, std::vector<ElementType> types) {
    Kernel kernel;
    kernel.op = op;
    std::vector<Operand> operands(types.size());
    for (size_t i = 0; i < types.size(); ++i)
      operands[i].type = types[i];
    return cuda::deviceKernelName(kernel, operands);
  };
  EXPECT_EQ(name("embedding_wgrad", {I32, test::BF16, F32}),
            "moe_embedding_wgrad_bf16");
  EXPECT_EQ(name("embedding_wgrad", {I32, F32, F32}),
            "moe_embedding_wgrad_f32");
  EXPECT_EQ(name("permutation", {I32, I32, I32}), "moe_permutation_i32");
  // By a vendor's library.
  EXPECT_EQ(name("linear", {F32, F32, F32}), "");
  EXPECT_EQ(name("attention", {test::BF16, test::BF16, F32}), "");
  EXPECT_EQ(name("attention", {F32, F32, F32}), "moe_attention_f32");
}

TEST(DeviceKernels, TwinsSayWhatTheyTouch) {
  Tensor x = random(F32, {8}, 1), y(F32, {1});
  Launched l = prepare("sum", {}, {&x}, {}, {&y});
  Scratch scratch;
  cuda::Arguments a = argumentsOf(l, scratch);
  void *parameters[] = {&a};
  moe_range ranges[16];
  const moe_twin *sum = find(moe_twins, moe_twin_count, "moe_sum_f32");
  ASSERT_EQ(sum->ranges(parameters, ranges), 3);
  EXPECT_EQ(ranges[0].begin, x.bytes.data());
  EXPECT_EQ(ranges[0].bytes, 32);
  EXPECT_EQ(ranges[0].effect, MOE_READ);
  EXPECT_EQ(ranges[1].begin, y.bytes.data());
  EXPECT_EQ(ranges[1].effect, MOE_WRITE);
  EXPECT_EQ(ranges[2].begin, scratch.words.data());
  EXPECT_EQ(ranges[2].bytes, cuda::kScratchBytes);
  EXPECT_EQ(ranges[2].effect, MOE_READ_WRITE);
  const moe_twin *zero = find(moe_twins, moe_twin_count, "moe_zero_f32");
  Launched z = prepare("zero", {}, {}, {}, {&y});
  a = argumentsOf(z, scratch);
  ASSERT_EQ(zero->ranges(parameters, ranges), 1);
  EXPECT_EQ(ranges[0].begin, y.bytes.data());
}

TEST(DeviceKernelsDeathTest, LanesFindABarrierThatSomeLeaveOut) {
  Lanes lanes;
  EXPECT_DEATH(lanes.run(false,
                         [&] {
                           if (lanes.thread() != 40)
                             lanes.waitForWarp();
                         }),
               "wait for a barrier");
}

} // namespace
