// Schedules written by hand that are right. Addresses are left out.
// RUN: moe-opt --sched-verify -split-input-file %s 2>&1 >/dev/null | FileCheck %s

// The gather runs beside the second launch and the copy back waits for both;
// no program: each template is called once.
// CHECK: verified: 4 ops, 4 proofs (race, agreement, memory, capture; value not checked: the module has no kernels-phase program), high-water 7.00 KiB of 1.00 MiB
module attributes {moe.phase = "sched"} {
  sched.job "m" ranks(2) memory_limit(1048576) {
    sched.stream @compute
    sched.stream @comm
    sched.communicator @ep size(2)
    sched.kernel @copy "copy"(read, write) row_invariant
    sched.template @t(%x: carried, %y: carried, %temp: temporary) {
      %a = sched.buffer %x : tensor<256xf32>
      %b = sched.buffer %temp : tensor<256xf32>
      %c = sched.buffer %temp : tensor<512xf32>
      %d = sched.buffer %temp : tensor<256xf32>
      %e = sched.buffer %y : tensor<512xf32>
      %copied = sched.launch @copy on @compute(%a, out %b) at "copy"
      %gathered = sched.collective all_gather over @ep on @comm(%b, out %c) after(%copied) at "gather"
      sched.launch @copy on @compute(%b, out %d) at "again"
      sched.launch @copy on @compute(%c, out %e) after(%gathered) at "back"
    }
  }
}

// -----

// A program with addresses, a capture, and an event from call to call. Kernels
// of the module are kernels of the schedule, too.
// CHECK: verified: 6 ops, 4 proofs {{.*}}, high-water 768 bytes{{$}}
module attributes {moe.phase = "sched"} {
  moe.kernel @scale op "scale" {flops = 0.0 : f64, bytes = 0.0 : f64, numbers = {},
      numeric_class = #moe<numeric_class row_invariant>}
      : (tensor<64xf32>) -> tensor<64xf32>
  sched.job "m" {
    sched.stream @compute
    sched.stream @copy
    sched.template @t(%x: carried, %y: carried) imports(%ready) {
      %a = sched.buffer %x[0] : tensor<64xf32>
      %b = sched.buffer %y[0] : tensor<64xf32>
      %c = sched.buffer %y[256] : tensor<64xf32>
      %first = sched.capture "graph" {
        %done = sched.launch @scale on @compute(%a, out %b) after(%ready)
        sched.launch @scale on @compute(%b, out %c)
        sched.yield %done
      }
      %copied = sched.launch @scale on @copy(%b, out %a) after(%first)
      sched.yield %copied
    }
    sched.program @p ranks(0, 1) {
      sched.parameter ["x"] : tensor<64xf32> stored [64] at(0) gradient(0) init normal
      %none = sched.done
      %0 = sched.call @t at [0, 256] after(%none)
      %1 = sched.call @t at [0, 256] after(%0)
    }
  }
}

// -----

// Of three temporary buffers in a row the first and the last share bytes:
// 1 KiB for each of x and y, 2 KiB for the temporary frame.
// CHECK: verified: 4 ops, {{.*}} high-water 4.00 KiB{{$}}
module attributes {moe.phase = "sched"} {
  sched.job "m" {
    sched.stream @compute
    sched.kernel @copy "copy"(read, write) row_invariant
    sched.template @t(%x: carried, %y: carried, %temp: temporary) {
      %a = sched.buffer %x : tensor<256xf32>
      %b = sched.buffer %temp : tensor<256xf32>
      %c = sched.buffer %temp : tensor<256xf32>
      %d = sched.buffer %temp : tensor<256xf32>
      %e = sched.buffer %y : tensor<256xf32>
      sched.launch @copy on @compute(%a, out %b)
      sched.launch @copy on @compute(%b, out %c)
      sched.launch @copy on @compute(%c, out %d)
      sched.launch @copy on @compute(%d, out %e)
    }
  }
}
