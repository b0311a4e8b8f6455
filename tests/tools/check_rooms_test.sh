#!/usr/bin/env bash
# tools/check_rooms accepts the tree and refuses folders that are too full, long READMEs, knots, and exceptions that
# nobody needs.
set -euo pipefail
source "$(dirname "$0")/lib.bash"
check=$root/tools/check_rooms

passes "$check"

plant tools/rooms.txt '# none'
for i in $(seq 1 50); do plant "trireme/full/f$i.cc" ''; done
passes "$check" "$scratch"
plant trireme/full/f51.h ''
refuses "trireme/full: 51 sources and headers, at most 50" "$check" "$scratch"
plant tools/rooms.txt 'folder trireme/full  # one file per thing'
passes "$check" "$scratch"
rm -r "$scratch/trireme/full"
refuses "'folder trireme/full' is no longer needed" "$check" "$scratch"

# A README of 40 lines of 110 columns is the longest; columns are characters, not bytes.
plant tools/rooms.txt ''
widest=$(printf 'ä%.0s' $(seq 1 110))
longest=$(printf "$widest\\n%.0s" $(seq 1 40))
plant trireme/x/README.md "$longest"
passes "$check" "$scratch"
plant trireme/x/README.md "$longest"$'\n'one
refuses "trireme/x/README.md: 41 lines, at most 40" "$check" "$scratch"
plant trireme/x/y/README.md $'# y\n\n'"${widest}b"
plant trireme/x/README.md '# x'
refuses "trireme/x/y/README.md:3: 111 columns, at most 110" "$check" "$scratch"
plant tools/rooms.txt 'readme trireme/x/y  # there is no such exception'
refuses "'readme trireme/x/y' is no longer needed" "$check" "$scratch"
rm -r "$scratch/trireme/x"

# Five units in a circle: each header includes the next one, the last source closes it.
plant tools/rooms.txt ''
for pair in 'a b' 'b c' 'c d' 'd e'; do
  read -r one next <<<"$pair"
  plant "trireme/x/$one.h" "#include \"trireme/x/$next.h\""
done
plant trireme/x/e.h ''
passes "$check" "$scratch"
plant trireme/x/e.cc $'#include "trireme/x/e.h"\n#include "trireme/x/a.h"'
refuses "trireme/x/a: a knot of 5 units, at most 4: trireme/x/a, trireme/x/b, trireme/x/c, trireme/x/d, trireme/x/e" "$check" "$scratch"
plant trireme/x/d.h ''
passes "$check" "$scratch"
