#!/usr/bin/env bash
# ./run, with stand-ins for cmake and ninja: what it starts, where, and what it says when a step fails.
set -euo pipefail
source "$(dirname "$0")/lib.bash"

tree=$scratch/tree
mkdir -p "$tree/build/deps" "$tree/tools" "$scratch/bin" "$scratch/elsewhere"
cp "$root/run" "$tree/run"
cp "$root/tools/packages.txt" "$root/tools/onednn.txt" "$tree/tools/"
cp "$tree/tools/packages.txt" "$tree/build/.packages-build"
touch "$tree/build/deps/onednn.absent"

cat >"$scratch/bin/cmake" <<'EOF'
#!/usr/bin/env bash
echo "$*" >>build/configured
mkdir -p build/release && touch build/release/build.ninja
EOF
cat >"$scratch/bin/ninja" <<'EOF'
#!/usr/bin/env bash
[[ ! -e $2/broken ]] || { echo "FAILED: thing.o"; exit 3; }
printf '#!/usr/bin/env bash\necho "$PWD|$*"\nexit 7\n' >"$2/trireme"
chmod +x "$2/trireme"
EOF
chmod +x "$scratch/bin/"*
export PATH=$scratch/bin:$PATH

passes "$tree/run" --help
grep -q './run train' "$scratch/out" || fail "--help does not name the first command"

# Runs in the caller's directory, with the arguments as given, its status and nothing else on stdout.
cd "$scratch/elsewhere"
status=0
"$tree/run" train "a b" --json >"$scratch/stdout" 2>"$scratch/stderr" || status=$?
[[ $status -eq 7 ]] || fail "expected the status of the binary (7), got $status: $(cat "$scratch/stderr")"
[[ $(<"$scratch/stdout") == "$scratch/elsewhere|train a b --json" ]] || fail "got $(<"$scratch/stdout")"

# Configures once.
"$tree/run" version >/dev/null 2>&1 || true
[[ $(wc -l <"$tree/build/configured") -eq 1 ]] || fail "configured again although nothing changed"

# Through a link it still finds its tree.
ln -s "$tree/run" "$scratch/elsewhere/link"
"$scratch/elsewhere/link" version >"$scratch/stdout" 2>/dev/null || true
[[ $(<"$scratch/stdout") == "$scratch/elsewhere|version" ]] || fail "not usable through a link"

touch "$tree/build/release/broken"
refuses "building release failed with status 3: ninja -C $tree/build/release trireme" "$tree/run" train
grep -q 'FAILED: thing.o' "$scratch/out" || fail "the end of the log is missing"
grep -q "$tree/build/log/build-release.log" "$scratch/out" || fail "the path of the log is missing"
