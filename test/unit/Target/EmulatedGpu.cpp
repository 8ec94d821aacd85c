#include "EmulatedGpu.h"

#include "lib/Target/Cuda/LowerKernels.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/TargetSelect.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <ucontext.h>
#include <vector>

using namespace mlir;
using namespace moert::test;

//===----------------------------------------------------------------------===//
// Threads
//===----------------------------------------------------------------------===//

namespace {

constexpr int kThreads = 256, kWarp = 32;
constexpr size_t kStack = 256 << 10;

struct Thread {
  enum { Ready, AtBarrier, AtWarp, Done } state;
  ucontext_t context;
  std::vector<char> stack;
  /// Of a wait for lanes of the warp: which lanes, and what is exchanged with
  /// the lane at an xor of `distance`.
  uint32_t mask = 0, distance = 0;
  float mine = 0, received = 0;
};

/// The block that runs.
struct RunningBlock {
  std::vector<Thread> threads{kThreads};
  ucontext_t scheduler;
  int current = 0;
  uint32_t number = 0, grid = 1;
  void (*code)(void **) = nullptr;
  void **pointers = nullptr;
} *block;

void giveWay() {
  swapcontext(&block->threads[block->current].context, &block->scheduler);
}

float exchange(uint32_t mask, float mine, uint32_t distance) {
  Thread &thread = block->threads[block->current];
  thread.state = Thread::AtWarp;
  thread.mask = mask;
  thread.distance = distance;
  thread.mine = mine;
  giveWay();
  return thread.received;
}

uint32_t threadId() { return block->current; }
uint32_t blockId() { return block->number; }
uint32_t gridDim() { return block->grid; }
void barrier() {
  block->threads[block->current].state = Thread::AtBarrier;
  giveWay();
}
void syncWarp(uint32_t mask) { exchange(mask, 0, 0); }
float shuffle(uint32_t mask, float mine, uint32_t distance) {
  return exchange(mask, mine, distance);
}

/// LLVM's call for bf16; the value is in a vector register.
__bf16 roundToBF16(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  bits = x != x ? bits | 0x400000 : bits + 0x7fff + (bits >> 16 & 1);
  uint16_t high = bits >> 16;
  return __builtin_bit_cast(__bf16, high);
}

void enter() {
  block->code(block->pointers);
  block->threads[block->current].state = Thread::Done;
  giveWay();
}

/// Lets threads go that have met; false if there are none.
bool release() {
  auto &threads = block->threads;
  auto isAt = [](int state) {
    return [=](const Thread &t) { return t.state == state; };
  };
  if (std::all_of(threads.begin(), threads.end(), isAt(Thread::AtBarrier))) {
    for (Thread &thread : threads)
      thread.state = Thread::Ready;
    return true;
  }
  bool any = false;
  for (int i = 0; i < kThreads; ++i) {
    Thread &thread = threads[i];
    if (thread.state != Thread::AtWarp)
      continue;
    int warp = i - i % kWarp;
    bool met = thread.mask >> (i % kWarp) & 1;
    for (int lane = 0; lane < kWarp; ++lane) {
      const Thread &other = threads[warp + lane];
      if (thread.mask >> lane & 1)
        met &= other.state == Thread::AtWarp && other.mask == thread.mask &&
               other.distance == thread.distance;
    }
    uint32_t mask = met ? thread.mask : 0, distance = thread.distance;
    for (int lane = 0; lane < kWarp; ++lane)
      if (mask >> lane & 1) {
        threads[warp + lane].state = Thread::Ready;
        threads[warp + lane].received = threads[warp + (lane ^ distance)].mine;
      }
    any |= met;
  }
  return any;
}

/// False if threads wait for ever.
bool runBlock(std::mt19937 &random) {
  for (Thread &thread : block->threads) {
    thread.state = Thread::Ready;
    thread.stack.resize(kStack);
    getcontext(&thread.context);
    thread.context.uc_stack.ss_sp = thread.stack.data();
    thread.context.uc_stack.ss_size = kStack;
    thread.context.uc_link = nullptr;
    makecontext(&thread.context, enter, 0);
  }
  std::vector<int> order(kThreads);
  for (int i = 0; i < kThreads; ++i)
    order[i] = i;
  do {
    std::shuffle(order.begin(), order.end(), random);
    for (int i : order) {
      if (block->threads[i].state != Thread::Ready)
        continue;
      block->current = i;
      swapcontext(&block->scheduler, &block->threads[i].context);
    }
  } while (release());
  return std::all_of(
      block->threads.begin(), block->threads.end(),
      [](const Thread &thread) { return thread.state == Thread::Done; });
}

//===----------------------------------------------------------------------===//
// Code
//===----------------------------------------------------------------------===//

/// Calls of the functions above in place of NVVM's ops.
void replaceDeviceOps(ModuleOp module) {
  auto callOf = [&](Operation *op, StringRef name, ValueRange arguments) {
    ImplicitLocOpBuilder b(op->getLoc(), op);
    Type result = op->getNumResults() ? op->getResult(0).getType()
                                      : LLVM::LLVMVoidType::get(b.getContext());
    auto function = module.lookupSymbol<LLVM::LLVMFuncOp>(name);
    if (!function) {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(module.getBody());
      function = LLVM::LLVMFuncOp::create(
          b, name,
          LLVM::LLVMFunctionType::get(result,
                                      llvm::to_vector(arguments.getTypes())));
    }
    auto call = LLVM::CallOp::create(b, function, arguments);
    op->replaceAllUsesWith(call->getResults());
    op->erase();
  };
  module.walk([&](Operation *op) {
    if (isa<NVVM::ThreadIdXOp>(op))
      callOf(op, "threadId", {});
    else if (isa<NVVM::BlockIdXOp>(op))
      callOf(op, "blockId", {});
    else if (isa<NVVM::GridDimXOp>(op))
      callOf(op, "gridDim", {});
    else if (isa<NVVM::Barrier0Op, NVVM::BarrierOp>(op))
      callOf(op, "barrier", {});
    else if (auto sync = dyn_cast<NVVM::SyncWarpOp>(op))
      callOf(op, "syncWarp", sync.getMask());
    else if (auto shuffle = dyn_cast<NVVM::ShflOp>(op))
      callOf(op, "shuffle",
             {shuffle.getThreadMask(), shuffle.getVal(), shuffle.getOffset()});
  });
}

/// `void run_<kernel>(ptr pointers)`.
void createEntry(LLVM::LLVMFuncOp kernel) {
  ImplicitLocOpBuilder b(kernel.getLoc(), kernel);
  Type pointer = LLVM::LLVMPointerType::get(b.getContext());
  auto entry = LLVM::LLVMFuncOp::create(
      b, ("run_" + kernel.getName()).str(),
      LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()),
                                  pointer));
  mlir::Block *top = entry.addEntryBlock(b);
  b.setInsertionPointToStart(top);
  SmallVector<Value> pointers;
  for (unsigned i = 0; i < kernel.getNumArguments(); ++i) {
    Value place = LLVM::GEPOp::create(b, pointer, pointer, top->getArgument(0),
                                      ArrayRef<LLVM::GEPArg>{int32_t(i)});
    pointers.push_back(LLVM::LoadOp::create(b, pointer, place));
  }
  LLVM::CallOp::create(b, kernel, pointers);
  LLVM::ReturnOp::create(b, ValueRange());
}

} // namespace

