// The examples of the dialect's documentation, in jobs that they fit; the test
// test/Layout/dialects.test compares them with the documentation.
// RUN: moe-opt %s -split-input-file | moe-opt -split-input-file | FileCheck %s

// CHECK-LABEL: sched.job "template"
sched.job "template" target "h100x16" ranks(16) micro_batches(8)
    sequence(16) data_parallel(16) vocabulary(64) {
  sched.stream @compute
  // CHECK: sched.communicator @dp size(16)
  sched.communicator @dp size(16)
  sched.kernel @linear "linear"(read, read, write) row_invariant
  // CHECK: sched.template @forward(%w: weights<8192>, %x: carried<2048>, %scratch_space "scratch space": temporary<4096>) imports(%ready) {
  sched.template @forward(%w: weights<8192>, %x: carried<2048>,
                          %temp "scratch space": temporary<4096>) imports(%ready) {
    %a = sched.buffer %x[0] : tensor<16x32xf32>
    %b = sched.buffer %w[0] : tensor<64x32xf32>
    %c = sched.buffer %temp[0] : tensor<16x64xf32>
    %done = sched.launch @linear on @compute(%a, %b, out %c) after(%ready)
    sched.yield %done
  }
}

// -----

// CHECK-LABEL: sched.job "program"
sched.job "program" target "h100x16" ranks(16) micro_batches(8)
    sequence(16) data_parallel(16) vocabulary(64) {
  sched.stream @compute
  sched.communicator @dp size(16)
  sched.kernel @k "k"(read, write) row_invariant
  sched.template @start(%w: weights, %x: carried, %t: temporary) {
    %a = sched.buffer %w : tensor<4xf32>
    %b = sched.buffer %x : tensor<4xf32>
    %done = sched.launch @k on @compute(%a, out %b)
    sched.yield %done
  }
  sched.template @forward(%w: weights, %x: carried, %t: temporary) imports(%ready) {
  }
  // CHECK: sched.program @stage0 ranks(0, 16) arena(65536)
  // CHECK: %[[START:.*]] = sched.call @start at [8256, 16384, 32768] layer(0) mb(0)
  // CHECK-NEXT: sched.call @forward at [8256, 18432, 32768] after(%[[START]]) layer(1) mb(0)
  sched.program @stage0 ranks(0, 16) arena(65536) tokens(0) labels(4096)
      loss(8192) grad_norm(8196) flag(8200) step(8204) {
    sched.parameter ["model.norm.weight"] : tensor<32xf32> stored [32]
        at(8256) gradient(8384) init ones
    sched.bucket "dense" over @dp elements(32) weights(8256) gradients(8384)
        master(8512) moment1(8528) moment2(8544)
    %0 = sched.call @start at [8256, 16384, 32768] layer(0) mb(0)
    sched.call @forward at [8256, 18432, 32768] after(%0) layer(1) mb(0)
  }
}

// -----

