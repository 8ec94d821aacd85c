"""Checks that test/Dialect/<Name>/ops*.mlir hold each op of dialects/<Name>,
and, up to white space, each whole example of the ops' descriptions.

usage: check_dialects.py LLVM_TBLGEN SOURCE_ROOT INCLUDE_DIR...
"""
import json
import pathlib
import re
import subprocess
import sys

EXAMPLE = re.compile(r"```mlir\n(.*?)```", re.S)


def squeeze(text):
    return " ".join(text.split())


tblgen, root = sys.argv[1], pathlib.Path(sys.argv[2])
flags = [arg for include in sys.argv[3:] for arg in ("-I", include)]
missing = []
for td in sorted((root / "dialects").glob("*/*Ops.td")):
    name = td.parent.name
    if td.name != f"{name}Ops.td":
        continue
    tests = sorted((root / "test/Dialect" / name).glob("ops*.mlir"))
    text = squeeze("".join(test.read_text() for test in tests))
    records = json.loads(
        subprocess.check_output([tblgen, "--dump-json", str(td), *flags])
    )
    for record in map(records.get, records["!instanceof"]["Op"]):
        op = f"{name.lower()}.{record['opName']}"
        if not re.search(rf"{re.escape(op)}\b(?!\.)", text):
            missing.append(f"{op}: not in ops*.mlir")
        for example in EXAMPLE.findall(record["description"] or ""):
            if "..." not in example and squeeze(example) not in text:
                missing.append(f"{op}: ops*.mlir lack the example\n{example}")
print("\n".join(missing))
sys.exit(bool(missing))
