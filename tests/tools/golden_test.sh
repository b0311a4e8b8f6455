#!/usr/bin/env bash
# tools/golden: run folders of an earlier version resume, to the recorded bits where this processor has a table; a table that
# says something else is refused.
set -euo pipefail
source "$(dirname "$0")/lib.bash"
golden() { "$root/tools/golden" --binary "${TRIREME_BINARY:-$root/build/release/trireme}" "$@"; }

golden --list >"$scratch/list"
grep -qx 'folder/bsp-topk' "$scratch/list" || fail "no old folder among $(wc -l <"$scratch/list") cases"
passes golden --cases 'folder/*' --write --table "$scratch/table.json"
status=0
golden --cases 'folder/*' >"$scratch/out" 2>&1 || status=$?
[[ $status -eq 0 || $status -eq 2 ]] || fail "status $status: $(<"$scratch/out")"  # 2: no table of this processor

sed -i 's/": "[0-9a-f]\{4\}/": "0000/' "$scratch/table.json"
refuses "folder/easgd: expected 0000" golden --cases 'folder/easgd' --table "$scratch/table.json"
refuses "no case is called 'nothing'" golden --cases nothing
refuses "there is no $scratch/missing" "$root/tools/golden" --binary "$scratch/missing"
