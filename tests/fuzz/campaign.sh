#!/usr/bin/env bash
# campaign.sh [SECONDS] [RESULTS]: fuzzes every target of this folder (made by tools/fuzz --pack) on all cores, 600 s by
# default. Cores work in slices; a free one takes the target with the fewest inputs so far, so that slow targets get more of
# them. At the end: a table of inputs per target in RESULTS/table.txt (also printed), crashers in RESULTS/crashes,
# units found in RESULTS/corpus.tar.gz (for tools/fuzz --merge --from). Exit status 1 when a target crashed.
# Run again with the same RESULTS it goes on: counts add up and the corpora are those of the end.
set -euo pipefail

seconds=${1:-600}
here=$(dirname "$(readlink -f "$0")")
results=$(mkdir -p "${2:-$here/results}" && readlink -f "${2:-$here/results}")
cores=${CAMPAIGN_CORES:-$(nproc)}
slice=${CAMPAIGN_SLICE:-60}
end=$((SECONDS + seconds))
counts=$results/counts   # lines: target inputs seconds, one per slice
work=$results/work
mkdir -p "$results/crashes" "$work"
touch "$counts"
export ASAN_OPTIONS UBSAN_OPTIONS=print_stacktrace=1
ASAN_OPTIONS=$(<"$here/asan_options")
cd "$here"
[[ -d bin ]] || tar -xzf packed.tar.gz  # bin/, corpus/, dict/
: >"$work/running"
while read -r name _; do mkdir -p "$work/$name"; done <targets

# The target with the fewest inputs, those of running slices estimated by what its slices had so far.
choose() {
  awk -v slice="$slice" '
    FILENAME == ARGV[1] { name[NR] = $1; n = NR; next }
    FILENAME == ARGV[2] { inputs[$1] += $2; time[$1] += $3; next }
    { running[$1] += $2 }
    END {
      best = -1
      for (i = 1; i <= n; i++) {
        t = name[i]
        rate = time[t] > 0 ? inputs[t] / time[t] : 5000
        seen = inputs[t] + running[t] * rate * slice
        if (best < 0 || seen < best) { best = seen; chosen = t }
      }
      print chosen
    }' targets "$counts" "$work/running"
}

worker() {
  local core=$1 round=0 name flags log left
  while left=$((end - SECONDS)) && [[ $left -gt 2 ]]; do
    exec {lock}>"$work/lock"
    flock "$lock"
    name=$(choose)
    echo "$name 1" >>"$work/running"
    exec {lock}>&-
    flags=$(sed -n "s/^$name //p" targets)
    log=$work/$name.$core.$round.log
    [[ $left -gt $slice ]] && left=$slice
    local begin=$SECONDS status=0
    # shellcheck disable=SC2086
    "bin/fuzz_$name" $flags -max_total_time="$left" -artifact_prefix="$results/crashes/$name-" \
      "$work/$name" "corpus/$name" >"$log" 2>&1 || status=$?
    inputs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    exec {lock}>"$work/lock"
    flock "$lock"
    echo "$name ${inputs:-0} $((SECONDS - begin + 1))" >>"$counts"
    echo "$name -1" >>"$work/running"
    exec {lock}>&-
    if [[ $status -eq 0 ]]; then rm -f "$log"; else mv "$log" "$results/crashes/$name.$core.$round.log"; fi
    round=$((round + 1))
  done
}

for ((core = 0; core < cores; core++)); do worker "$core" & done
wait

tar -C "$work" -czf "$results/corpus.tar.gz" --exclude='*.log' --exclude=running --exclude=lock .
crashed=$(find "$results/crashes" -type f ! -name '*.log' | wc -l)
{
  printf '%-16s %14s %10s %9s %8s\n' target inputs core-s per-s crashers
  while read -r name _; do
    awk -v t="$name" -v c="$(find "$results/crashes" -name "$name-*" | wc -l)" '
      $1 == t { i += $2; s += $3 }
      END { printf "%-16s %14d %10d %9d %8d\n", t, i, s, (s > 0 ? i / s : 0), c }' "$counts"
  done <targets
} | tee "$results/table.txt"
[[ $crashed -eq 0 ]] || { echo "crashers are in $results/crashes" >&2; exit 1; }
