# For the script tests: a scratch copy of the checked files, and assertions that say what went wrong.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

fail() {
  printf 'FAILED: %s\n' "$*" >&2
  exit 1
}

# passes COMMAND...: exits 0.
passes() {
  "$@" >"$scratch/out" 2>&1 || {
    cat "$scratch/out" >&2
    fail "expected success: $*"
  }
}

# refuses TEXT COMMAND...: exits non-zero and says TEXT.
refuses() {
  local text=$1
  shift
  if "$@" >"$scratch/out" 2>&1; then fail "expected failure: $*"; fi
  grep -qF -- "$text" "$scratch/out" || {
    cat "$scratch/out" >&2
    fail "expected the text '$text' from: $*"
  }
}

# plant PATH TEXT: writes a file into the scratch tree.
plant() {
  mkdir -p "$(dirname "$scratch/$1")"
  printf '%s\n' "$2" >"$scratch/$1"
}
