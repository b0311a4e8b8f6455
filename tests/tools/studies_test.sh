#!/usr/bin/env bash
# Scripts of studies: they know their studies, refuse others, and draw a page from what is kept without running anything.
source "$(dirname "${BASH_SOURCE[0]}")/lib.bash"
cd "$root" || exit 1

for script in replicas compression sharding pipelines; do
  passes "bench/$script" --list
  while read -r study _; do
    refuses "no study is called '${study}x'" "bench/$script" "${study}x"
  done <"$scratch/out"
  passes "bench/$script" --draw --command /bin/false --out "$scratch/none.json" --page "$scratch/page/$script.md"
  grep -q "Not measured yet." "$scratch/page/$script.md" || fail "an empty page of $script does not say so"
  [[ ! -e $scratch/page/$script ]] || fail "$script drew plots of nothing"
done

# What a run gave is in its row, and a run that failed is told.
cat >"$scratch/some.json" <<'JSON'
{"time/100mbit 1bit": {"test_accuracy": 0.96, "wall_seconds": 8.0, "steps": 100, "kernel_bytes": 40000000, "bytes_sent_per_step": 90000},
 "time/100mbit DDP": {"test_accuracy": 0.96, "wall_seconds": 80.0, "steps": 200, "kernel_bytes": 4000000000},
 "time/1gbit dense": {"failed": "code 1: no namespaces"}}
JSON
refuses "1 runs failed" bench/compression --draw --out "$scratch/some.json" --page "$scratch/page/some.md"
grep -qF '| `1bit` | 8.00 s | 100 | 80.0 ms | 100,000 | 90,000 | 10.0 |' "$scratch/page/some.md" || fail "no row of the run that is kept"
grep -qF "| time/1gbit dense | code 1: no namespaces |" "$scratch/page/some.md" || fail "no row of the run that failed"
grep -q ">1bit</text>" "$scratch/page/some/time-100mbit.svg" || fail "no figure with the run that is kept"
grep -q "prefers-color-scheme:dark" "$scratch/page/some/time-100mbit.svg" || fail "a figure for light pages only"
grep -q "some/time-100mbit.svg" "$scratch/page/some.md" || fail "the page does not show its figure"
! grep -q "some/virtual.svg" "$scratch/page/some.md" || fail "the page shows a figure that was not drawn"

# The figures that are kept show the tables of their pages: drawn again they have the same words and numbers.
words() { grep -o '>[^<>]*</text>' "$1" | sort; }
for script in replicas compression sharding pipelines; do
  cp "docs/studies/$script.md" "$scratch/$script.md"
  passes bench/study_plot.py "$scratch/$script.md"
  for drawn in "$scratch/$script"/*.svg; do
    kept=docs/studies/$script/${drawn##*/}
    diff <(words "$kept") <(words "$drawn") >&2 || fail "$kept is not what the page says: bench/study_plot.py docs/studies/$script.md"
  done
  [[ $(ls "$scratch/$script") == $(ls "docs/studies/$script") ]] || fail "docs/studies/$script has other figures than the page"
done
passes bench/study_plot.py --overview "$scratch/overview.svg"
diff <(words docs/images/against_ddp.svg) <(words "$scratch/overview.svg") >&2 || fail "bench/study_plot.py --overview docs/images/against_ddp.svg"