// CHECK-LABEL: sched.job "ops"
sched.job "ops" target "h100x64" ranks(64) micro_batches(8)
    sequence(16) data_parallel(16) vocabulary(64) {
  sched.stream @compute
  // CHECK: sched.stream @comm priority(1)
  sched.stream @comm priority(1)
  sched.stream @p2p
  // CHECK-NEXT: sched.stream @p2p
  // CHECK-NEXT: sched.communicator @ep size(16) sms(20)
  // CHECK-NEXT: sched.communicator @pp size(4) stride(16)
  sched.communicator @ep size(16) sms(20)
  sched.communicator @pp size(4) stride(16)
  sched.communicator @dp size(16)
  // CHECK: sched.kernel @rms_norm_0 "rms_norm"(read, read, write) row_invariant flops(2.048000e+03) bytes(4.224000e+03) numbers {eps = 9.9999999999999995E-7 : f64}
  sched.kernel @rms_norm_0 "rms_norm"(read, read, write) row_invariant
      flops(2.048e+03) bytes(4.224e+03) numbers {eps = 1.0e-06 : f64}
  sched.kernel @linear_0 "linear"(read, read, write) row_invariant
  sched.kernel @route_0 "route"(read, write, write) row_invariant
  sched.template @layer(%saved: saved, %temp: temporary, %host: host) imports(%ready) {
    // CHECK: sched.buffer %saved[128] : tensor<16x32xf32>
    // CHECK: sched.buffer %temp : tensor<16x64xbf16>
    %x = sched.buffer %saved[128] : tensor<16x32xf32>
    %y = sched.buffer %temp : tensor<16x64xbf16>
    %w = sched.buffer %temp : tensor<64x32xf32>
    %logits = sched.buffer %temp : tensor<16x64xf32>
    %probs = sched.buffer %temp : tensor<16x2xf32>
    %experts = sched.buffer %temp : tensor<16x2xi32>
    %counts = sched.buffer %temp : tensor<64xi32>
    %host_counts = sched.buffer %host : tensor<64xi32>
    %send = sched.buffer %host : tensor<64xi32>
    %recv = sched.buffer %host : tensor<64xi32>
    %flag = sched.buffer %temp : tensor<i32>
    // CHECK: sched.launch @linear_0 on @compute({{.*}}) after(%ready) half "F" module "attn" at "layers.{i}.self_attn.q_proj mb {mb}"
    %q = sched.launch @linear_0 on @compute(%x, %w, out %y) after(%ready)
        half "F" module "attn" at "layers.{i}.self_attn.q_proj mb {mb}"
    // CHECK: %[[ROUTED:.*]] = sched.capture "moe_router" {
    // CHECK: sched.yield
    %routed = sched.capture "moe_router" {
      %done = sched.launch @route_0 on @compute(%logits, out %probs, out %experts)
      sched.yield %done
    }
    // CHECK: sched.host_read on @comm({{.*}}) after(%[[ROUTED]])
    sched.host_read on @comm(%counts, out %host_counts) after(%routed)
    %permuted = sched.launch @linear_0 on @compute(%x, %w, out %y) after(%q)
    // CHECK: sched.collective all_to_all over @ep on @comm({{.*}}) after({{.*}}) bytes(3.276800e+04) at "layers.{i}.mlp/dispatch mb {mb}"
    sched.collective all_to_all over @ep on @comm(%x, %send, %recv, inout %flag, out %y)
        after(%permuted) bytes(3.2768e+04) at "layers.{i}.mlp/dispatch mb {mb}"
    %combined = sched.launch @linear_0 on @compute(%x, %w, out %y)
    %wgrad = sched.launch @linear_0 on @compute(%x, %w, out %y)
    sched.yield %combined, %wgrad
  }
  sched.template @transfer(%f: carried) imports(%ready) {
    %x = sched.buffer %f : tensor<16x32xf32>
    // CHECK: %[[H:.*]] = sched.recv peer(-1) over @pp on @p2p(out %[[X:.*]]) at "recv mb {mb}"
    %h = sched.recv peer(-1) over @pp on @p2p(out %x) at "recv mb {mb}"
    sched.yield %h
  }
  sched.template @onward(%f: carried) imports(%ready) {
    %h = sched.buffer %f : tensor<16x32xf32>
    // CHECK: sched.send peer(1) over @pp on @p2p(%[[X:.*]]) after(%ready) at "send mb {mb}"
    sched.send peer(1) over @pp on @p2p(%h) after(%ready) at "send mb {mb}"
  }
  sched.template @forward(%w: weights, %x: carried) imports(%ready) {
  }
  sched.template @pair(%w: weights, %x: carried, %y: carried) imports(%f, %b) {
    sched.yield %f, %b
  }
  sched.template @first(%x: carried) {
    %a = sched.buffer %x : tensor<4xf32>
    %m = sched.recv peer(-1) over @pp on @p2p(out %a)
    %n = sched.recv peer(-1) over @pp on @p2p(out %a)
    sched.yield %m, %n
  }
  sched.program @stage0 ranks(0, 64) {
    // CHECK: sched.parameter ["experts.0.w", "experts.1.w"] : tensor<1x64x32xbf16> stored [64, 32] over @ep at(4096) gradient(16384) init normal
    sched.parameter ["experts.0.w", "experts.1.w"] : tensor<1x64x32xbf16>
        stored [64, 32] over @ep at(4096) gradient(16384) init normal
    sched.bucket "dense" over @dp elements(4096) weights(0) gradients(16384)
        master(32768) moment1(40960) moment2(49152)
    // CHECK: %[[NONE:.*]] = sched.done
    // CHECK-NEXT: sched.call @forward at [0, 64] after(%[[NONE]])
    %none = sched.done
    sched.call @forward at [0, 64] after(%none)
    %2:2 = sched.call @first at [0]
    // CHECK: sched.call @pair at [0, 4096, 8192] after({{.*}}#0, {{.*}}#1) layer(3) mb(5) backward_layer(40) backward_mb(2)
    %3:2 = sched.call @pair at [0, 4096, 8192] after(%2#0, %2#1) layer(3) mb(5)
        backward_layer(40) backward_mb(2)
  }
}
