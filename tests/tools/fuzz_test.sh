#!/usr/bin/env bash
# tools/fuzz keeps found units in one file per target: unpacked and merged again they are the same bytes. A script plays
# libFuzzer: with -merge=1 it copies every unit of the other folders into the first.
set -euo pipefail
source "$(dirname "$0")/lib.bash"

mkdir -p "$scratch/tools" "$scratch/tests" "$scratch/build"
cp "$root/tools/fuzz" "$scratch/tools/"
cp -r "$root/tests/fuzz" "$scratch/tests/"
corpus=$scratch/tests/fuzz/corpus
fuzz=("$scratch/tools/fuzz" --no-build --build "$scratch/build")
plant build/fuzz_text '#!/usr/bin/env bash
folders=()
for word in "$@"; do [[ $word == -* ]] || folders+=("$word"); done
for folder in "${folders[@]:1}"; do cp "$folder"/* "${folders[0]}"; done'
chmod +x "$scratch/build/fuzz_text"

cp "$corpus/text.found" "$scratch/before"
named=$(ls "$corpus/text")
passes "${fuzz[@]}" --unpack "$scratch/units" text
units=$(ls "$scratch/units/text" | wc -l)
[[ $units -gt 50 ]] || fail "text.found has $units units, expected more than 50"
passes "${fuzz[@]}" --merge text
cmp "$scratch/before" "$corpus/text.found" || fail "merging what is there changed text.found"

plant more/text/one "a unit of a campaign"
passes "${fuzz[@]}" --merge --from "$scratch/more" text
passes "${fuzz[@]}" --unpack "$scratch/again" text
[[ $(ls "$scratch/again/text" | wc -l) -eq $((units + 1)) ]] || fail "the unit of --from is not kept"
grep -rqx 'a unit of a campaign' "$scratch/again/text" || fail "the unit of --from changed"
[[ $(ls "$corpus/text") == "$named" ]] || fail "named units changed"

truncate -s -1 "$corpus/text.found"
refuses "text.found: cut off at byte" "${fuzz[@]}" --unpack "$scratch/cut" text
