#!/usr/bin/env bash
# Installs the packages the build and its tests need that are missing. Debian 12 with its
# security updates has all of them, LLVM 22 included.
set -euo pipefail

packages=(cmake ninja-build clang-22 lld-22 llvm-22-dev llvm-22-tools
  libmlir-22-dev mlir-22-tools clang-format-22 clang-tidy-22 zlib1g-dev
  libgtest-dev nlohmann-json3-dev openmpi-bin python3)

if ! command -v apt-get >/dev/null; then
  echo "setup: no apt-get here; the build needs the equivalents of:" \
    "${packages[*]}" >&2
  exit 0
fi

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) ||
    status=
  [ "$status" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "setup: missing ${missing[*]}; as root, run:" >&2
    echo "  apt-get update && apt-get install ${missing[*]}" >&2
    exit 1
  fi
  root=(sudo)
fi
echo "setup: installing ${missing[*]}"
install=(env DEBIAN_FRONTEND=noninteractive apt-get)
"${root[@]}" "${install[@]}" update -q
if ! "${root[@]}" "${install[@]}" install -q -y --no-install-recommends \
  "${missing[@]}" </dev/null; then
  echo "setup: apt-get can't install ${missing[*]}" \
    "(LLVM 22 comes with Debian 12's security updates)" >&2
  exit 1
fi
