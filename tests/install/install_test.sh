#!/usr/bin/env bash
# usage: install_test.sh BUILD_DIR. Installs a build that is complete, then builds and runs the program of
# docs/how_to_use_as_a_library.md against it, from a folder that was moved after the installation.
set -euo pipefail
source "$(dirname "$0")/../tools/lib.bash"
build=$1

# fence LANGUAGE: the block of that language in the document.
fence() { sed -n "/^\`\`\`$1\$/,/^\`\`\`\$/p" "$root/docs/how_to_use_as_a_library.md" | sed '1d;$d'; }

passes cmake --install "$build" --prefix "$scratch/first"
mv "$scratch/first" "$scratch/prefix"
prefix=$scratch/prefix

while read -r header; do
  while read -r include; do
    [[ -e $prefix/include/$include ]] || fail "$header includes $include, which is not installed"
  done < <(sed -n 's/^#include "\(trireme[^"]*\)".*/\1/p' "$header")
done < <(find "$prefix/include" -name '*.h')
[[ -e $prefix/include/trireme/exec/session.h ]] || fail "exec/session.h is not installed"
[[ ! -e $prefix/include/trireme/exec/compiled.h ]] || fail "exec/compiled.h is private, and installed"
! grep -rqF "$root" "$prefix/lib/cmake" || fail "the package refers to the source tree: $(grep -rlF "$root" "$prefix/lib/cmake")"

passes "$prefix/bin/trireme" version

mkdir "$scratch/outside"
fence cmake >"$scratch/outside/CMakeLists.txt"
fence cpp >"$scratch/outside/main.cc"
# Ninja, which ./run installs; CMake's default would need make.
passes cmake -G Ninja -S "$scratch/outside" -B "$scratch/outside/build" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_BUILD_TYPE=Release
passes cmake --build "$scratch/outside/build"
[[ $("$scratch/outside/build/outside") == "graph 16, imperative 16" ]] ||
  fail "the program outside printed: $("$scratch/outside/build/outside" 2>&1)"
