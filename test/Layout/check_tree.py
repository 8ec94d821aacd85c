"""Checks a source tree: dependencies point one way, nothing is left for later,
no path of one machine.

usage: check_tree.py SOURCE_ROOT
"""
import pathlib
import re
import sys

# What each part without MLIR may include beside itself. The proofs in Verify
# read tables and nothing of the scheduler; the runtime links no compiler.
PLAIN = {
    "Table": set(),
    "Runtime": {"Table"},
    "Verify": {"Table"},
    "Schedule": {"Table", "Cost"},
    "Cost": {"Table"},
}
INCLUDE = re.compile(r'^\s*#include [<"]((?:moe|dialects|mlir|llvm)/[^>"]+)', re.M)
LATER = re.compile(r"\b(TO" r"DO|FIX" r"ME)\b")
MACHINE_PATH = re.compile(r"(?<![\w.{}%)-])/(work|root|home|tmp|farm)/")


def area(path):
    """moe/Table/Table.h, lib/Table/Check.cpp, include/moe/Table/Table.h: Table."""
    parts = pathlib.PurePath(path).parts
    if parts[0] == "include":
        parts = parts[1:]
    return parts[1] if parts[0] in ("moe", "lib") else parts[0]


def includes(path, text):
    """Includes of a file that its place forbids, with the reason."""
    here = area(path)
    for included in INCLUDE.findall(text):
        there = area(included)
        if there == here:
            continue
        if here in PLAIN and there not in PLAIN[here]:
            yield f"includes {included}, but {here} may include only " + (
                ", ".join(sorted(PLAIN[here])) or "itself"
            )
        elif here == "dialects" and included.startswith("moe/"):
            if there != "Support":
                yield f"includes {included}, but dialects may include only Support"
        elif there == "Pipelines" and here != "tools":
            yield f"includes {included}, which only tools may include"


def main(root):
    tops = ["Makefile", "CMakeLists.txt", "README.md", ".ci", "dialects"]
    tops += ["include", "lib", "tools", "test", "docs"]
    found = []
    for top in (root / name for name in tops):
        for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
            if not path.is_file() or path.suffix in (".safetensors", ".pyc"):
                continue
            name, text = path.relative_to(root), path.read_text()
            if path.suffix in (".h", ".cpp", ".c") and name.parts[0] != "test":
                found += [f"{name}: {fault}" for fault in includes(name, text)]
            for number, line in enumerate(text.splitlines(), 1):
                if LATER.search(line):
                    found.append(f"{name}:{number}: left for later: {line.strip()}")
                if MACHINE_PATH.search(line):
                    found.append(f"{name}:{number}: machine path: {line.strip()}")
    print("\n".join(found))
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
