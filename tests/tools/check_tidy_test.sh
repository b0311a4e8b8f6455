#!/usr/bin/env bash
# tools/check_tidy accepts what changed last in the tree, and picks and refuses files of a tree that is planted here.
set -euo pipefail
source "$(dirname "$0")/lib.bash"

mkdir "$scratch/tools"
cp "$root/tools/check_tidy" "$scratch/tools/"
cp "$root/.clang-tidy" "$scratch/"
check=$scratch/tools/check_tidy
git() { command git -C "$scratch" -c user.name=t -c user.email=t@example.org -c init.defaultBranch=main "$@"; }
expect_list() {
  local got
  got=$("$check" --list | paste -sd ' ')
  [[ $got == "$1" ]] || fail "picked '$got', expected '$1'"
}

plant trireme/base/a.cc 'int a() { return 1; }'
plant trireme/base/b.cc 'int b() { return 2; }'
passes "$check"
grep -q 'no git history' "$scratch/out" || fail "without history: $(<"$scratch/out")"
passes git init -q
passes git add trireme
passes git commit -qm first
plant trireme/base/c.h 'int c();'
plant trireme/base/c.cc '#include "trireme/base/c.h"'
plant docs/page.md 'no source'
passes git add trireme docs
passes git commit -qm second
plant trireme/base/b.h 'int b();'

# A header stands for its source; what is not committed comes first, then the newest commit; a file counts once.
expect_list "trireme/base/b.cc trireme/base/c.cc trireme/base/a.cc"
TRIREME_TIDY_FILES=2 expect_list "trireme/base/b.cc trireme/base/c.cc"
passes git tag v1 HEAD~1
expect_list "trireme/base/b.cc trireme/base/c.cc"

passes "$check"
grep -qx '\[tidy\] 2 files' "$scratch/out" || fail "got $(<"$scratch/out")"
plant trireme/base/c.cc $'int BadName(const int* p) {\n  if (p == 0) return 1;\n  return 2;\n}'
refuses "readability-identifier-naming" "$check"
refuses "modernize-use-nullptr" "$check" trireme/base/c.cc
grep -q 'trireme/base/c.cc:1:5: error' "$scratch/out" || fail "no place: $(<"$scratch/out")"

passes "$root/tools/check_tidy"
