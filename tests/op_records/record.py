#!/usr/bin/env python3
"""Records outputs and gradients of the conformance cases from PyTorch, in f64.

usage: record.py BUILD_DIR [FAMILY...]

Needs torch and numpy (PyPI) and the target dump_op_cases built in BUILD_DIR. Writes tests/op_records/recorded/<family>.json,
which recorded_test.cc compares with. Each op is written down here from its mathematical definition or as
a call of PyTorch, never from our kernels. A file holds the versions it was made with.
"""
import json
import pathlib
import subprocess
import sys

import torch

import array_ops
import elementwise_ops
import linalg_ops
import nn_ops
import reduce_ops
import sequence_ops
import update_ops

OPS = {}
for module in (array_ops, elementwise_ops, linalg_ops, nn_ops, reduce_ops, sequence_ops, update_ops):
    OPS.update(module.OPS)

DTYPES = {"f64": torch.float64, "f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16, "i64": torch.int64,
          "i32": torch.int32, "u8": torch.uint8, "bool": torch.bool}


def tensor(spec, grad=False):
    t = torch.tensor(spec["values"], dtype=torch.float64).reshape(spec["shape"]).to(DTYPES[spec["dtype"]])
    return t.requires_grad_() if grad and t.is_floating_point() else t


def kept(t):
    values = t.detach().to(torch.float64).reshape(-1)
    index = torch.arange(values.numel(), dtype=torch.float64)
    weights = ((37 * index + 11) % 101) / 50 - 1
    return {"shape": list(t.shape), "first": [float(v) for v in values[:16]], "folded": float((values * weights).sum())}


def record(case):
    grads_wanted = case["has_grad"]
    inputs = [tensor(s, grads_wanted) for s in case["inputs"]]
    outputs = OPS[case["op"]](inputs, case["attrs"])
    if outputs is None:  # PyTorch cannot
        return None
    if not isinstance(outputs, (list, tuple)):
        outputs = [outputs]
    result = {"key": case["key"], "outputs": [None if o is None else kept(o) for o in outputs]}
    if not grads_wanted:
        return result
    total = 0
    for out, weights in zip(outputs, case["weights"]):
        if weights is not None and out is not None and out.requires_grad and out.dtype == torch.float64:
            total = total + (out * tensor(weights)).sum()
    if isinstance(total, torch.Tensor):
        total.backward()
        result["grads"] = [kept(t.grad if t.grad is not None else torch.zeros_like(t)) if t.is_floating_point() else None
                           for t in inputs]
    return result


def main():
    build = pathlib.Path(sys.argv[1])
    families = set(sys.argv[2:])
    cases = json.loads(subprocess.run([build / "dump_op_cases"], check=True, capture_output=True).stdout)
    folder = pathlib.Path(__file__).parent / "recorded"
    folder.mkdir(exist_ok=True)
    by_family, missing, left_out = {}, set(), []
    for case in cases:
        if families and case["family"] not in families:
            continue
        if case["op"] not in OPS:
            missing.add(case["op"])
            continue
        try:
            recorded = record(case)
        except Exception as e:  # which case, then stop
            raise RuntimeError(f"{case['name']}: {e}") from e
        if recorded is None:
            left_out.append(case["name"])
        else:
            by_family.setdefault(case["family"], {})[case["name"]] = recorded
    for family, records in by_family.items():
        lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(r)}" for name, r in sorted(records.items()))
        (folder / f"{family}.json").write_text(f'{{"made_with": "torch {torch.__version__}", "cases": {{\n{lines}\n}}}}\n')
        print(f"{family}: {len(records)} cases")
    print("PyTorch cannot:", ", ".join(left_out) or "none")
    print("no implementation here:", ", ".join(sorted(missing)) or "none")


if __name__ == "__main__":
    main()
