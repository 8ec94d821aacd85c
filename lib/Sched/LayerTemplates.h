//===- LayerTemplates.h - A layer of the kernels phase, as templates ------===//

#ifndef MOE_LIB_SCHED_LAYERTEMPLATES_H
#define MOE_LIB_SCHED_LAYERTEMPLATES_H

#include "dialects/Moe/MoeOps.h"
#include "moe/Table/Table.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace mlir::moe::sched_lowering {

/// Names of a layer's frames; a stage binds them by these.
namespace frame {
inline constexpr StringLiteral weights = "weights";
inline constexpr StringLiteral expertWeights = "expert_weights";
inline constexpr StringLiteral gradients = "gradients";
inline constexpr StringLiteral expertGradients = "expert_gradients";
inline constexpr StringLiteral tiedWeights = "tied_weights";
inline constexpr StringLiteral tiedGradients = "tied_gradients";
inline constexpr StringLiteral saved = "saved";
inline constexpr StringLiteral host = "host";
inline constexpr StringLiteral temp = "temp";
inline constexpr StringLiteral in = "in";
inline constexpr StringLiteral out = "out";
inline constexpr StringLiteral dout = "dout";
inline constexpr StringLiteral din = "din";
inline constexpr StringLiteral ids = "ids";
inline constexpr StringLiteral labels = "labels";
inline constexpr StringLiteral loss = "loss";
inline constexpr StringLiteral flag = "flag";
} // namespace frame

/// Where a parameter of a layer lies.
struct ParamPlace {
  ParamOp op;
  /// Stacked over experts: reduced over edp, in the experts' bucket.
  bool expert = false;
  /// The same parameter as one of an earlier layer, which holds it.
  bool tied = false;
  /// Offset among the layer's parameters of its bucket, in elements.
  int64_t element = 0;
};

/// A layer, lowered: one op of a template for each call and collective.
struct LayerTemplates {
  LayerOp layer;
  std::string name;
  /// Type of the carried argument and result.
  RankedTensorType inType, outType;
  uint32_t forward = 0, backward = 0;
  /// Parameters by key, in order of declaration.
  llvm::MapVector<StringRef, ParamPlace> params;
  /// Elements of all parameters in the dense and the experts' bucket.
  int64_t denseElements = 0, expertElements = 0;
  int64_t savedBytes = 0, hostBytes = 0;
  /// Bytes of the carried argument and result (0: none).
  int64_t inBytes = 0, outBytes = 0;
  /// Parameters that an earlier layer holds.
  int64_t tiedParams = 0;
  ParamOp firstTied() const {
    for (const auto &[key, place] : params)
      if (place.tied)
        return place.op;
    return {};
  }
  /// Exchanges rows between ranks: worth pairing.
  bool exchanges = false;
};

/// Elements of a bucket are aligned so that vector loads are.
inline constexpr int64_t kElementAlignment = 64;
inline constexpr int64_t kByteAlignment = 256;

inline int64_t alignTo(int64_t value, int64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

/// Element type of the table; an error at `loc` for one it has not.
FailureOr<moert::ElementType> tableType(Type type, Location loc);

/// Index of each `moe.kernel` in table.kernels, by symbol.
using KernelIndex = llvm::StringMap<uint32_t>;

/// Adds the module's kernels to the table.
LogicalResult lowerKernels(ModuleOp module, moert::Table &table,
                           KernelIndex &index);

/// Lowers a layer: appends its forward and backward to table.templates, all
/// on one stream in program order, no byte of a temporary used twice.
/// `earlier`: keys of parameters that earlier layers hold. `communicators`:
/// index by axis.
FailureOr<LayerTemplates>
lowerLayer(LayerOp layer, moert::Table &table, const KernelIndex &kernels,
           const llvm::StringMap<uint32_t> &communicators,
           const llvm::StringSet<> &earlier);

} // namespace mlir::moe::sched_lowering

#endif // MOE_LIB_SCHED_LAYERTEMPLATES_H
