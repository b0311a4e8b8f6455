#!/usr/bin/env bash
# tools/check_format accepts the tree, refuses a badly formatted file and can repair it. Comments stay as they were written,
# and too wide ones are refused.
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

wide="//   second  $(printf 'word %.0s' {1..20})that is too many"
table=$'// Two rows:\n//   first   some words\n'"$wide"$'\nint g();'
plant trireme/base/a.cc "$table"
refuses "trireme/base/a.cc:3: a comment of ${#wide} columns" "$check" --fix "$scratch"
[[ $(<"$scratch/trireme/base/a.cc") == "$table" ]] || fail "--fix changed a comment: $(<"$scratch/trireme/base/a.cc")"
plant trireme/base/a.cc $'const char* kText = R"cuda(\n'"$wide"$'\n)cuda";'
passes "$check" "$scratch"
