// Every op of the dialect prints as it was written, also by way of the generic
// form.
// RUN: moe-opt %s | moe-opt | FileCheck %s
// RUN: moe-opt %s --mlir-print-op-generic | moe-opt | FileCheck %s

// CHECK: sched.job "tiny" target "h100x4" ranks(4) micro_batches(8) micro_batch_samples(2) sequence(16) data_parallel(2) vocabulary(64) init_std(1.000000e-01) memory_limit(65536) {
sched.job "tiny" target "h100x4" ranks(4) micro_batches(8)
    micro_batch_samples(2) sequence(16) data_parallel(2) vocabulary(64)
    init_std(0.1) memory_limit(65536) {
  // CHECK-NEXT: sched.stream @compute{{$}}
  sched.stream @compute
  // CHECK-NEXT: sched.stream @comm priority(-1)
  sched.stream @comm priority(-1)
  // CHECK-NEXT: sched.communicator @ep size(2){{$}}
  sched.communicator @ep size(2)
  // CHECK-NEXT: sched.communicator @pp size(2) stride(2) sms(20)
  sched.communicator @pp size(2) stride(2) sms(20)
  // CHECK-NEXT: sched.kernel @norm "rms_norm"(read, read, write) row_invariant flops(1.000000e+03) bytes(2.500000e-01) numbers {eps = 9.9999999999999995E-7 : f64}
  sched.kernel @norm "rms_norm"(read, read, write) row_invariant flops(1.0e+03)
      bytes(0.25) numbers {eps = 1.0e-6 : f64}
  // CHECK-NEXT: sched.kernel @fused "k"(read_write) generated non_deterministic{{$}}
  sched.kernel @fused "k"(read_write) generated non_deterministic

  // Frames and imports keep their names; those that are no SSA names stand
  // apart. An op has a result only where something waits for it.
  // CHECK-LABEL: sched.template @forward(%x: carried<4096>, %the_weights "the weights": weights, %host: host<64>, %flag: global<4>) imports(%ready, %a_b "a b") {
  sched.template @forward(%x: carried<4096>, %0 "the weights": weights,
                          %host: host<64>, %flag: global<4>)
      imports(%ready, %e "a b") {
    // CHECK: %[[X:.*]] = sched.buffer %x[0] : tensor<16x32xf32>
    %a = sched.buffer %x[0] : tensor<16x32xf32>
    // CHECK: %[[W:.*]] = sched.buffer %the_weights : tensor<32xbf16>
    %w = sched.buffer %0 : tensor<32xbf16>
    // CHECK: %[[Y:.*]] = sched.buffer %x[2048] : tensor<16x32xf32>
    %y = sched.buffer %x[2048] : tensor<16x32xf32>
    // CHECK: %[[N:.*]] = sched.buffer %host[0] : tensor<4xi32>
    %n = sched.buffer %host[0] : tensor<4xi32>
    // CHECK: %[[F:.*]] = sched.buffer %flag[0] : tensor<i32>
    %f = sched.buffer %flag[0] : tensor<i32>
    // CHECK: %[[G:.*]]:2 = sched.capture "moe_router" {
    %g:2 = sched.capture "moe_router" {
      // CHECK-NEXT: %[[L:.*]] = sched.launch @norm on @compute(%[[X]], %[[W]], out %[[Y]]) after(%ready, %a_b) half "F" module "norm" at "layers.{i}.norm mb {mb}"
      %done = sched.launch @norm on @compute(%a, %w, out %y) after(%ready, %e)
          half "F" module "norm" at "layers.{i}.norm mb {mb}"
      // CHECK-NEXT: %[[M:.*]] = sched.launch @fused on @compute(inout %[[Y]]) after(%[[L]])
      %more = sched.launch @fused on @compute(inout %y) after(%done)
      // CHECK-NEXT: sched.yield %[[L]], %[[M]]
      sched.yield %done, %more
    }
    // CHECK: sched.host_read on @comm(%[[N]], out %[[N]]) after(%[[G]]#1)
    sched.host_read on @comm(%n, out %n) after(%g#1)
    // CHECK-NEXT: %[[A:.*]] = sched.collective all_to_all over @ep on @comm(%[[X]], %[[N]], %[[N]], inout %[[F]], out %[[Y]]) bytes(2.048000e+03)
    %moved = sched.collective all_to_all over @ep on @comm(%a, %n, %n, inout %f, out %y) bytes(2048.0)
    // CHECK-NEXT: sched.collective exchange_counts over @ep on @comm(%[[N]], out %[[N]])
    sched.collective exchange_counts over @ep on @comm(%n, out %n)
    // CHECK-NEXT: sched.collective all_reduce_sum
    sched.collective all_reduce_sum over @ep on @comm(%a, out %y)
    // CHECK-NEXT: sched.collective all_reduce_max
    sched.collective all_reduce_max over @ep on @comm(%n, out %n)
    // CHECK-NEXT: sched.collective reduce_scatter
    sched.collective reduce_scatter over @ep on @comm(%a, out %y)
    // CHECK-NEXT: sched.collective all_gather
    sched.collective all_gather over @ep on @comm(%a, out %y)
    // CHECK-NEXT: sched.send peer(1) over @pp on @comm(%[[Y]]) after(%[[A]])
    sched.send peer(1) over @pp on @comm(%y) after(%moved)
    // CHECK-NEXT: sched.recv peer(-1) over @pp on @comm(out %[[Y]])
    sched.recv peer(-1) over @pp on @comm(out %y)
    // CHECK-NEXT: sched.yield %[[A]], %[[G]]#0
    sched.yield %moved, %g#0
  }
  // A template may issue nothing.
  // CHECK-LABEL: sched.template @nothing() {
  // CHECK-NEXT: }
  sched.template @nothing() {
  }

  // CHECK-LABEL: sched.program @stage0 ranks(0, 2) arena(65536) tokens(0) labels(4096) loss(8192) grad_norm(8196) flag(8200) step(8204) {
  sched.program @stage0 ranks(0, 2) arena(65536) tokens(0) labels(4096)
      loss(8192) grad_norm(8196) flag(8200) step(8204) {
    // CHECK-NEXT: sched.parameter ["norm.weight"] : tensor<32xf32> stored [32] at(8256) gradient(8384) init ones
    sched.parameter ["norm.weight"] : tensor<32xf32> stored [32] at(8256)
        gradient(8384) init ones
    // CHECK-NEXT: sched.parameter ["e.0", "e.1"] : tensor<1x8x4xbf16> stored [8, 4] over @ep at(8512) gradient(8640) init normal
    sched.parameter ["e.0", "e.1"] : tensor<1x8x4xbf16> stored [8, 4] over @ep
        at(8512) gradient(8640) init normal
    // CHECK-NEXT: sched.bucket "dense" over @ep elements(32) weights(8256) gradients(8384) master(8512) moment1(8528) moment2(8544)
    sched.bucket "dense" over @ep elements(32) weights(8256) gradients(8384)
        master(8512) moment1(8528) moment2(8544)
    // CHECK-NEXT: %[[DONE:.*]] = sched.done
    %done = sched.done
    // CHECK-NEXT: %[[C:.*]]:2 = sched.call @forward at [0, 4096, 8192, 8200] after(%[[DONE]], %[[DONE]]) layer(3) mb(5) backward_layer(40) backward_mb(2)
    %c:2 = sched.call @forward at [0, 4096, 8192, 8200] after(%done, %done)
        layer(3) mb(5) backward_layer(40) backward_mb(2)
    // CHECK-NEXT: %{{.*}}:2 = sched.call @forward after(%[[C]]#0, %[[C]]#1)
    %d:2 = sched.call @forward after(%c#0, %c#1)
    // CHECK-NEXT: sched.call @nothing{{$}}
    sched.call @nothing
  }
  // CHECK: sched.program @stage1 ranks(2, 2) {
  sched.program @stage1 ranks(2, 2) {
  }
}
