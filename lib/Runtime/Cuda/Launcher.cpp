//===- Launcher.cpp - Kernels of a table on the device --------------------===//

#include "Launcher.h"
#include "DeviceKernels.h"
#include "LaunchKernel.h"

#include <algorithm>
#include <cstring>
#include <cudnn.h>
#include <numeric>

using namespace moert;
using namespace moert::cuda;

static void check(cudnnStatus_t status, const char *call) {
  if (status != CUDNN_STATUS_SUCCESS)
    fail(std::string(call) + ": " + cudnnGetErrorString(status));
}

static cudaLibrary_t load(const void *image) {
  cudaLibrary_t library = nullptr;
  MOE_CHECK(cudaLibraryLoadData(&library, image, nullptr, nullptr, 0, nullptr,
                                nullptr, 0));
  return library;
}

Launcher::Launcher(const CudaOptions &options, int capability)
    : options(options), library(load(moe_device_kernels)) {
  grouped =
      chooseGroupedProvider(blas, cublasLtGetVersion(), capability, library);
}

Launcher::~Launcher() {
  attention.clear();
  if (dnn)
    cudnnDestroy(dnn);
  for (auto [stream, image] : images)
    if (image)
      cudaLibraryUnload(image);
  cudaLibraryUnload(library);
}

//===----------------------------------------------------------------------===//
// Planning
//===----------------------------------------------------------------------===//

static Product linearProduct(const std::string &op,
                             const std::vector<Operand> &operands,
                             LaunchPlan &plan) {
  const Operand &first = operands[0], &second = operands[1];
  Product p;
  p.input = first.type;
  p.output = operands[2].type;
  if (op == "linear_wgrad") { // x, dy, acc
    plan.a = 1, plan.b = 0;
    p.rows = second.shape[1], p.columns = first.shape[1];
    p.depth = first.shape[0];
    p.transposeA = p.accumulate = true;
    return p;
  }
  p.rows = first.shape[0], p.depth = first.shape[1];
  p.transposeB = op == "linear";
  p.columns = second.shape[p.transposeB ? 0 : 1];
  return p;
}

static Arguments argumentsOf(const Kernel &kernel, const Op &op) {
  Arguments arguments{};
  if (op.operands.size() > kMaxOperands ||
      kernel.attributes.size() > kMaxNumbers)
    fail("kernel '" + kernel.name + "' has too many operands or numbers");
  arguments.operands = int32_t(op.operands.size());
  for (size_t i = 0; i < op.operands.size(); ++i) {
    const Operand &operand = op.operands[i];
    if (operand.shape.size() > kMaxRank)
      fail("kernel '" + kernel.name + "' has an operand of rank " +
           std::to_string(operand.shape.size()));
    arguments.bytes[i] = operand.bytes();
    arguments.effects[i] = uint8_t(operand.effect);
    std::fill_n(arguments.dims[i], kMaxRank, 1);
    std::copy(operand.shape.begin(), operand.shape.end(), arguments.dims[i]);
  }
  int at = 0;
  for (const auto &[name, number] : kernel.attributes)
    arguments.numbers[at++] = number;
  return arguments;
}

const AttentionPlan &Launcher::attentionOf(const Kernel &kernel, const Op &op) {
  auto number = [&](const char *name) { return kernel.attributes.at(name); };
  AttentionShape shape;
  shape.sequence = int64_t(number("sequence"));
  shape.batch = op.operands[0].shape[0] / shape.sequence;
  shape.heads = int64_t(number("heads"));
  shape.kvHeads = int64_t(number("kv_heads"));
  shape.headDim = int64_t(number("head_dim"));
  shape.scale = number("scale");
  shape.backward = kernel.op == "attention_grad";
  std::unique_ptr<AttentionPlan> &plan = attention[shape];
  if (!plan) {
    if (!dnn)
      ::check(cudnnCreate(&dnn), "cudnnCreate");
    std::string error;
    plan = AttentionPlan::create(dnn, shape, error);
    if (!plan)
      fail("kernel '" + kernel.name + "': " + error);
    scratch = std::max(scratch, plan->workspaceBytes());
  }
  return *plan;
}

/// Any grid is right; this many blocks keep the device busy.
static unsigned generatedGrid(const Op &op) {
  int64_t elements = 1;
  for (const Operand &operand : op.operands)
    elements = std::max(elements, operand.elements());
  return unsigned(std::clamp<int64_t>(elements / (4 * kBlock), 1, 2048));
}

