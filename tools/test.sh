#!/usr/bin/env bash
# usage: test.sh BUILD [lit arguments]
# Runs all tests of a build: lit's summary, then `N passed, N failed` (and
# `, N skipped`) on a line. Exit status: lit's.
set -uo pipefail

build=$1
shift
results=$build/test/results.xml
rm -f "$results"
"$build/bin/moe-lit" -sv --xunit-xml-output "$results" "$@" \
  "$build/test" "$build/test/roundtrip" "$build/test/unit"
status=$?
python3 - "$results" <<'PYTHON' || status=1
import sys
import xml.etree.ElementTree

suites = xml.etree.ElementTree.parse(sys.argv[1]).getroot().iter("testsuite")
total = dict(tests=0, failures=0, skipped=0)
for suite in suites:
    for key in total:
        total[key] += int(suite.get(key))
passed = total["tests"] - total["failures"] - total["skipped"]
skipped = f", {total['skipped']} skipped" if total["skipped"] else ""
print(f"{passed} passed, {total['failures']} failed{skipped}")
sys.exit(passed == 0)
PYTHON
exit $status
