// What the host reads, once in forward: with an exchange (ep > 1) its counts,
// without one the rows of the experts. Backward and what it recomputes know
// them. Beside the read the rows are permuted, in a graph or not.
// DEFINE: %{layout} =
// DEFINE: %{flags} =
// DEFINE: %{schedule} = moe-translate --import-hf %moe_src/test/Import/Inputs/qwen3-30b-a3b.json \
// DEFINE:   --target=gb200x8 --layout=%{layout},dp=2,pp=4,global_batch=16 -o %t.model.mlir && \
// DEFINE:   moe-opt %{flags} %t.model.mlir -o %t.mlir 2>%t.err
// DEFINE: %{check} = FileCheck %s --implicit-check-not="sched.host_read" --input-file=%t.mlir

// REDEFINE: %{layout} = ep=1
// REDEFINE: %{flags} = --schedule=serial
// RUN: %{schedule} && %{check} --check-prefixes=ROWS,SERIAL
// REDEFINE: %{flags} = --schedule=1f1b --cuda-graph=moe_router,moe_preprocess
// RUN: %{schedule} && %{check} --check-prefixes=ROWS,GRAPH
// REDEFINE: %{flags} = --schedule=paired --recompute=moe,norm
// RUN: %{schedule} && %{check} --check-prefixes=ROWS,BESIDE
// REDEFINE: %{flags} = --overlap-ep --recompute=moe
// RUN: %{schedule} && %{check} --check-prefixes=ROWS,BESIDE
// RUN: FileCheck %s --check-prefix=PROOF < %t.err
// REDEFINE: %{layout} = ep=2
// REDEFINE: %{flags} = --schedule=1f1b --recompute=moe
// RUN: %{schedule} && %{check} --check-prefix=COUNTS
// REDEFINE: %{flags} = --overlap-ep --recompute=moe,norm
// RUN: %{schedule} && %{check} --check-prefixes=COUNTS,PAIR

// ROWS: sched.template @decoder_fwd(
// ROWS-SAME: %host: host<512>
// SERIAL: sched.launch @permutation_0 on @compute(%{{[a-z0-9_.]+}}, out %{{[a-z0-9_.]+}}, out %[[SOURCE:[a-z0-9_.]+]])
// SERIAL: sched.host_read on @compute(%[[SOURCE]], out %host.0) half "F" module "moe_experts" bytes(5.120000e+02) at "layers.{i}.mlp.experts.gate_up_proj/counts"
// GRAPH: %F_moe_router = sched.capture
// GRAPH: sched.launch @permutation_0
// GRAPH: sched.launch @permute_0
// GRAPH: sched.host_read on @comm(%{{[a-z0-9_.]+}}, out %host.0) after(%F_moe_router)
// BESIDE: %permutation_0 = sched.launch @permutation_0
// BESIDE: sched.launch @permute_0
// BESIDE: sched.host_read on @comm(%{{[a-z0-9_.]+}}, out %host.0) after(%permutation_0)
// ROWS-NEXT: sched.launch @grouped_linear_0
// ROWS: sched.template @decoder_bwd
// ROWS: sched.launch @grouped_linear_dgrad_0
// PROOF: verified: {{[0-9]+}} ops, 5 proofs
// COUNTS: sched.template @decoder_fwd
// COUNTS-COUNT-2: sched.host_read on @comm({{.*}} module "moe_dispatch" {{.*}} at "layers.{i}.mlp.dispatch/counts"
// COUNTS: sched.template @decoder_bwd
// PAIR: sched.template @pair_decoder_fwd_decoder_bwd
// PAIR-COUNT-2: sched.host_read on @comm({{.*}} module "moe_dispatch" {{.*}} at "layers.{i}.mlp.dispatch/counts"
