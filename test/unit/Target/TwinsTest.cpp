//===- TwinsTest.cpp - Host twins of generated kernels --------------------===//

#include "../Runtime/KernelsTestSupport.h"
#include "KernelModule.h"
#include "lib/Runtime/Cuda/Twin.h"

#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

using namespace moert;
using namespace moert::test;

namespace {

/// The object tells a reader of Twin.h, who knows no more, what the kernels do.
TEST(Twins, ListKernelsWithTheirRanges) {
  Tensor x = random(BF16, {5, 8}, 1), dy = random(BF16, {5, 8}, 2);
  std::vector<Case> cases = {
      {"add", {}, {x, dy}, {}, {Tensor(BF16, {5, 8})}},
      {"rms_norm_wgrad", {{"eps", 1e-3}}, {x, dy}, {random(F32, {8}, 3)}, {}}};
  KernelModule module;
  for (Case &c : cases)
    module.add(prepare(c), c.rows);
  ASSERT_TRUE(module.compile());

  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  ASSERT_TRUE(
      mlir::succeeded(mlir::moe::emitTwinObject(module.get(), "", stream)));
  auto jit = llvm::cantFail(llvm::orc::LLJITBuilder().create());
  llvm::cantFail(jit->addObjectFile(
      llvm::MemoryBuffer::getMemBufferCopy(stream.str(), "twins.o")));
  auto *count = llvm::cantFail(jit->lookup("moe_generated_twin_count"))
                    .toPtr<const size_t *>();
  auto *twins = llvm::cantFail(jit->lookup("moe_generated_twins"))
                    .toPtr<const moe_generated_twin *>();
  ASSERT_EQ(*count, 2u);
  EXPECT_STREQ(twins[0].name, "moe_kernel_k0");
  EXPECT_STREQ(twins[1].name, "moe_kernel_k1");
  ASSERT_EQ(twins[0].operands, 3);
  ASSERT_EQ(twins[1].operands, 3);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(twins[0].bytes[i], 5 * 8 * 2);
    EXPECT_EQ(twins[0].effects[i], i < 2 ? MOE_READ : MOE_WRITE);
    EXPECT_EQ(twins[1].bytes[i], i < 2 ? 5 * 8 * 2 : 8 * 4);
    EXPECT_EQ(twins[1].effects[i], i < 2 ? MOE_READ : MOE_READ_WRITE);
  }
  for (size_t i = 0; i < 2; ++i) {
    Case library = cases[i], twin = cases[i];
    module.function(i)(prepare(library).pointers.data());
    twins[i].code(prepare(twin).pointers.data());
    for (size_t t = 0; t < twin.writes.size(); ++t)
      EXPECT_EQ(twin.writes[t].bytes, library.writes[t].bytes);
    for (size_t t = 0; t < twin.accumulators.size(); ++t)
      EXPECT_EQ(twin.accumulators[t].bytes, library.accumulators[t].bytes);
  }
}

} // namespace
