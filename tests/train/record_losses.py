#!/usr/bin/env python3
"""Records the losses of the tiny jobs of tests/train/recorded_losses_test.cc, trained once more by PyTorch's own layers,
optimisers and clipping, as tests/train/recorded/losses.json, which that test compares with.

  record_losses.py --writer TEST_TRAIN

Needs torch (CPU, any 2.x). Run from the root of the repository. Initial weights and batches are those that the test
program writes; models, optimisers, schedules and what a step is are stated here once more. Everything is in f64.
"""
import argparse
import json
import math
import os
import pathlib
import struct
import subprocess
import tempfile

import torch
import torch.nn.functional as F

STEPS, BATCH, EPOCH = 10, 12, 4  # batches in a run, samples of a batch, batches of an epoch
TOLERANCE = 1e-4
NO_DECAY = ("bias", "scale", "bias_ih", "bias_hh")


def read_safetensors(path):
    data = path.read_bytes()
    size, = struct.unpack("<Q", data[:8])
    out = {}
    for name, entry in json.loads(data[8:8 + size]).items():
        begin, end = (8 + size + o for o in entry["data_offsets"])
        dtype = {"F32": torch.float32, "I32": torch.int32}[entry["dtype"]]
        out[name] = torch.frombuffer(bytearray(data[begin:end]), dtype=dtype).reshape(entry["shape"])
    return out


# ---- Models: (parameters, running statistics or None in training, x) -> logits, penalty per sample.

def dense(p, name, x):
    return F.linear(x.flatten(1), p[name + "/weight"], p[name + "/bias"])


def perceptron(p, run, x):
    return dense(p, "classifier1", F.relu(dense(p, "dense1", x))), 0


def normed(p, run, x):
    for i in (1, 2):
        n, x = f"batch_norm{i}", F.conv2d(x, p[f"conv2d{i}/weight"], p[f"conv2d{i}/bias"])
        if run.training:
            mean, var = torch.zeros(x.shape[1], dtype=x.dtype), torch.zeros(x.shape[1], dtype=x.dtype)
            x = F.batch_norm(x, mean, var, p[n + "/scale"], p[n + "/bias"], True, 1.0)
            run.seen[n] = (mean, var)
        else:
            x = F.batch_norm(x, *run.running[n], p[n + "/scale"], p[n + "/bias"])
        x = F.relu(x)
    return dense(p, "classifier1", x), 0


def autoencoder(p, run, x):
    h = torch.sigmoid(dense(p, "encoder", x))
    penalty = 0.05 * torch.sqrt(1e-8 + h * h).sum(1) if run.training else 0
    return dense(p, "decoder", h), penalty


