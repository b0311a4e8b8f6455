#!/usr/bin/env bash
# tools/netns_cluster refuses what makes no sense before it touches anything.
set -u
tool=tools/netns_cluster
failed=0
expect() {  # exit code, text, arguments...
  local code=$1 text=$2 out got
  shift 2
  out=$("$tool" "$@" 2>&1)
  got=$?
  if [ "$got" != "$code" ] || [[ "$out" != *"$text"* ]]; then
    echo "FAILED: $tool $*: got exit $got and '$out', expected exit $code and '$text'"
    failed=1
  fi
}
expect 0 "netns_cluster up RANKS RATE" --help
expect 2 "netns_cluster up RANKS RATE"
expect 2 "netns_cluster up RANKS RATE" sideways
expect 0 "10.77.0.4" address 3
expect 2 "address takes RANK" address x
if [ "$(id -u)" = 0 ] && command -v ip >/dev/null && command -v tc >/dev/null; then
  expect 2 "no number of ranks: got '0'" up 0 1gbit
  expect 2 "no number of ranks: got 'many'" up many 1gbit
  expect 2 "no rate: got 'fast'" up 2 fast
  expect 2 "no MTU: got 'small'" up 2 1gbit small
  expect 2 "run takes RANK" run
  expect 1 "no host for rank '999'" run 999 true
  NETNS_CLUSTER=absent expect 1 "no cluster is up" bytes
elif [ "$(id -u)" != 0 ]; then
  expect 1 "only root" up 2 1gbit
fi
exit $failed
