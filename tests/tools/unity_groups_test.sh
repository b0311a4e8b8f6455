#!/usr/bin/env bash
# tools/unity_groups puts files together that do not clash, and copies ops without changing anything but their own names.
set -euo pipefail
source "$(dirname "$0")/lib.bash"
tool=$root/tools/unity_groups
expect_equal() { [[ $1 == "$2" ]] || fail $'expected\n'"$2"$'\ngot\n'"$1"; }

plant trireme/x/a.cc $'namespace {\nint one() { return 1; }\n}'
plant trireme/x/b.cc $'namespace {\nint two() { return 2; }\n}'
plant trireme/x/c.cc $'namespace {\nint one() { return 3; }\n}'
plant trireme/x/d.cc $'#include <immintrin.h>'
groups=$("$tool" "$scratch"/trireme/x/{a,b,c,d}.cc | sed "s#$scratch/##")
expect_equal "$groups" $'1 plain trireme/x/a.cc\n1 plain trireme/x/b.cc'

# Ops share the names of their functions. Strings, comments, members, fields and namespaces keep theirs.
plant trireme/op/p.cc $'namespace {\nusing namespace detail;\n// run it\ncost::OpCost cost() { return a.cost + b->run("run"); }\nvoid run() { op::run(); cost(); }\n}\nconst OpDef kP{.cost = cost, .run = run};'
plant trireme/op/q.cc $'namespace {\nusing namespace detail;\nvoid run() {}\n}\nconst OpDef kQ{.run = run};'
# A class with such a member: the copy could not tell them apart, so nothing is renamed, and two such files stay apart.
plant trireme/op/r.cc $'namespace {\nusing namespace detail;\nstruct S { void run(); };\nvoid run() {}\n}'
plant trireme/op/s.cc $'namespace {\nusing namespace detail;\nstruct T { void run(); };\nvoid run() {}\n}'
groups=$("$tool" "$scratch"/trireme/op/{p,q,r,s}.cc | sed "s#$scratch/##")
expect_equal "$groups" $'1 copied trireme/op/p.cc\n1 copied trireme/op/q.cc\n1 copied trireme/op/r.cc'

"$tool" --copy "$scratch" "$scratch/build/unity" "$scratch/build" "$scratch"/trireme/op/{p,q,r}.cc
expect_equal "$(cat "$scratch/build/unity/trireme/op/p.cc")" $'#line 1 "../trireme/op/p.cc"\nnamespace {\nusing namespace detail;\n// run it\ncost::OpCost cost_p_cc() { return a.cost + b->run("run"); }\nvoid run_p_cc() { op::run(); cost_p_cc(); }\n}\nconst OpDef kP{.cost = cost_p_cc, .run = run_p_cc};'
expect_equal "$(tail -n +2 "$scratch/build/unity/trireme/op/r.cc")" "$(cat "$scratch/trireme/op/r.cc")"

# What has not changed is not written again, so that nothing is compiled again.
before=$(stat -c %y "$scratch/build/unity/trireme/op/q.cc")
sleep 0.05
"$tool" --copy "$scratch" "$scratch/build/unity" "$scratch/build" "$scratch"/trireme/op/q.cc
expect_equal "$(stat -c %y "$scratch/build/unity/trireme/op/q.cc")" "$before"

# Another folder has names of its own that files share on purpose; a type that one file has for itself keeps those apart that
# use another one of that name.
plant trireme/collective/t.cc $'namespace {\nvoid build() {}\n}'
plant trireme/collective/u.cc $'namespace {\nvoid build() {}\nvoid infer() {}\n}'
plant trireme/collective/v.cc $'namespace {\nvoid infer() {}\n}'
groups=$("$tool" "$scratch"/trireme/collective/{t,u,v}.cc | sed "s#$scratch/##")
expect_equal "$groups" $'1 copied trireme/collective/t.cc\n1 copied trireme/collective/u.cc'
# A clone may be called trireme.
plant trireme/trireme/op/w.cc $'namespace {\nvoid run() {}\n}'
plant trireme/trireme/op/x.cc $'namespace {\nvoid run() {}\n}'
groups=$("$tool" "$scratch"/trireme/trireme/op/{w,x}.cc | sed "s#$scratch/##")
expect_equal "$groups" $'1 copied trireme/trireme/op/w.cc\n1 copied trireme/trireme/op/x.cc'
plant trireme/x/e.cc $'namespace {\nstruct Group {};\n}'
plant trireme/x/f.cc $'Group* made();'
expect_equal "$("$tool" "$scratch"/trireme/x/{e,f}.cc)" ""
# So does a type that a header beside it declares.
plant trireme/y/a.h $'struct Group {\n};'
plant trireme/y/b.cc $'namespace {\nstruct Group {};\n}'
plant trireme/y/c.cc $'namespace {\nint two() { return 2; }\n}'
plant trireme/y/d.cc $'namespace {\nint three() { return 3; }\n}'
groups=$("$tool" "$scratch"/trireme/y/{b,c,d}.cc | sed "s#$scratch/##")
expect_equal "$groups" $'1 plain trireme/y/c.cc\n1 plain trireme/y/d.cc'
