"""Every key that the reader of tables knows is in docs/Table.md.

usage: table-keys.py SOURCE PAGE
"""

import pathlib
import re
import sys

source, page = (pathlib.Path(path).read_text() for path in sys.argv[1:])
keys = set(re.findall(r'^ *a\("(\w+)"', source, re.M))
keys |= set(re.findall(r' a\("(\w+)"', source))
names = set(re.findall(r"constexpr const char \*all\[\] = \{([^}]*)\}", source))
keys |= {key for group in names for key in re.findall(r'"(\w+)"', group)}
words = set(re.findall(r"`(\w+)`", page))
missing = sorted(keys - words)
if len(keys) < 80 or missing:
    sys.exit(f"{len(keys)} keys; not in the page: {', '.join(missing)}")
