#!/usr/bin/env bash
# tools/check_rooms accepts the tree and refuses folders that are too full, knots, and exceptions that nobody needs.
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
