//===- MoeOps.td - All of the moe dialect ---------------------*- tablegen -*-===//

#ifndef MOE_OPS_TD
#define MOE_OPS_TD

include "dialects/Moe/MoeStructureOps.td"
include "dialects/Moe/MoeComputeOps.td"
include "dialects/Moe/MoeRoutingOps.td"
include "dialects/Moe/MoeCollectiveOps.td"
include "dialects/Moe/MoeKernelOps.td"

#endif // MOE_OPS_TD
