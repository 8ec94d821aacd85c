#!/usr/bin/env bash
# usage: lint.sh BUILD | lint.sh --fix
# Checks the format of all C and C++ files and runs clang-tidy on sources of a
# build; --fix formats in place instead.
set -euo pipefail

root=$(realpath "$(dirname "$0")/..")
cd "$root"
sources() {
  find dialects include lib test tools \
    \( -name '*.cpp' -o -name '*.h' -o -name '*.c' -o -name '*.cu' \) | sort
}
if [ "$1" = --fix ]; then
  sources | xargs clang-format-22 -i
  exit
fi
build=$(realpath "$1")
sources | xargs clang-format-22 --dry-run -Werror
echo "lint: format of $(sources | wc -l) files is right"
# All of it, about ten minutes on two cores: LINT_DIRS=dialects,lib,tools. The
# default is what is free of MLIR's headers, and a little that is not.
dirs=${LINT_DIRS:-lib/Table,lib/Runtime,lib/Verify,lib/Schedule,lib/Cost,lib/Support}
run-clang-tidy-22 -quiet -p "$build" -j "$(nproc)" "^$root/(${dirs//,/|})/" \
  >"$build/clang-tidy.log" 2>&1 || {
  grep -E "(warning|error):" "$build/clang-tidy.log" | sort -u >&2 ||
    cat "$build/clang-tidy.log" >&2
  exit 1
}
echo "lint: clang-tidy is silent"
