#!/usr/bin/env bash
# usage: docs.sh FOLDER MLIR_TBLGEN MLIR_INCLUDE
# Writes the generated reference into FOLDER: Dialects/<Name>.md for each
# dialects/<Name>, Passes/<Area>.md for each <Area>/Passes.td.
set -euo pipefail

out=$(realpath -m "$1") tblgen=$2 include=$3
cd "$(dirname "$0")/.."
rm -rf "$out/Dialects" "$out/Passes"
mkdir -p "$out/Dialects" "$out/Passes"
for td in dialects/*/*Ops.td; do
  name=$(basename "$(dirname "$td")")
  [ "$td" = "dialects/$name/${name}Ops.td" ] || continue
  "$tblgen" -gen-dialect-doc -dialect="${name,,}" -I "$include" -I . "$td" \
    >"$out/Dialects/$name.md"
done
find include/moe -name Passes.td | sort | while read -r td; do
  area=$(basename "$(dirname "$td")")
  "$tblgen" -gen-pass-doc -I "$include" -I . "$td" >"$out/Passes/$area.md"
done
