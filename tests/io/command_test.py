#!/usr/bin/env python3
"""`trireme checkpoint info|verify|diff` as a user meets it: what it prints and its exit codes.

  command_test.py --writer TEST_IO     (the binary is $TRIREME_BINARY)

The commands of docs/how_to_checkpoints.md are run as they stand there, in a folder with runs/digits-1 and
runs/digits-2, and must end with the exit code that the page says.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
GENERATION = "runs/digits-1/checkpoints/step-000000012"
SHARD = f"{GENERATION}/tensors-00001-of-00003.safetensors"


class Commands:
    def __init__(self, folder):
        self.folder = folder

    def run(self, *arguments):
        return subprocess.run([os.environ["TRIREME_BINARY"], "checkpoint", *arguments], cwd=self.folder,
                              capture_output=True, text=True, encoding="utf-8", timeout=60)

    def expect(self, code, *arguments, out="", err=""):
        done = self.run(*arguments)
        ok = done.returncode == code and out in done.stdout and err in done.stderr
        if not ok:
            sys.exit(f"[command] FAILED: checkpoint {' '.join(arguments)}: exit code {done.returncode}, expected {code}\n"
                     f"expected {out!r} in\n{done.stdout}\nexpected {err!r} in\n{done.stderr}")
        return done.stdout


def damage(path):
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def check_whole(c):
    for path in ("runs/digits-1", "runs/digits-1/checkpoints", GENERATION):
        c.expect(0, "info", path, out="step     12")
        c.expect(0, "verify", path, out="(step 12): ok (3 files, 42 tensors")
    c.expect(0, "info", SHARD, out="f32/matrix")
    c.expect(0, "verify", SHARD, out=": ok")
    info = json.loads(c.expect(0, "info", "runs/digits-1", "--json"))
    assert info["step"] == 12 and len(info["tensors"]) == 42 and info["state"]["samples"] == 1536, info
    assert json.loads(c.expect(0, "verify", "runs/digits-1", "--json"))["ok"] is True
    c.expect(0, "diff", "runs/digits-1", "runs/digits-2", out="equal: all 42 tensors")
    c.expect(1, "diff", "runs/digits-1", SHARD, out="only in the first")
    assert json.loads(c.expect(1, "diff", SHARD, "runs/digits-1", "--json"))["equal"] is False


def check_damaged(c):
    damage(c.folder / SHARD)
    c.expect(1, "verify", "runs/digits-1", out="DAMAGED")
    c.expect(1, "verify", "runs/digits-1", out="does not have the hash that its manifest names")
    assert json.loads(c.expect(1, "verify", "runs/digits-1", "--json"))["ok"] is False
    c.expect(1, "diff", "runs/digits-1", "runs/digits-2", err="is damaged")
    c.expect(0, "info", "runs/digits-1", out="step     12")
    damage(c.folder / SHARD)


def check_mistakes(c):
    c.expect(2, "info", "runs/none", err="error: runs/none does not exist")
    c.expect(2, "verify", "runs", err="expected a run folder")
    c.expect(2, "diff", "runs/digits-1", "gone", err="does not exist")
    c.expect(2, "info", err="needs PATH")
    c.expect(2, "diff", "runs/digits-1", err="needs SECOND")
    c.expect(2, "show", "runs/digits-1")
    c.expect(2)
    (c.folder / "text.safetensors").write_text("no model")
    c.expect(1, "info", "text.safetensors", err="text.safetensors: ")
    c.expect(1, "verify", "text.safetensors", out="DAMAGED")


def check_page(c):
    """Lines `trireme checkpoint ...   # exit code N` of the how-to; without a comment the code is 0."""
    page = (ROOT / "docs" / "how_to_checkpoints.md").read_text(encoding="utf-8")
    lines = re.findall(r"^ +trireme checkpoint ([^#\n]*?)(?: +# exit code (\d).*)?$", page, re.MULTILINE)
    assert len(lines) >= 4, lines
    for arguments, code in lines:
        c.expect(int(code or 0), *arguments.split())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--writer", required=True)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "runs" / "digits-1").mkdir(parents=True)
        subprocess.run([args.writer, "--gtest_filter=Samples.*", "--gtest_brief=1"], check=True,
                       env=os.environ | {"TRIREME_SAMPLES": str(folder / "runs" / "digits-1")})
        shutil.copytree(folder / "runs" / "digits-1", folder / "runs" / "digits-2")
        shutil.copy(folder / SHARD, folder / "model.safetensors")
        c = Commands(folder)
        check_whole(c)
        check_damaged(c)
        check_mistakes(c)
        check_page(c)
    print("[command] info, verify and diff do what they say")


main()
