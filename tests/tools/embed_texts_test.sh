#!/usr/bin/env bash
# cmake/embed_texts.cmake makes constants of the parts of .cu files that are marked, with the lines where they come from, and
# a mistake in a .cu file is seen behind cmake/cuda_words.h by the host's compiler alone.
set -euo pipefail
source "$(dirname "$0")/lib.bash"
embed() { cmake "-DOUT=$scratch/out.cc" "-DROOT=$scratch" -P "$root/cmake/embed_texts.cmake" "$scratch"/*/*.cu; }

plant norm/two.cu $'// Head.\n#pragma once\nconstexpr int kPack = 4;\n\n#pragma text kFirstText\n// A comment.\nint a[] = {1; 2];\n  if (x) {  // why\n    y;\n\n#pragma text end\nint b;\n\n#pragma text kSecondText\nint c;'
plant norm/none.cu $'#pragma once\ntypedef float T;'
passes embed
want=$'// Made of .cu files by cmake/embed_texts.cmake.\nnamespace trireme::kernel::cuda {\nextern const char kFirstText[] = R"cuda(\n#line 6 "norm/two.cu"\n\nint a[] = {1; 2];\nif (x) {  // why\ny;\n)cuda";\nextern const char kSecondText[] = R"cuda(\n#line 15 "norm/two.cu"\nint c;\n)cuda";\n}'
[[ $(<"$scratch/out.cc") == "$want" ]] || fail "got $(<"$scratch/out.cc")"

plant norm/two.cu $'#pragma once\n#pragma text Wrong\nint c;'
refuses "norm/two.cu:2: no name of a text: 'Wrong'" embed

read_text() { "${CXX:-c++}" -x c++ -std=c++17 -w -fsyntax-only "-I$root" -include "$root/cmake/cuda_words.h" "$1"; }
passes read_text "$root/trireme/kernel/cuda/norm/softmax.cu"
sed 's/row_sum(total)/row_sums(total)/' "$root/trireme/kernel/cuda/norm/softmax.cu" >"$scratch/broken.cu"
refuses "'row_sums' was not declared" env LC_ALL=C bash -c "$(declare -f read_text); root=$root; read_text $scratch/broken.cu"
