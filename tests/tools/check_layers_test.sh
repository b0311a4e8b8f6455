#!/usr/bin/env bash
# tools/check_layers accepts the tree and refuses planted violations.
set -euo pipefail
source "$(dirname "$0")/lib.bash"
check=$root/tools/check_layers

passes "$check"

plant tools/layers.txt $'# comment\nbase:\nmid: base\nside: base\ntop: mid'
plant trireme/base/a.h '#pragma once'
plant trireme/top/t.cc $'#include "trireme/top/t.h"\n#include "trireme/base/a.h"'
passes "$check" "$scratch"

plant trireme/base/b.cc $'\n#include "trireme/mid/m.h"'
refuses "trireme/base/b.cc:2: 'base' may not include 'mid'" "$check" "$scratch"
rm "$scratch/trireme/base/b.cc"

plant trireme/top/deep/u.h '#  include <trireme/side/s.h>'
refuses "trireme/top/deep/u.h:1: 'top' may not include 'side'; its row allows base mid" "$check" "$scratch"
rm "$scratch/trireme/top/deep/u.h"

plant trireme/stray/s.cc ''
refuses "folder 'trireme/stray' has no row" "$check" "$scratch"
rm -r "$scratch/trireme/stray"

# A folder with a door: its own files include each other, others the door alone.
plant tools/doors.txt $'# comment\nmid/inner door.h  # reason'
plant trireme/mid/inner/x.cc $'#include "trireme/mid/inner/secret.h"'
plant trireme/mid/m.cc $'#include "trireme/mid/inner/door.h"'
plant trireme/top/v.cc $'#include "trireme/mid/inner/door.h"\n#include "trireme/mid/inner_too/a.h"'
passes "$check" "$scratch"
plant trireme/top/v.cc $'\n#include "trireme/mid/inner/deep/secret.h"'
refuses "trireme/top/v.cc:2: includes 'mid/inner/deep/secret.h'; 'mid/inner' is entered by 'mid/inner/door.h'" "$check" "$scratch"
rm "$scratch/trireme/top/v.cc"
plant trireme/mid/m.cc $'#include "trireme/mid/inner/secret.h"'
refuses "trireme/mid/m.cc:1: includes 'mid/inner/secret.h'" "$check" "$scratch"
rm "$scratch/trireme/mid/m.cc"

plant tools/layers.txt $'base: top\nmid: base\ntop: mid'
refuses "layers.txt:1: 'base' names 'top', which has no row above it" "$check" "$scratch"