def char_lstm(p, run, x):
    x = F.embedding(x, p["embedding/weight"])
    for i in (1, 2):
        w = [p[f"lstm{i}/{k}"] for k in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
        zero = torch.zeros(1, x.shape[0], w[1].shape[1], dtype=x.dtype)
        x = torch._VF.lstm(x, (zero, zero), w, True, 1, 0.0, True, False, True)[0]
    return F.linear(x, p["out/weight"], p["out/bias"]), 0


class Running:
    """Batch norm: running statistics are means over samples of those of the shards, each of its own samples."""

    def __init__(self):
        self.training, self.running, self.seen, self.sums = True, {}, {}, {}

    def add_shard(self, share):
        for name, pair in self.seen.items():
            old = self.sums.get(name, (0, 0))
            self.sums[name] = tuple(a + share * b for a, b in zip(old, pair))

    def end_step(self):
        for name, (mean, var) in self.sums.items():
            old = self.running.get(name, (torch.zeros_like(mean), torch.ones_like(var)))
            self.running[name] = (0.9 * old[0] + 0.1 * mean, 0.9 * old[1] + 0.1 * var)
        self.sums = {}


# ---- Rates: of progress p, the samples done over those of the run.

def cosine(lr, warmup=0.05):
    def rate(p):
        if p < warmup:
            return lr * (0.05 + 0.95 * p / warmup)
        return lr * (1 + math.cos(math.pi * (p - warmup) / (1 - warmup))) / 2
    return rate


def scaled(p):
    """Twice the rate for twice the reference batch, from the rate itself on; a tenth at each milestone."""
    return 0.02 * (1 + p / 0.3) if p < 0.3 else 0.04 * 0.1 ** sum(p >= m for m in (0.5, 0.75))


def growing_rate(p):
    return 0.05 * (0.05 + 0.95 * p / 0.05) if p < 0.05 else 0.05


def doubled(p):
    return 2 ** sum(p >= m for m in (0.25, 0.6))


def sgd(decay=0, **more):
    return lambda groups: torch.optim.SGD(groups(decay), lr=1, **more)


def adaptive(kind, decay=0, **more):
    return lambda groups: kind(groups(decay), lr=1, **more)


SGD = sgd(momentum=0.9)
ADAM = adaptive(torch.optim.Adam)
DEFAULTS = {"model": perceptron, "rate": cosine(0.05), "optimiser": SGD, "clip": None, "frozen": (), "batches": STEPS,
            "multiplier": lambda p: 1}
CASES = {
    "sgd": {"optimiser": sgd(), "rate": cosine(0.2)},
    "momentum": {"optimiser": sgd(decay=0.2, momentum=0.9)},
    "nesterov": {"optimiser": sgd(momentum=0.9, nesterov=True)},
    "adagrad": {"optimiser": adaptive(torch.optim.Adagrad)},
    "rmsprop": {"optimiser": adaptive(torch.optim.RMSprop, centered=True, momentum=0.5), "rate": cosine(0.01)},
    "adam": {"optimiser": ADAM, "rate": cosine(0.01)},
    "amsgrad": {"optimiser": adaptive(torch.optim.Adam, amsgrad=True), "rate": cosine(0.01)},
    "adamw": {"optimiser": adaptive(torch.optim.AdamW, decay=0.5), "rate": cosine(0.01)},
    "normed": {"model": normed, "optimiser": sgd(decay=0.2, momentum=0.9)},
    "factors": {},
    "augmented": {},
    "text": {"model": char_lstm, "optimiser": adaptive(torch.optim.AdamW, decay=0.3), "rate": cosine(0.02), "clip": 0.05},
    "reconstruct": {"model": autoencoder, "optimiser": ADAM, "rate": cosine(0.01)},
    "clipped": {"clip": 0.3},
    "skipping": {"optimiser": ADAM, "rate": cosine(0.01)},
    "growing": {"rate": growing_rate, "batches": 16, "multiplier": doubled},
    # v = mu (new rate / old rate) v + rate g; w -= v is PyTorch's momentum (Goyal et al. 2017, remark 2).
    "corrected": {"rate": cosine(0.05, warmup=0.4)},
    "correctedskipping": {"rate": cosine(0.05, warmup=0.8)},
    "byclass": {},
    "frozen": {"frozen": ("dense1",)},
    "scaled": {"rate": scaled},
}


def sample_losses(case, p, run, x, labels):
    logits, penalty = case["model"](p, run, x)
    if case["model"] is autoencoder:
        return (logits - x.flatten(1)).square().sum(1) + penalty, torch.zeros(len(x))
    if logits.dim() == 3:
        each = F.cross_entropy(logits.flatten(0, 1), labels.flatten().long(), reduction="none").reshape(labels.shape)
        return each.mean(1), (logits.argmax(2) == labels).double().mean(1)
    return F.cross_entropy(logits, labels.long(), reduction="none"), (logits.argmax(1) == labels).double()


def record(name, t):
    case = DEFAULTS | CASES[name]
    magnitude = sum(v[torch.isfinite(v)].double().abs().sum().item() for v in t.values())
    t = {k: v.double() if v.is_floating_point() else v for k, v in t.items()}
    p = {k[5:]: v.clone() for k, v in t.items() if k.startswith("init/")}
    trained = {k: v.requires_grad_() for k, v in p.items() if k.split("/")[0] not in case["frozen"]}

    def groups(decay):
        kept = [v for k, v in trained.items() if k.split("/")[-1] in NO_DECAY]
        return [{"params": kept, "weight_decay": 0.0},
                {"params": [v for v in trained.values() if not any(v is w for w in kept)], "weight_decay": decay}]

    optimiser, run, losses = case["optimiser"](groups), Running(), []
    at, done, epoch = 0, 0, EPOCH
    while at < case["batches"]:
        progress = done / (case["batches"] * BATCH)
        end = min(at + case["multiplier"](progress), (at // epoch + 1) * epoch, case["batches"])
        count = t["weights"][at:end].sum().item()
        optimiser.zero_grad()
        loss = 0
        for b in range(at, end):
            for s in range(t["weights"].shape[1]):
                weights = t["weights"][b, s]
                each, _ = sample_losses(case, p, run, t["x"][b, s], t["labels"][b, s])
                loss = loss + torch.where(weights > 0, each, 0 * each.detach().nan_to_num(0, 0, 0)).sum() / count
                run.add_shard(weights.sum().item() / count)
        loss.backward()
        if math.isfinite(loss.item()):
            if case["clip"]:
                torch.nn.utils.clip_grad_norm_(trained.values(), case["clip"])
            for g in optimiser.param_groups:
                g["lr"] = case["rate"](progress)
            optimiser.step()
            run.end_step()
        losses.append(loss.item() if math.isfinite(loss.item()) else None)
        at, done = end, done + int(count)
    run.training = False
    with torch.no_grad():
        each, right = sample_losses(case, p, run, t["test_x"], t["test_labels"])
    return {"inputs": magnitude, "losses": losses, "test_loss": each.mean().item(), "test_accuracy": right.mean().item()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--writer", required=True, help="the test program that writes weights and batches")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([args.writer, "--gtest_filter=RecordedLosses.Their*", "--gtest_brief=1"], check=True,
                       env=os.environ | {"TRIREME_SAMPLES": folder})
        rows = [f'"{name}": ' + json.dumps(record(name, read_safetensors(pathlib.Path(folder) / f"{name}.safetensors")))
                for name in CASES]
    path = pathlib.Path("tests/train/recorded/losses.json")
    path.parent.mkdir(exist_ok=True)
    path.write_text(f'{{"torch": "{torch.__version__.split("+")[0]}", "tolerance": {TOLERANCE}, "cases": {{\n'
                    + ",\n".join(rows) + "\n}}\n")


if __name__ == "__main__":
    main()
