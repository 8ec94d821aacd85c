// What the verifiers of the dialect reject.
// RUN: moe-opt %s -split-input-file -verify-diagnostics -allow-unregistered-dialect

sched.job "m" {
  // expected-error@+1 {{unknown kind of frame 'scratch'}}
  sched.template @t(%x: scratch) {
  }
}

// -----

sched.job "m" {
  // expected-error@+1 {{frame 'x' can't have a negative size}}
  sched.template @t(%x: saved<-2>) {
  }
}

// -----

sched.job "m" {
  sched.stream @s
  sched.template @t(%x: saved) {
    %a = sched.buffer %x : tensor<4xf32>
    // expected-error@+1 {{'k' is no sched.kernel of the job and no moe.kernel of the module}}
    sched.launch @k on @s(%a)
  }
}

// -----

sched.job "m" {
  sched.stream @s
  sched.kernel @k "copy"(read, write) deterministic
  sched.template @t(%x: saved) {
    %a = sched.buffer %x : tensor<4xf32>
    // expected-error@+1 {{has 1 buffers, but its kernel takes 2}}
    sched.launch @k on @s(%a)
  }
}

// -----

sched.job "m" {
  sched.stream @s
  sched.kernel @k "copy"(read, write) deterministic
  sched.template @t(%x: saved) {
    %a = sched.buffer %x : tensor<4xf32>
    // expected-error@+1 {{buffer 1 must be write, as its kernel says}}
    sched.launch @k on @s(%a, %a)
  }
}

// -----

