//===- Layout.h - The text form of a layout -------------------------------===//
//
// `--layout="ep=16,pp=2,layers=25,23"`: comma-separated key=value pairs; bare
// numbers continue `layers`.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_IMPORT_LAYOUT_H
#define MOE_IMPORT_LAYOUT_H

#include "dialects/Moe/MoeAttrs.h"
#include "mlir/IR/Diagnostics.h"

namespace mlir::moe {

/// Splits `layers` decoder layers over `stages`: as even as may be when the
/// embedding (first stage) and the loss (last stage) count one layer each. Of
/// the even splits, the one whose layers are most even, and then the one that
/// spares the stages before the last, which hold more micro-batches.
/// Expects stages <= layers + 2 (one: all layers).
SmallVector<int64_t> spreadLayers(int64_t layers, int64_t stages);

/// The layout that `text` asks for, of `gpus` GPUs, `layers` decoder layers
/// and `experts` experts. Emits one error, which names the key, for text that
/// is no layout, values out of range, and values not supported yet.
FailureOr<LayoutAttr> parseLayout(MLIRContext *context, StringRef text,
                                  int64_t gpus, int64_t layers,
                                  int64_t experts);

} // namespace mlir::moe

#endif // MOE_IMPORT_LAYOUT_H
