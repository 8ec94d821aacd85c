"""Compares two results within a tolerance of test/unit/Tolerances.h.

usage: compare.py TOLERANCE EXPECTED GOT [loss | grad_norm]

Files of tensors (.safetensors): each tensor's largest difference, over the
largest magnitude of the expected one; both must have the same names and
shapes. Else losses (or norms of gradients): EXPECTED is a golden's losses.json
or, like GOT, lines `step N loss X grad_norm Y`, N from 1; each line's relative
difference. Prints the largest and exits with 1 if it exceeds the tolerance.
"""

import array
import json
import math
import pathlib
import re
import struct
import sys

HEADER = pathlib.Path(__file__).resolve().parent.parent / "unit/Tolerances.h"


def tolerance(name):
    text = HEADER.read_text()
    found = re.search(rf"double {re.escape(name)} = ([0-9.e+-]+);", text)
    if not found:
        sys.exit(f"error: {HEADER.name} has no {name}")
    return float(found[1])


def read_tensors(path):
    data = pathlib.Path(path).read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    tensors = {}
    for name, entry in json.loads(data[8 : 8 + size]).items():
        if name == "__metadata__":
            continue
        if entry["dtype"] != "F32":
            sys.exit(f"error: {path}: {name} is {entry['dtype']}, not F32")
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        tensors[name] = (entry["shape"], array.array("f", data[begin:end]))
    return tensors


def read_steps(path, key):
    text = pathlib.Path(path).read_text()
    if path.endswith(".json"):
        return json.loads(text)["losses" if key == "loss" else "grad_norms"]
    found = re.findall(rf"^step (\d+) .*?\b{key} (\S+)", text, re.M)
    if [int(step) for step, _ in found] != list(range(1, len(found) + 1)):
        sys.exit(f"error: {path}: steps are not 1, 2, ...")
    return [float(value) for _, value in found]


def differences(expected, got, key):
    """Pairs of a name and its relative difference."""
    if expected.endswith(".safetensors"):
        a, b = read_tensors(expected), read_tensors(got)
        if a.keys() != b.keys():
            sys.exit(f"error: names differ: {sorted(a.keys() ^ b.keys())}")
        for name, (shape, values) in a.items():
            if shape != b[name][0]:
                sys.exit(f"error: {name}: {shape} and {b[name][0]}")
            scale = max(map(abs, values))
            far = max(abs(x - y) for x, y in zip(values, b[name][1]))
            # A tensor of zeros (of an expert without tokens) must be zeros.
            yield name, far / scale if scale else math.inf if far else 0.0
    else:
        a, b = read_steps(expected, key), read_steps(got, key)
        if not a or len(a) != len(b):
            sys.exit(f"error: {len(a)} steps and {len(b)}")
        for i, (x, y) in enumerate(zip(a, b)):
            yield f"{key} of step {i + 1}", abs(x - y) / abs(x)


def main():
    name, expected, got, *key = sys.argv[1:]
    limit = tolerance(name)
    worst = None
    for what, difference in differences(expected, got, *(key or ["loss"])):
        # NaN is above every limit.
        if worst is None or not difference <= worst[1]:
            worst = what, difference
        if math.isnan(difference):
            break
    ok = worst[1] <= limit
    print(
        f"{'within' if ok else 'beyond'} {name} = {limit:g}: "
        f"{worst[1]:.3g} at {worst[0]}"
    )
    return not ok


if __name__ == "__main__":
    sys.exit(main())