bool EmulatedGpu::compile(ModuleOp module) {
  auto lowered = moe::lowerKernelsToNVVM(module);
  if (failed(lowered))
    return false;
  gpu::GPUModuleOp device = *(*lowered)->getOps<gpu::GPUModuleOp>().begin();
  OwningOpRef<ModuleOp> host = ModuleOp::create(module.getLoc());
  host->getBody()->getOperations().splice(host->getBody()->end(),
                                          device.getBody()->getOperations());
  replaceDeviceOps(*host);
  for (auto kernel : llvm::to_vector(host->getOps<LLVM::LLVMFuncOp>())) {
    if (kernel.isExternal())
      continue;
    kernel->setDiscardableAttrs(ArrayRef<NamedAttribute>());
    createEntry(kernel);
  }

  DialectRegistry registry;
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  module.getContext()->appendDialectRegistry(registry);
  auto context = std::make_unique<llvm::LLVMContext>();
  auto code = translateModuleToLLVMIR(*host, *context, "device");
  if (!code)
    return false;
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  auto builder =
      llvm::cantFail(llvm::orc::JITTargetMachineBuilder::detectHost());
  builder.getOptions().AllowFPOpFusion = llvm::FPOpFusion::Strict;
  // They round bf16 in another way than a GPU does.
  builder.addFeatures({"-avx512bf16", "-avxneconvert"});
  jit = llvm::cantFail(llvm::orc::LLJITBuilder()
                           .setJITTargetMachineBuilder(std::move(builder))
                           .create());
  llvm::orc::SymbolMap symbols;
  auto define = [&](StringRef name, auto *function) {
    symbols[jit->mangleAndIntern(name)] = {
        llvm::orc::ExecutorAddr::fromPtr(function),
        llvm::JITSymbolFlags::Exported | llvm::JITSymbolFlags::Callable};
  };
  define("threadId", threadId);
  define("blockId", blockId);
  define("gridDim", gridDim);
  define("barrier", barrier);
  define("syncWarp", syncWarp);
  define("shuffle", shuffle);
  define("__truncsfbf2", roundToBF16);
  llvm::cantFail(jit->getMainJITDylib().define(
      llvm::orc::absoluteSymbols(std::move(symbols))));
  llvm::cantFail(jit->addIRModule(
      llvm::orc::ThreadSafeModule(std::move(code), std::move(context))));
  return true;
}

std::string EmulatedGpu::launch(const std::string &kernel, void **pointers,
                                unsigned grid, unsigned seed) {
  auto address = jit->lookup("run_moe_kernel_" + kernel);
  if (!address)
    return llvm::toString(address.takeError());
  RunningBlock state;
  state.code = address->toPtr<void (*)(void **)>();
  state.pointers = pointers;
  state.grid = grid;
  block = &state;
  std::mt19937 random(seed);
  std::vector<uint32_t> order(grid);
  for (uint32_t i = 0; i < grid; ++i)
    order[i] = i;
  std::shuffle(order.begin(), order.end(), random);
  for (uint32_t number : order) {
    state.number = number;
    if (!runBlock(random))
      return "threads of block " + std::to_string(number) +
             " wait for others that don't come";
  }
  return "";
}
