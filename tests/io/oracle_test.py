#!/usr/bin/env python3
"""Reads what tests/io/samples_test.cc wrote with other people's code, and compares every value.

  oracle_test.py --writer TEST_IO [--deps FOLDER]

Without --deps: a reader of both formats written here from their descriptions, with the standard library alone.
With --deps: the public packages of tools/oracles.txt, installed into FOLDER/oracles. Exit code 77: no package index
(PyPI or the one pip is told to use) can be reached; the reader without packages has run then too, and says so. A
package that cannot be installed although the index answers is a failure.
"""
import argparse
import hashlib
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
REQUIREMENTS = ROOT / "tools" / "oracles.txt"
CANNOT_RUN = 77
SHAPES = {"matrix": [3, 5], "scalar": [], "none": [0], "no rows": [2, 0, 3], "deep": [1, 2, 1, 2, 1, 2]}
TYPES = {"f32": ("F32", 4), "f64": ("F64", 8), "bf16": ("BF16", 2), "f16": ("F16", 2), "i64": ("I64", 8),
         "i32": ("I32", 4), "u8": ("U8", 1), "bool": ("BOOL", 1)}


def sample_bytes(dtype, shape):
    count = 1
    for d in shape:
        count *= d
    n = count * dict(TYPES.values())[dtype]
    return bytes(i % 2 if dtype == "BOOL" else (7 * i + 3) % 64 for i in range(n))


def expected_tensors():
    """Name -> (dtype, shape, bytes), in the order in which they were written."""
    out = {}
    for name, (dtype, _) in TYPES.items():
        for label, shape in SHAPES.items():
            out[f"{name}/{label}"] = (dtype, shape, sample_bytes(dtype, shape))
    whole = sample_bytes("F32", [4, 6])
    out["transposed"] = ("F32", [6, 4], b"".join(whole[4 * (6 * r + c):][:4] for c in range(6) for r in range(4)))
    out['odd "name" \u00e9'] = ("U8", [2], sample_bytes("U8", [2]))
    return out


def f32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def expected_scalars():
    """Tag -> [(step, value)]."""
    return {"train/loss": [(s, f32(4.0 / s)) for s in range(1, 21)],
            "test/accuracy": [(s, f32(1.0 - 1.0 / s)) for s in range(5, 21, 5)],
            "odd/inf": [(10**12, float("inf"))],
            "odd/caf\u00e9": [(0, -0.125)]}


def check(condition, *what):
    if not condition:
        print("[oracle] FAILED:", *what)
        sys.exit(1)


# The readers without packages: the formats' descriptions, nothing of ours.

def plain_safetensors(data):
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + size])
    body = data[8 + size:]
    return {name: (e["dtype"], e["shape"], body[e["data_offsets"][0]:e["data_offsets"][1]])
            for name, e in header.items() if name != "__metadata__"}


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def fields(data):
    """(number, value) of a protocol buffer message."""
    def varint(at):
        value = shift = 0
        while True:
            value |= (data[at] & 127) << shift
            at, shift = at + 1, shift + 7
            if data[at - 1] < 128:
                return value, at
    at = 0
    while at < len(data):
        key, at = varint(at)
        kind = key & 7
        if kind == 0:
            value, at = varint(at)
        elif kind == 2:
            size, at = varint(at)
            value, at = data[at:at + size], at + size
        else:
            form = {1: "<d", 5: "<f"}[kind]
            (value,) = struct.unpack_from(form, data, at)
            at += struct.calcsize(form)
        yield key >> 3, value


def plain_events(data):
    scalars, versions, at = {}, [], 0
    while at < len(data):
        (size, length_crc) = struct.unpack_from("<QI", data, at)
        check(length_crc == masked(data[at:at + 8]), "checksum of a length at", at)
        content = data[at + 12:at + 12 + size]
        check(struct.unpack_from("<I", data, at + 12 + size)[0] == masked(content), "checksum of a record at", at)
        at += 16 + size
        event = dict(fields(content))
        check(abs(event[1] - time.time()) < 3600, "wall time", event[1])
        versions += [event[3]] if 3 in event else []
        for number, value in fields(event.get(5, b"")):
            check(number == 1, "field of a summary", number)
            value = dict(fields(value))
            scalars.setdefault(value[1].decode(), []).append((event[2], value[2]))
    check(versions == [b"brain.Event:2"], "file versions", versions)
    return scalars


def read_plainly(folder):
    generation = folder / "checkpoints" / "step-000000012"
    manifest = json.loads((generation / "manifest.json").read_text(encoding="utf-8"))
    check(manifest["step"] == 12 and manifest["state"]["note"] == "caf\u00e9", "step and state", manifest)
    check(len(manifest["files"]) >= 3, "several files, got", len(manifest["files"]))
    listed = {t["name"]: (t["file"], t["dtype"], t["shape"]) for t in manifest["tensors"]}
    tensors = {}
    for file in manifest["files"]:
        data = (generation / file["name"]).read_bytes()
        check(len(data) == file["bytes"], "size of", file["name"])
        check(hashlib.sha256(data).hexdigest() == file["sha256"], "hash of", file["name"])
        for name, (dtype, shape, content) in plain_safetensors(data).items():
            check(listed.get(name) == (file["name"], dtype, shape), "manifest and file disagree on", name)
            tensors[name] = (dtype, shape, content)
    check(list(tensors.items()) == list(expected_tensors().items()), "tensors")
    (events,) = folder.glob("events.out.tfevents.*.trireme")
    check(plain_events(events.read_bytes()) == expected_scalars(), "scalars", plain_events(events.read_bytes()))
    trace = json.loads((folder / "trace.json").read_text(encoding="utf-8"))
    check([e["ts"] for e in trace["traceEvents"] if e["ph"] == "X"] == [1.5], "trace", trace)
    print(f"[oracle] read without packages: {len(tensors)} tensors in {len(manifest['files'])} files,",
          sum(map(len, expected_scalars().values())), "scalars")


