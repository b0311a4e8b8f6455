#!/usr/bin/env bash
# tools/fetch_onednn unpacks a wheel whose hash it knows, and leaves nothing behind when it gets another one.
set -euo pipefail
source "$(dirname "$0")/lib.bash"

mkdir -p "$scratch/tools" "$scratch/index"
cp "$root/tools/fetch_onednn" "$scratch/tools/"
python3 - "$scratch/index/thing-1.0-py3-none-any.whl" <<'EOF'
import sys, zipfile
with zipfile.ZipFile(sys.argv[1], "w") as wheel:
    for name in ("libdnnl.so", "libdnnl.so.3", "libdnnl.so.3.0"):
        wheel.writestr(f"thing-1.0.data/data/lib/{name}", "library")
    wheel.writestr("thing-1.0.data/data/include/oneapi/dnnl/dnnl.hpp", "header")
    wheel.writestr("thing-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n")
    wheel.writestr("thing-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
    wheel.writestr("thing-1.0.dist-info/RECORD", "")
EOF
export PIP_NO_INDEX=1 PIP_FIND_LINKS=$scratch/index
deps=$scratch/deps

echo "thing==1.0 --hash=sha256:$(printf '0%.0s' {1..64})" >"$scratch/tools/onednn.txt"
refuses "pip failed" "$scratch/tools/fetch_onednn" "$deps"
[[ -z $(ls "$deps") ]] || fail "left behind: $(ls "$deps")"

echo "thing==1.0 --hash=sha256:$(sha256sum "$scratch/index/"*.whl | cut -d' ' -f1)" >"$scratch/tools/onednn.txt"
passes "$scratch/tools/fetch_onednn" "$deps"
[[ $(<"$deps/onednn/include/oneapi/dnnl/dnnl.hpp") == header ]] || fail "no header"
[[ -f $deps/onednn/lib/libdnnl.so.3.0 && $(readlink "$deps/onednn/lib/libdnnl.so.3") == libdnnl.so.3.0 ]] || fail "no library"
cmp -s "$scratch/tools/onednn.txt" "$deps/onednn/requirements.txt" || fail "the requirements are not recorded"
[[ $(ls "$deps") == onednn ]] || fail "left behind: $(ls "$deps")"
