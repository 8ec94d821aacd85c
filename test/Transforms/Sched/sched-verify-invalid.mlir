// Schedules written by hand with one fault for each proof, told at the ops.
// RUN: moe-opt --sched-verify -split-input-file -verify-diagnostics %s

// Race: the second launch does not wait for the first, on another stream.
module attributes {moe.phase = "sched"} {
  sched.job "m" {
    sched.stream @compute
    sched.stream @comm
    sched.kernel @copy "copy"(read, write) row_invariant
    sched.template @t(%x: carried, %y: temporary) {
      %a = sched.buffer %x : tensor<4xf32>
      %b = sched.buffer %y : tensor<4xf32>
      %c = sched.buffer %y : tensor<4xf32>
      // expected-note@+1 {{the other op}}
      sched.launch @copy on @compute(%a, out %b) at "first"
      // expected-error@+1 {{race: 'second' on stream comm}}
      sched.launch @copy on @comm(%b, out %c) at "second"
    }
  }
}

// -----

// Agreement: stage 1 sends what stage 0 does not receive.
module attributes {moe.phase = "sched"} {
  sched.job "m" ranks(2) {
    sched.stream @compute
    sched.communicator @pp size(2)
    sched.kernel @zero "zero"(write) row_invariant
    sched.template @zero_only(%x: carried) {
      %a = sched.buffer %x : tensor<4xf32>
      sched.launch @zero on @compute(out %a)
    }
    sched.template @send(%x: carried) {
      %a = sched.buffer %x : tensor<4xf32>
      sched.launch @zero on @compute(out %a)
      // expected-error@+1 {{agreement:}}
      sched.send peer(-1) over @pp on @compute(%a) at "send"
    }
    sched.program @stage0 ranks(0, 1) {
      sched.call @zero_only
    }
    sched.program @stage1 ranks(1, 1) {
      sched.call @send
    }
  }
}

// -----

// Memory: the arena is larger than the limit.
// expected-error@+1 {{memory: the arena has 4096 bytes, the limit is 1024}}
module attributes {moe.phase = "sched"} {
  sched.job "m" memory_limit(1024) {
    sched.stream @compute
    sched.kernel @zero "zero"(write) row_invariant
    sched.template @t(%x: carried) {
      %a = sched.buffer %x : tensor<1024xf32>
      sched.launch @zero on @compute(out %a)
    }
  }
}

// -----

// Capture: a host read can't be in a graph.
module attributes {moe.phase = "sched"} {
  sched.job "m" {
    sched.stream @compute
    sched.template @t(%x: carried, %h: host) {
      %a = sched.buffer %x : tensor<4xi32>
      %b = sched.buffer %h : tensor<4xi32>
      sched.capture "graph" {
        // expected-error@+1 {{capture:}}
        sched.host_read on @compute(%a, out %b) at "read"
      }
    }
  }
}

// -----

// expected-error@+1 {{expected a module in phase sched, but it is in phase kernels}}
module attributes {moe.phase = "kernels"} {
}

// -----

// expected-error@+1 {{has no sched.job; run moe-opt to schedule it}}
module attributes {moe.phase = "sched"} {
}

// -----

module attributes {moe.phase = "sched"} {
  // expected-note@+1 {{the first one}}
  sched.job "m" {
  }
  // expected-error@+1 {{is a second sched.job}}
  sched.job "n" {
  }
}

// -----

// What only the table can tell: a buffer outside of its frame.
module attributes {moe.phase = "sched"} {
  // expected-error@+1 {{template 't', op 0 (zero): an operand leaves its frame}}
  sched.job "m" {
    sched.stream @compute
    sched.kernel @zero "zero"(write) row_invariant
    sched.template @t(%x: carried<8>) {
      %a = sched.buffer %x[4] : tensor<4xf32>
      sched.launch @zero on @compute(out %a) at "zero"
    }
  }
}

// -----

module attributes {moe.phase = "sched"} {
  sched.job "m" {
    sched.stream @compute
    sched.template @t() imports(%e) {
      // expected-error@+1 {{can only yield events of the template's own ops}}
      sched.yield %e
    }
  }
}
