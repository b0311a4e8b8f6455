#!/usr/bin/env bash
# tests/io/oracle_test.py skips only where no package index answers: with an index that lacks the packages it fails. A folder
# plays the index.
set -euo pipefail
source "$(dirname "$0")/lib.bash"

mkdir -p "$scratch/index"
export PIP_NO_INDEX=1 PIP_FIND_LINKS=$scratch/index PYTHONDONTWRITEBYTECODE=1
ask() {
  python3 - "$root/tests/io" "$scratch/python/bin/python" <<'EOF'
import sys
sys.path.insert(0, sys.argv[1])
import oracle_test
why, answers = oracle_test.install(sys.argv[2])
print(answers, "safetensors" in why)
EOF
}
passes python3 -m venv --without-pip --system-site-packages "$scratch/python"

[[ $(ask) == "False True" ]] || fail "without an index: $(ask), expected that none answers"

python3 - "$scratch/index/packaging-1.0-py3-none-any.whl" <<'EOF'
import sys, zipfile
with zipfile.ZipFile(sys.argv[1], "w") as wheel:
    wheel.writestr("packaging-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: packaging\nVersion: 1.0\n")
    wheel.writestr("packaging-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
    wheel.writestr("packaging-1.0.dist-info/RECORD", "")
EOF
[[ $(ask) == "True True" ]] || fail "with an index that lacks the packages: $(ask), expected that it answers"
