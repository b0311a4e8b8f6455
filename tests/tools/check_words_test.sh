#!/usr/bin/env bash
# tools/check_words accepts the tree, refuses halves of sentences, retired names and nouns that name two classes, and does
# not cry wolf.
set -euo pipefail
source "$(dirname "$0")/lib.bash"
check=$root/tools/check_words

passes "$check"
plant tools/words.txt $'retired for_free for_each_dynamic\nnoun Shape  # of tensors and of plans\ncomments trireme/plan/old.h  # a list'

plant trireme/plan/x.cc $'int a;\n  // Of a bucket, in bytes.\nint b;'
refuses 'trireme/plan/x.cc:2: a comment that begins with "Of"' "$check" "$scratch"
plant trireme/plan/x.cc $'\nvoid run() { for_free(items); }'
refuses "trireme/plan/x.cc:2: 'for_free' is retired; say 'for_each_dynamic'" "$check" "$scratch"
plant tests/plan/x_test.cc '// Of a test'
plant trireme/plan/x.cc ''
refuses 'tests/plan/x_test.cc:1: ' "$check" "$scratch"
rm "$scratch/tests/plan/x_test.cc"

plant trireme/plan/a.h $'namespace plan {\nstruct alignas(64) Piece {};\n}'
plant trireme/exec/b.h $'namespace exec {\ntemplate <class T>\nclass Piece final : public Base<T> {\n};\n}'
refuses "'Piece' is a class of trireme/exec/b.h too" "$check" "$scratch"

# Declarations, members, specializations, functions and other words are no second class; exceptions hold.
plant trireme/exec/b.h '// Offsets of what lies here. Of course this is a sentence in the middle of a line, for_free too.
#define TR_MACRO(x) class Piece { x };
namespace exec {
class Piece;
enum class Kind : int { kPiece };
struct Outer { struct Piece { int a; }; struct Later; };
struct Outer::Later { int b; };
template <> struct Piece<int> { };
const char* text = "class Piece { for_free";
Piece* make(struct Piece& of) { return nullptr; }
int for_free_memory = 0;
}'
plant trireme/plan/shape.h 'struct Shape {};'
plant trireme/exec/shape.h 'class Shape {};'
plant trireme/plan/old.h '// Of a list'
passes "$check" "$scratch"
rm "$scratch/trireme/plan/old.h"
passes "$check" "$scratch"
grep -qF "the exception 'trireme/plan/old.h'" "$scratch/out" || fail "an exception that is not needed should be told"

plant tools/words.txt $'noun Shape'
refuses "expected 'retired WORD INSTEAD'" "$check" "$scratch"
