"""Trains with a shared library of moe-compile through its C ABI.

usage: use_shared.py LIBRARY STEPS WEIGHTS
"""

import ctypes
import sys

path, steps, weights = sys.argv[1:]
library = ctypes.CDLL(path)
library.moe_program_create.restype = ctypes.c_void_p
library.moe_rt_error.restype = ctypes.c_char_p
library.moe_rt_missing.restype = ctypes.c_char_p
library.moe_rt_rank.restype = ctypes.c_int64
library.moe_rt_token_count.restype = ctypes.c_int64
assert library.moe_rt_missing() == b""
error = ctypes.create_string_buffer(1000)
rt = ctypes.c_void_p(library.moe_program_create(None, error, 1000))
assert rt, error.value


def check(status):
    assert status == 0, library.moe_rt_error(rt)


check(library.moe_rt_initialize(rt, ctypes.c_uint64(0)))
count = library.moe_rt_token_count(rt)
tokens = (ctypes.c_int32 * count)()
loss, norm = ctypes.c_float(), ctypes.c_float()
for step in range(int(steps)):
    check(library.moe_rt_random_tokens(rt, ctypes.c_uint64(0), step, tokens))
    check(
        library.moe_rt_step(
            rt,
            tokens,
            ctypes.c_int64(count),
            ctypes.byref(loss),
            ctypes.byref(norm),
        )
    )
    if library.moe_rt_rank(rt) == 0:
        print(f"step {step + 1} loss {loss.value:.9g} grad_norm {norm.value:.9g}")
check(library.moe_rt_save_weights(rt, weights.encode()))
library.moe_rt_destroy(rt)