LaunchPlan Launcher::plan(const Kernel &kernel, const Op &op,
                          int64_t alignment) {
  using Kind = LaunchPlan::Kind;
  LaunchPlan plan;
  plan.alignment = std::gcd(alignment, kMaxAlignment);
  // Generated kernels and cuDNN move vectors; the library's look for
  // themselves.
  auto needVectors = [&] {
    if (plan.alignment % 16)
      fail("kernel '" + kernel.name +
           "' has an operand whose address is not a multiple of 16");
  };
  auto find = [&](cudaLibrary_t in, const std::string &name) {
    if (!in ||
        cudaLibraryGetKernel(&plan.kernel, in, name.c_str()) != cudaSuccess)
      fail("kernel '" + kernel.name + "': '" + name + "' has no code");
  };
  if (kernel.provider == Provider::Generated) {
    plan.kind = Kind::Generated;
    needVectors();
    cudaLibrary_t &image = images[op.stream];
    if (!image && options.imageBytes)
      image = load(options.image);
    find(image, "moe_kernel_" + kernel.name);
    plan.grid = generatedGrid(op);
    return plan;
  }
  std::string problem = checkSignature(kernel, op.operands);
  if (!problem.empty())
    fail("kernel '" + kernel.name + "': " + problem);
  bool isProduct = kernel.op == "linear" || kernel.op == "linear_dgrad" ||
                   kernel.op == "linear_wgrad";
  if (isProduct) {
    plan.kind = Kind::Product;
    plan.product = linearProduct(kernel.op, op.operands, plan);
    plan.product.alignment = plan.alignment;
    blas.prepare(plan.product);
    return plan;
  }
  if (isGroupedProduct(kernel)) {
    plan.kind = Kind::Grouped;
    plan.grouped = grouped->plan(kernel.op, op.operands, plan.alignment);
    shapes = std::max(shapes, plan.grouped->shapesBytes());
    return plan;
  }
  std::string name = deviceKernelName(kernel, op.operands);
  if (name.empty() && kernel.op.rfind("attention", 0) == 0) {
    plan.kind = Kind::Attention;
    needVectors();
    plan.attention = &attentionOf(kernel, op);
    return plan;
  }
  if (name.empty())
    fail("kernel '" + kernel.name + "': CUDA's library has no '" + kernel.op +
         "'; its code is generated where the module has a moe.kernel @" +
         kernel.name);
  plan.arguments = argumentsOf(kernel, op);
  find(library, name);
  plan.grid = deviceGrid(kernel, plan.arguments);
  return plan;
}

std::string Launcher::describe(const LaunchPlan &plan) const {
  switch (plan.kind) {
  case LaunchPlan::Kind::Generated:
    return "generated";
  case LaunchPlan::Kind::Device:
    return "device library";
  case LaunchPlan::Kind::Product:
    return "cuBLASLt";
  case LaunchPlan::Kind::Grouped:
    return plan.grouped->name();
  case LaunchPlan::Kind::Attention:
    return "cuDNN: " + plan.attention->engine();
  }
  return ""; // Not reached.
}

//===----------------------------------------------------------------------===//
// Launching
//===----------------------------------------------------------------------===//

void Launcher::launch(const LaunchPlan &plan, const Kernel &kernel,
                      const Op &op, void *const *pointers,
                      const std::vector<int32_t> *rows, const Scratch &scratch,
                      cudaStream_t stream) {
  switch (plan.kind) {
  case LaunchPlan::Kind::Generated: {
    // As many operands as were fused.
    std::vector<void *> parameters;
    for (size_t i = 0; i < op.operands.size(); ++i)
      parameters.push_back(const_cast<void **>(pointers + i));
    launchKernel(plan.kernel, plan.grid, parameters.data(), stream);
    return;
  }
  case LaunchPlan::Kind::Device: {
    Arguments arguments = plan.arguments;
    std::copy_n(pointers, op.operands.size(), arguments.pointers);
    arguments.scratch = scratch.zeros;
    void *parameters[] = {&arguments};
    launchKernel(plan.kernel, plan.grid, parameters, stream);
    return;
  }
  case LaunchPlan::Kind::Product:
    blas.multiply(plan.product, pointers[plan.a], pointers[plan.b],
                  pointers[plan.c], scratch.memory, stream);
    return;
  case LaunchPlan::Kind::Grouped:
    plan.grouped->launch(pointers, rows, scratch, stream);
    return;
  case LaunchPlan::Kind::Attention: {
    ::check(cudnnSetStream(dnn, stream), "cudnnSetStream");
    std::string problem = plan.attention->launch(dnn, pointers, scratch.memory);
    if (!problem.empty())
      fail("kernel '" + kernel.name + "': " + problem);
    return;
  }
  }
}
