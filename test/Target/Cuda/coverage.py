"""Each kernel of a table is listed once by its executable's --kernels; prints
the ops by what runs them.

usage: coverage.py TABLE.json KERNELS
"""

import json
import sys

with open(sys.argv[1]) as file:
    ops = {kernel["name"]: kernel["op"] for kernel in json.load(file)["kernels"]}
by = {}
with open(sys.argv[2]) as file:
    for line in file:
        name, what = line.split(maxsplit=1)
        by.setdefault(what.split(":")[0].strip(), set()).add(ops.pop(name))
for what, names in sorted(by.items()):
    print(f"{what}: {', '.join(sorted(names))}")
if ops:
    sys.exit(f"not listed: {', '.join(ops)}")
known = {"cuBLASLt", "cuBLASLt per expert", "cuDNN", "device library", "generated"}
if set(by) != known:
    sys.exit(f"providers: {', '.join(sorted(by))}")
