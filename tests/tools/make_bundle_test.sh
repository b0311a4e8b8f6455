#!/usr/bin/env bash
# tools/make_bundle: the folder runs after its origin is gone, and a program that cannot start is refused.
set -euo pipefail
source "$(dirname "$0")/lib.bash"

mkdir -p "$scratch/build" "$scratch/private"
echo 'CMAKE_PROJECT_VERSION:STATIC=9.8.7' >"$scratch/build/CMakeCache.txt"
echo 'print(1)' >"$scratch/build/bench_torch_steps.py"
echo 'int answer() { return 42; }' >"$scratch/answer.cc"
echo '#include <string>
#include <cstdio>
int answer();
int main() { std::puts(("answer " + std::to_string(answer())).c_str()); }' >"$scratch/main.cc"
g++ -shared -fPIC "$scratch/answer.cc" -o "$scratch/private/libanswer.so"
g++ "$scratch/main.cc" -L"$scratch/private" -lanswer -Wl,-rpath,"$scratch/private" -o "$scratch/build/trireme"
cp "$scratch/build/trireme" "$scratch/build/test_x"

# A module that needs a library which stays behind.
g++ -shared -fPIC "$scratch/answer.cc" -o "$scratch/private/libmpi.so.40"
g++ -shared -fPIC "$scratch/answer.cc" -Wl,--no-as-needed "$scratch/private/libmpi.so.40" -Wl,-rpath,"$scratch/private" \
  -o "$scratch/build/libtrireme_mpi.so"

passes "$root/tools/make_bundle" "$scratch/build" "$scratch/dest"
[[ ! -e $scratch/dest/trireme-9.8.7/bin/test_x ]] || fail "tests are bundled without being asked for"
passes "$root/tools/make_bundle" "$scratch/build" "$scratch/dest" --with-tests
mv "$scratch/dest/trireme-9.8.7" "$scratch/moved"
rm -r "$scratch/private"
for program in trireme test_x; do
  [[ $(env -i "$scratch/moved/bin/$program") == "answer 42" ]] || fail "$program does not run after the move"
done
[[ -e $scratch/moved/lib/libanswer.so && ! -e $scratch/moved/lib/libstdc++.so.6 && ! -e $scratch/moved/lib/libc.so.6 ]] ||
  fail "expected libanswer and neither libstdc++ nor glibc in lib/: $(ls "$scratch/moved/lib")"

[[ -e $scratch/moved/lib/libtrireme_mpi.so && ! -e $scratch/moved/lib/libmpi.so.40 ]] ||
  fail "expected the MPI module and not MPI in lib/: $(ls "$scratch/moved/lib")"

refuses "trireme needs libanswer.so" "$root/tools/make_bundle" "$scratch/build" "$scratch/dest"

echo 'int main() { return 1; }' >"$scratch/main.cc"
g++ "$scratch/main.cc" -o "$scratch/build/trireme"
refuses "does not start" "$root/tools/make_bundle" "$scratch/build" "$scratch/dest"

echo 'char big[60 << 20] = {1}; int main() { return big[1]; }' >"$scratch/main.cc"
g++ "$scratch/main.cc" -o "$scratch/build/trireme"
refuses "expected at most 50" "$root/tools/make_bundle" "$scratch/build" "$scratch/dest"
