//===- SystemTest.cpp -----------------------------------------------------===//

#include "moe/Cost/System.h"

#include "gtest/gtest.h"

using namespace moert;

namespace {

System parsed(const std::string &text) {
  System system;
  std::string error;
  EXPECT_TRUE(parseSystem(text, system, error)) << error;
  return system;
}

TEST(System, Parses) {
  System h100 = parsed("h100x16");
  EXPECT_EQ(h100.name, "h100x16");
  EXPECT_EQ(h100.gpus, 16);
  EXPECT_EQ(h100.gpusPerDomain, 8);
  System gb200 = parsed("gb200x256");
  EXPECT_EQ(gb200.gpus, 256);
  EXPECT_EQ(gb200.gpusPerDomain, 72);
  EXPECT_GT(gb200.memoryBytes, h100.memoryBytes);
  EXPECT_GT(gb200.peakBF16, h100.peakBF16);
}

TEST(System, BadTextIsNamed) {
  System system;
  std::string error;
  EXPECT_FALSE(parseSystem("a100x8", system, error));
  EXPECT_EQ(error, "unknown target 'a100x8', known are h100xN, gb200xN");
  for (const char *number : {"", "0", "-1", "1.5", "8x", "08", "1000000"}) {
    EXPECT_FALSE(parseSystem(std::string("h100x") + number, system, error));
    EXPECT_EQ(error, std::string("target 'h100x") + number + "': '" + number +
                         "' is not a number of GPUs from 1 to 999999");
  }
}

TEST(System, ClassesOfKernels) {
  EXPECT_EQ(kernelClass("linear_dgrad"), KernelClass::Gemm);
  EXPECT_EQ(kernelClass("grouped_linear"), KernelClass::GroupedGemm);
  EXPECT_EQ(kernelClass("grouped_linear_wgrad"), KernelClass::GroupedGemm);
  EXPECT_EQ(kernelClass("attention"), KernelClass::Attention);
  EXPECT_EQ(kernelClass("attention_grad"), KernelClass::AttentionGrad);
  EXPECT_EQ(kernelClass("unpermute"), KernelClass::Gather);
  EXPECT_EQ(kernelClass("rms_norm"), KernelClass::Streaming);
  EXPECT_EQ(kernelClass("fused_12"), KernelClass::Streaming);
}

// Measured: TensorRT-LLM's GEMM of 8192^3 on H100 takes 1.44 ms, FA3's causal
// attention at 4k, 32 heads of 128 reaches 579 TFLOPS, cuDNN's 518.
TEST(System, KernelsNearMeasuredOnes) {
  System s = parsed("h100x8");
  double n = 8192;
  double gemm =
      kernelSeconds(s, "linear", 2 * n * n * n, 6 * n * n, ElementType::BF16);
  EXPECT_NEAR(gemm, 1.44e-3, 0.15 * 1.44e-3);
  double flops = 2.0 * 4096 * 4096 * 32 * 128;
  double attention = kernelSeconds(s, "attention", flops, 4096.0 * 128 * 144,
                                   ElementType::BF16);
  EXPECT_NEAR(attention, flops / 518e12, 0.25 * flops / 518e12);
  // A vector kernel is bound by memory, and in f32 a GEMM by the vector peak.
  EXPECT_NEAR(kernelSeconds(s, "add", 1e6, 1e9, ElementType::BF16),
              1e9 / 3.35e12 / 0.67, 5e-6);
  EXPECT_GT(kernelSeconds(s, "linear", 1e12, 1, ElementType::F32),
            1e12 / 67e12);
}

// arXiv 2603.07685 Table 7: all-to-all of 4096 tokens, width 7168, top-8, bf16.
TEST(System, AllToAllNearMeasuredOnes) {
  double bytes = 4096.0 * 8 * 7168 * 2;
  struct Row {
    const char *system;
    int64_t ep;
    double microseconds;
  };
  for (Row row : {Row{"h100x64", 8, 1265},
                  {"h100x64", 16, 5774},
                  {"h100x64", 32, 8059},
                  {"h100x64", 64, 9164},
                  {"gb200x64", 8, 735},
                  {"gb200x64", 16, 743},
                  {"gb200x64", 32, 769},
                  {"gb200x64", 64, 930}}) {
    double seconds = collectiveSeconds(
        parsed(row.system), CollectiveKind::AllToAll, bytes, row.ep, 1);
    EXPECT_NEAR(seconds * 1e6, row.microseconds, 0.11 * row.microseconds)
        << row.system << " ep" << row.ep;
  }
}

// NCCL 2.29.2 on 8 H100, 512 MiB in all, microseconds.
TEST(System, RingsNearMeasuredOnes) {
  System s = parsed("h100x8");
  double bytes = 536870912;
  auto price = [&](CollectiveKind kind, double bytes) {
    return collectiveSeconds(s, kind, bytes, 8, 1) * 1e6;
  };
  EXPECT_NEAR(price(CollectiveKind::AllGather, bytes / 8), 1401, 150);
  EXPECT_NEAR(price(CollectiveKind::ReduceScatter, bytes), 1399, 150);
  EXPECT_NEAR(price(CollectiveKind::AllReduceSum, bytes), 2111, 220);
}

TEST(System, GroupsCrossDomainsByStride) {
  System s = parsed("h100x64");
  EXPECT_TRUE(insideDomain(s, 8, 1));
  EXPECT_TRUE(insideDomain(s, 4, 2));
  EXPECT_FALSE(insideDomain(s, 16, 1));
  EXPECT_FALSE(insideDomain(s, 8, 2));
  EXPECT_FALSE(insideDomain(s, 2, 8));
  auto gather = [&](int64_t size, int64_t stride) {
    return collectiveSeconds(s, CollectiveKind::AllGather, 1e8, size, stride);
  };
  EXPECT_LT(gather(8, 1), gather(8, 2));
  EXPECT_LT(gather(8, 2), gather(8, 8));
  // Four cards fetch the other domain's four shares, a card's share is one.
  EXPECT_NEAR(gather(8, 2), 1e8 / s.network, 1e-4);
  EXPECT_NEAR(gather(8, 8), 7e8 / s.network, 1e-4);
  EXPECT_NEAR(sendSeconds(s, 1e8, -8), 1e8 / s.network, 1e-4);
  EXPECT_NEAR(sendSeconds(s, 1e8, -7), 1e8 / s.nvlink, 1e-4);
}

TEST(System, GroupOfOneCopies) {
  System s = parsed("h100x8");
  EXPECT_NEAR(collectiveSeconds(s, CollectiveKind::AllToAll, 1e9, 1, 1),
              2e9 / 3.35e12 / 0.67, 5e-6);
}

TEST(System, HostAndSlowdown) {
  System s = parsed("h100x8");
  EXPECT_EQ(hostSeconds(s, OpKind::Launch, false), s.hostLaunch);
  EXPECT_EQ(hostSeconds(s, OpKind::Launch, true), 0);
  EXPECT_NEAR(computeSlowdown(s, 0), 20 / 132.0, 1e-12);
  EXPECT_NEAR(computeSlowdown(s, 8), 8 / 132.0, 1e-12);
  EXPECT_EQ(computeSlowdown(s, 1000), 1);
}

} // namespace
