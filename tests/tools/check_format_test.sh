#!/usr/bin/env bash
# tools/check_format accepts the tree, refuses a badly formatted file and can repair it.
set -euo pipefail
source "$(dirname "$0")/lib.bash"
check=$root/tools/check_format

passes "$check"
cp "$root/.clang-format" "$scratch/"
plant trireme/base/a.cc $'int  f( ){\n      return 1;}'
refuses "trireme/base/a.cc:1:" "$check" "$scratch"
passes "$check" --fix "$scratch"
passes "$check" "$scratch"
grep -qx 'int f() { return 1; }' "$scratch/trireme/base/a.cc" || fail "--fix did not repair the file"