// A moe.kernel of the module: two inputs read, then one result written.
moe.kernel @k op "add" {flops = 0.0 : f64, bytes = 0.0 : f64, numbers = {},
    numeric_class = #moe<numeric_class row_invariant>}
    : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
sched.job "m" {
  sched.stream @s
  sched.template @t(%x: saved) {
    %a = sched.buffer %x : tensor<4xf32>
    // expected-error@+1 {{has 2 buffers, but its kernel takes 3}}
    sched.launch @k on @s(%a, out %a)
  }
}

// -----

// Its code may be for these shapes only; rows are their counts.
moe.kernel @k op "swiglu" {flops = 0.0 : f64, bytes = 0.0 : f64, numbers = {},
    numeric_class = #moe<numeric_class row_invariant>}
    : (tensor<8x4xf32>, tensor<8xf32>, !moe.rows<2, mean = 4>) -> tensor<8x2xf32>
sched.job "m" {
  sched.stream @s
  sched.template @t(%x: saved) {
    %x4 = sched.buffer %x : tensor<8x4xf32>
    %x2 = sched.buffer %x : tensor<8x2xf32>
    %scale = sched.buffer %x : tensor<8xf32>
    %counts = sched.buffer %x : tensor<2xi32>
    sched.launch @k on @s(%x4, %scale, %counts, out %x2)
    // expected-error@+1 {{buffer 3 is 'tensor<8x4xf32>', but its kernel takes 'tensor<8x2xf32>'}}
    sched.launch @k on @s(%x4, %scale, %counts, out %x4)
  }
}

// -----

sched.job "m" {
  sched.kernel @k "zero"(write) deterministic
  sched.template @t(%x: saved) {
    %a = sched.buffer %x : tensor<4xf32>
    // expected-error@+1 {{'k' is no sched.stream of the job}}
    sched.launch @k on @k(out %a)
  }
}

// -----

sched.job "m" {
  sched.stream @s
  sched.template @t(%x: saved) {
    %a = sched.buffer %x : tensor<4xf32>
    // expected-error@+1 {{'ep' is no sched.communicator of the job}}
    sched.collective all_gather over @ep on @s(%a, out %a)
  }
}

// -----

sched.job "m" {
  sched.stream @s
  sched.communicator @ep size(2)
  sched.template @t(%x: saved) {
    %a = sched.buffer %x : tensor<4xf32>
    // expected-error@+1 {{needs buffers (x, send counts, receive counts, inout flag, out y)}}
    sched.collective all_to_all over @ep on @s(%a, out %a)
  }
}

// -----

sched.job "m" {
  sched.stream @s
  sched.communicator @pp size(2)
  sched.template @t(%x: saved) {
    %a = sched.buffer %x : tensor<4xf32>
    // expected-error@+1 {{needs buffers (out x)}}
    sched.recv peer(1) over @pp on @s(%a)
  }
}

// -----

sched.job "m" {
  sched.stream @s
  sched.template @t(%x: saved) {
    %a = sched.buffer %x : tensor<4xf32>
    // expected-error@+1 {{needs buffers (x, out y)}}
    sched.host_read on @s(%a)
  }
}

// -----

sched.job "m" {
  sched.template @t(%x: saved) {
    // expected-error@+1 {{can't have a negative offset}}
    %a = sched.buffer %x[-4] : tensor<4xf32>
  }
}

// -----

sched.job "m" {
  sched.template @t(%x: saved) {
    // expected-error@+1 {{needs a static shape without encoding}}
    %a = sched.buffer %x : tensor<?xf32>
  }
}

// -----

sched.job "m" {
  sched.template @t(%x: saved) {
    // expected-error@+1 {{ranked tensor of 32-bit float or bfloat16 type or 32-bit signless integer values}}
    %a = sched.buffer %x : tensor<4xf64>
  }
}

// -----

sched.job "m" {
  sched.kernel @k "zero"(write) deterministic
  sched.template @t(%x: saved) {
    // A capture holds ops that run on streams, nothing else.
    sched.capture "c" {
      // expected-error@+1 {{can't be in a capture}}
      %e = "test.unknown"() : () -> !sched.event
    }
  }
}

// -----

sched.job "m" {
  // expected-error@+1 {{'eps' must be a number}}
  sched.kernel @k "zero"(write) deterministic numbers {eps = "small"}
}

// -----

sched.job "m" {
  // expected-error@+1 {{expected read, write or read_write}}
  sched.kernel @k "zero"(append) deterministic
}

// -----

sched.job "m" {
  sched.template @t(%x: saved, %y: saved) {
  }
  sched.program @p ranks(0, 1) {
    // expected-error@+1 {{has 1 frames, but its template has 2}}
    sched.call @t at [0]
  }
}

// -----

sched.job "m" {
  sched.template @t(%x: saved) imports(%e) {
  }
  sched.program @p ranks(0, 1) {
    // expected-error@+1 {{has 0 imports, but its template has 1}}
    sched.call @t
  }
}

// -----

sched.job "m" {
  sched.template @t(%x: saved) {
  }
  sched.program @p ranks(0, 1) {
    // expected-error@+1 {{has 1 events, but its template has 0}}
    %e = sched.call @t
  }
}

// -----

sched.job "m" {
  // expected-note@+1 {{see existing symbol definition here}}
  sched.stream @a
  // expected-error@+1 {{redefinition of symbol named 'a'}}
  sched.communicator @a size(1)
}

// -----

sched.job "m" {
  // expected-error@+1 {{attribute 'size' failed to satisfy constraint: 64-bit signless integer attribute whose value is positive}}
  sched.communicator @ep size(0)
}

// -----

// Sums of sizes and offsets stay in range.
sched.job "m" {
  // expected-error@+1 {{frame 'x' is too large}}
  sched.template @t(%x: saved<9223372036854775807>) {
  }
}

// -----

sched.job "m" {
  sched.template @t(%x: saved) {
    // expected-error@+1 {{has a shape that is too large}}
    %a = sched.buffer %x : tensor<4294967296x4294967296xf32>
  }
}

// -----

sched.job "m" {
  sched.template @t(%x: saved) {
    // expected-error@+1 {{has an offset that is too large}}
    %a = sched.buffer %x[9223372036854775807] : tensor<4xf32>
  }
}

// -----

sched.job "m" {
  sched.program @p ranks(0, 1) {
    // expected-error@+1 {{has a shape that is too large}}
    sched.parameter ["w"] : tensor<4294967296x4294967296xf32> stored [1] at(0)
        gradient(0) init ones
  }
}

// -----

// A count of events is bounded: memory is reserved for as many as are named.
sched.job "m" {
  sched.template @t(%x: saved) {
  }
  sched.program @p ranks(0, 1) {
    // expected-error@+1 {{has 99999 events, but 65536 at most}}
    %e:99999 = sched.call @t
  }
}
