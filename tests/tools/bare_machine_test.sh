#!/usr/bin/env bash
# tools/bare_machine, with stand-ins for debootstrap and unshare: what it runs, what it reports, what it leaves behind. The
# real ones are bare_*_long_test.sh.
set -euo pipefail
source "$(dirname "$0")/lib.bash"

tree=$scratch/tree
mkdir -p "$tree/tools" "$scratch/bin" "$scratch/tmp"
cp "$root/tools/bare_machine" "$tree/tools/"
calls=$scratch/calls
{
  printf '#!/usr/bin/env bash\ncalls=%q\n' "$calls"
  cat <<'EOF'
mkdir -p build/log
echo "$1 $TRIREME_FUZZ_SECONDS" >>"$calls"
touch "build/log/packages-$1.log"
read -rt 0.5 <> <(:) || true
touch "build/log/build-release.log"
read -rt 0.5 <> <(:) || true
echo "epoch 1  loss 0.5"
[[ ! -e $calls.broken ]] || { echo "something broke"; exit 5; }
EOF
} >"$tree/run"
chmod +x "$tree/run"
git() { command git -C "$tree" -c user.name=t -c user.email=t@example.org "$@"; }
passes git init -q
passes git add .
passes git commit -qm first

# The arguments of unshare end with: bash -c ENTER bash SYSTEM env -i NAME=VALUE... bash -c LINE.
cat >"$scratch/bin/unshare" <<'EOF'
#!/usr/bin/env bash
while [[ $1 != bash ]]; do shift; done
system=$5
shift 5
line=${!#}
[[ $line != apt-get* ]] || exit 0
cd "$system/root/trireme"
exec "${@:1:$#-1}" "${line#cd /root/trireme && }"
EOF
cat >"$scratch/bin/debootstrap" <<'EOF'
#!/usr/bin/env bash
[[ ! -e $OFFLINE ]] || { echo "E: Failed getting release file http://mirror.example/Release"; exit 1; }
for folder in etc/apt/apt.conf.d root; do mkdir -p "${*: -3:1}/$folder"; done
EOF
chmod +x "$scratch/bin/"*
[[ $(command id -u) -eq 0 ]] || {
  refuses "a chroot needs root" "$tree/tools/bare_machine"
  exit 0
}
export PATH=$scratch/bin:$PATH TMPDIR=$scratch/tmp OFFLINE=$scratch/offline TRIREME_FUZZ_SECONDS=7

passes "$tree/tools/bare_machine"
grep -qx 'train 7' "$calls" || fail "./run train was not run: $(<"$calls")"
grep -qx 'test 7' "$calls" || fail "./run test was not run: $(<"$calls")"
report=$tree/build/bare_machine/debian-12/report.json
python3 - "$report" <<'EOF' || fail "unexpected report: $(<"$report")"
import json, sys
train, test = json.load(open(sys.argv[1]))["commands"]
assert train["status"] == 0 and list(train["phases"]) == ["packages-train", "build-release"], train
assert 0 < train["first_step_seconds"] <= train["seconds"], train
assert list(test["phases"]) == ["packages-test", "build-release"], test
EOF
[[ -z $(ls "$TMPDIR") ]] || fail "left behind: $(ls "$TMPDIR")"

: >"$calls"
passes "$tree/tools/bare_machine" --until build-release
! grep -qx 'test 7' "$calls" || fail "--until did not end it"
grep -q 'stopped as asked' "$scratch/out" || fail "got $(<"$scratch/out")"

: >"$calls"
passes "$tree/tools/bare_machine" --only test
[[ $(<"$calls") == "test 7" ]] || fail "--only test ran $(<"$calls")"

touch "$calls.broken"
refuses "./run train: status 5" "$tree/tools/bare_machine"
grep -q 'something broke' "$scratch/out" || fail "the end of the log is missing: $(<"$scratch/out")"
[[ -z $(ls "$TMPDIR") ]] || fail "left behind: $(ls "$TMPDIR")"

touch "$OFFLINE"
status=0
"$tree/tools/bare_machine" >"$scratch/out" || status=$?
[[ $status -eq 77 ]] || fail "offline: status $status, expected 77: $(<"$scratch/out")"
grep -q 'NOT TRIED: no mirror of debian-12 can be reached' "$scratch/out" || fail "got $(<"$scratch/out")"
