//===- CudaEngine.h - The engine on NVIDIA GPUs -----------------*- C++ -*-===//
//
// Runs one rank of a table on one GPU; the other ranks are other processes,
// which all make the same calls. The environment of torchrun, srun, mpirun
// (Open MPI) or mpiexec (MPICH) says which rank this is:
//
//   RANK, WORLD_SIZE, LOCAL_RANK            torchrun, or by hand
//   OMPI_COMM_WORLD_{RANK,SIZE,LOCAL_RANK}  Open MPI
//   PMI_RANK, PMI_SIZE, MPI_LOCALRANKID     MPICH
//   SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID
//
// None of them: rank 0 of 1. Rank 0 listens at MASTER_ADDR (the ranks of one
// machine may leave it out), port MOE_RT_PORT, else MASTER_PORT + 1, else
// 29501.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_CUDAENGINE_H
#define MOE_RUNTIME_CUDAENGINE_H

#include "moe/Runtime/Engine.h"

namespace moert {

struct CudaOptions {
  /// Fat binary of the generated kernels, each `moe_kernel_<name>`.
  const void *image = nullptr;
  size_t imageBytes = 0;
};

/// What this machine lacks to run tables (driver, device, architecture, a
/// library's version), in one line; empty: nothing.
std::string missingForCuda();

/// Null and `error` if something is missing, the environment does not fit the
/// table, or a kernel has no implementation. Waits for all ranks.
std::unique_ptr<Engine> createCudaEngine(const Table &table,
                                         const CudaOptions &options,
                                         std::string &error);

} // namespace moert

#endif // MOE_RUNTIME_CUDAENGINE_H