# With the public packages, in a process of their own Python.

def read_with_packages(folder):
    import numpy
    import safetensors
    import tensorboard
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    generation = folder / "checkpoints" / "step-000000012"
    numpy_types = {"F32": "<f4", "F64": "<f8", "F16": "<f2", "I64": "<i8", "I32": "<i4", "U8": "u1", "BOOL": "?"}
    expected = expected_tensors()
    seen = set()
    for path in sorted(generation.glob("*.safetensors")):
        for name, info in safetensors.deserialize(path.read_bytes()):
            dtype, shape, content = expected[name]
            check((info["dtype"], info["shape"]) == (dtype, shape), "type of", name, info["dtype"], info["shape"])
            check(bytes(info["data"]) == content, "bytes of", name)
            seen.add(name)
        with safetensors.safe_open(str(path), framework="numpy") as file:
            for name in file.keys():
                dtype, shape, content = expected[name]
                if dtype not in numpy_types:
                    continue  # numpy has no bfloat16: its bytes were compared above
                array = file.get_tensor(name)
                wanted = numpy.frombuffer(content, numpy_types[dtype]).reshape(shape)
                check(array.dtype == wanted.dtype and numpy.array_equal(array, wanted), "values of", name)
    check(seen == set(expected), "tensors", set(expected) ^ seen)
    accumulator = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    accumulator.Reload()
    found = {tag: [(e.step, e.value) for e in accumulator.Scalars(tag)] for tag in accumulator.Tags()["scalars"]}
    check(found == expected_scalars(), "scalars", found)
    print(f"[oracle] read with safetensors {safetensors.__version__} and tensorboard {tensorboard.__version__}:",
          f"{len(seen)} tensors, {sum(map(len, found.values()))} scalars")


def pip(python, *arguments):
    """The patience that the user gave pip counts; 60 s otherwise, since a cold cache between here and PyPI is slow."""
    patience = [] if "PIP_DEFAULT_TIMEOUT" in os.environ else ["--timeout", "60"]
    return [python, "-m", "pip", arguments[0], "--disable-pip-version-check", "--quiet", "--retries", "3", *patience,
            "--only-binary", ":all:", *arguments[1:]]


def run(command, seconds):
    """None, or why it failed: pip's first lines have the cause, its last one only that there is no such package."""
    try:
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return f"{' '.join(map(str, command[:4]))} took more than {seconds} s"
    lines = (done.stderr + done.stdout).strip().splitlines()
    return None if done.returncode == 0 else "\n".join(lines[:3] + lines[-1:]) or f"{command} failed"


def index_answers(python):
    """Whether pip gets anything at all: a small package without dependencies."""
    with tempfile.TemporaryDirectory() as name:
        return run(pip(python, "download", "--no-deps", "--no-cache-dir", "--dest", name, "packaging"), 120) is None


def install(python):
    """(None, or why the packages cannot be installed; whether an index answers)."""
    why = run(pip(python, "install", "-r", REQUIREMENTS), 300)
    return why, why is None or index_answers(python)


def python_with_packages(deps):
    """(Python of a virtual environment with the packages, or None; why not; whether an index answers)."""
    folder = deps / "oracles"
    python, stamp = folder / "bin" / "python", folder / "requirements.txt"
    if stamp.exists() and stamp.read_bytes() == REQUIREMENTS.read_bytes() and python.exists():
        return python, "", True
    # A Python from elsewhere may lack what Debian's package python3-venv brings.
    for base in dict.fromkeys([sys.executable, "/usr/bin/python3"]):
        why = run([base, "-m", "venv", "--clear", folder], 120)
        if why is None:
            break
    else:
        return None, why, True
    why, reachable = install(python)
    if why is not None:
        return None, why, reachable
    stamp.write_bytes(REQUIREMENTS.read_bytes())
    return python, "", True


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--writer", help="the test program that writes the samples")
    parser.add_argument("--deps", type=pathlib.Path, help="where the packages are installed")
    parser.add_argument("--read-with-packages", type=pathlib.Path, help="internal: the folder of samples")
    args = parser.parse_args()
    if args.read_with_packages:
        return read_with_packages(args.read_with_packages)
    with tempfile.TemporaryDirectory() as name:
        subprocess.run([args.writer, "--gtest_filter=Samples.*", "--gtest_brief=1"], check=True,
                       env=os.environ | {"TRIREME_SAMPLES": name})
        read_plainly(pathlib.Path(name))
        if args.deps is None:
            return 0
        python, why, reachable = python_with_packages(args.deps)
        check(python is not None or not reachable, "the packages of", REQUIREMENTS, "cannot be installed:", why)
        if python is None:
            print("=" * 100)
            print("[oracle] THE PUBLIC PACKAGES CANNOT BE INSTALLED HERE, so what we write was NOT read with them:", why)
            print("[oracle] Only the reader without packages has run. Repeat this test where PyPI can be reached.")
            print("=" * 100)
            return CANNOT_RUN
        return subprocess.run([str(python), __file__, "--read-with-packages", name], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
