#!/usr/bin/env bash
# tools/check_classes accepts the tree and refuses classes that are too large, and exceptions that are wrong.
set -euo pipefail
source "$(dirname "$0")/lib.bash"
check=$root/tools/check_classes

# members TEXT COUNT: TEXT once per number, with the number for every @.
members() { for i in $(seq 1 "$2"); do printf '%s\n' "${1//@/$i}"; done; }

plant tools/class_sizes.txt '# none'
plant trireme/x/a.h "#pragma once
class A {
 public:
  A(); ~A();
$(members '  void m@();' 35)
 private:
$(members '  int f@_ = 0;' 20)
  static int count_;
};"
passes "$check" "$scratch"

# One more of each kind is refused, with its place; constructors and static members do not count.
plant trireme/x/fields.cc "#include \"trireme/x/a.h\"
namespace trireme::x {
namespace {
class Full { $(members 'int f@_;' 21) };
}
}"
refuses "trireme/x/fields.cc:4: Full has 21 fields and 0 methods, at most 20 and 35" "$check" "$scratch"
plant trireme/x/fields.cc ''
plant trireme/x/methods.h "template <typename T> struct Many { struct Inner { $(members 'T m@();' 35) template <typename U> void u(); }; };"
refuses "trireme/x/methods.h:1: Many::Inner has 0 fields and 36 methods" "$check" "$scratch"
plant trireme/x/methods.h ''

# Two sources have a class of one name in anonymous namespaces: each is counted, under its name.
plant trireme/x/one.cc $'namespace {\nclass Same { int a_; };\n}'
plant trireme/x/two.cc "namespace {
class Same final : A { $(members 'int f@_;' 22) };
}"
refuses "trireme/x/two.cc:2: Same has 22 fields" "$check" "$scratch"
plant trireme/x/two.cc ''

# A plain value struct may have many fields; one with a method that changes it is no plain value.
plant trireme/x/values.h "struct Values { $(members 'int f@ = 0;' 60) int sum() const { return f1; } };"
passes "$check" "$scratch"
plant trireme/x/values.h "struct Values { $(members 'int f@ = 0;' 60) void clear() { f1 = 0; } };"
refuses "trireme/x/values.h:1: Values has 60 fields and 1 methods" "$check" "$scratch"

plant tools/class_sizes.txt 'trireme/x/values.h Values 60 1  # for the test'
passes "$check" "$scratch"
plant tools/class_sizes.txt 'trireme/x/values.h Values 60 1'
refuses "trireme/x/values.h Values has no reason" "$check" "$scratch"
plant tools/class_sizes.txt 'trireme/x/values.h Values 59 1  # for the test'
refuses "lists it with 59 and 1, and it may not grow" "$check" "$scratch"
plant tools/class_sizes.txt $'trireme/x/values.h Values 60 1  # for the test\ntrireme/x/a.h A 21 35  # for the test'
refuses "'trireme/x/a.h A' is no longer needed" "$check" "$scratch"

passes "$check"
