//===- All.h - The classes that Kernels.def names ---------------*- C++ -*-===//

#ifndef MOE_LIB_RUNTIME_CUDA_KERNELS_ALL_H
#define MOE_LIB_RUNTIME_CUDA_KERNELS_ALL_H

#include "Attention.h"
#include "Routing.h"
#include "Rows.h"
#include "Shapes.h"
#include "Sums.h"

#endif // MOE_LIB_RUNTIME_CUDA_KERNELS_ALL_H
