#!/usr/bin/env python3
"""Records 10 steps of PyTorch's optimisers on a model of two tensors as tests/model/recorded/optimisers.json, which
tests/model/optimizer_test.cc replays through update graphs.

Needs torch (CPU, any 2.x). Run from the root of the repository. All numbers are f32. The bias is in a parameter group
without decay; gradients do not depend on the parameters, so a wrong step shows from then on. LARS is not in PyTorch:
its trace is computed here from You et al. 2017, algorithm 1.
"""
import json
import math
import pathlib

import torch

STEPS, LR = 10, 0.1
WEIGHT, BIAS = [[0.5, -1.25, 2.0], [0.0, 0.75, -0.3]], [0.2, -0.4]


def gradient(t, shape, phase):
    count = math.prod(shape)
    return torch.tensor([math.sin(1.3 * (i + 1) + 0.7 * t + phase) * (i + 1) / 2 for i in range(count)]).reshape(shape)


# name, kind, attributes of the graph, torch class, its options, spec keys (clip_norm, initial_sum)
CASES = [
    ("sgd", "sgd", {}, "SGD", {}, {}),
    ("sgd decay", "sgd", {"weight_decay": 0.1}, "SGD", {"weight_decay": 0.1}, {}),
    ("sgd clipped", "sgd", {}, "SGD", {}, {"clip_norm": 2.0}),
    ("momentum", "momentum", {}, "SGD", {"momentum": 0.9}, {}),
    ("momentum decay clipped", "momentum", {"weight_decay": 0.1}, "SGD", {"momentum": 0.9, "weight_decay": 0.1},
     {"clip_norm": 1.0}),
    ("nesterov", "nesterov", {"momentum": 0.8, "weight_decay": 0.05}, "SGD",
     {"momentum": 0.8, "nesterov": True, "weight_decay": 0.05}, {}),
    ("adagrad", "adagrad", {}, "Adagrad", {}, {}),
    ("adagrad options", "adagrad", {"lr_decay": 0.1, "weight_decay": 0.1, "eps": 0.01}, "Adagrad",
     {"lr_decay": 0.1, "weight_decay": 0.1, "eps": 0.01, "initial_accumulator_value": 0.3}, {"initial_sum": 0.3}),
    ("rmsprop", "rmsprop", {}, "RMSprop", {}, {}),
    ("rmsprop all", "rmsprop", {"centered": True, "momentum": 0.5, "weight_decay": 0.1}, "RMSprop",
     {"centered": True, "momentum": 0.5, "weight_decay": 0.1}, {}),
    ("adam", "adam", {}, "Adam", {}, {}),
    ("adam amsgrad", "adam", {"amsgrad": True, "beta1": 0.8, "weight_decay": 0.1}, "Adam",
     {"amsgrad": True, "betas": (0.8, 0.999), "weight_decay": 0.1}, {}),
    ("adamw", "adamw", {}, "AdamW", {}, {}),
    ("adamw clipped", "adamw", {"weight_decay": 0.3, "beta2": 0.95}, "AdamW",
     {"weight_decay": 0.3, "betas": (0.9, 0.95)}, {"clip_norm": 1.5}),
]


def trace(kind, options, spec):
    weight = torch.tensor(WEIGHT, requires_grad=True)
    bias = torch.tensor(BIAS, requires_grad=True)
    groups = [{"params": [weight]}, {"params": [bias], "weight_decay": 0.0}]
    optimiser = getattr(torch.optim, kind)(groups, lr=LR, foreach=False, **options)
    steps = []
    for t in range(STEPS):
        weight.grad, bias.grad = gradient(t, (2, 3), 0.0), gradient(t, (2,), 0.4)
        if "clip_norm" in spec:
            torch.nn.utils.clip_grad_norm_([weight, bias], spec["clip_norm"])
        optimiser.step()
        steps.append({"weight": weight.detach().flatten().tolist(), "bias": bias.detach().tolist()})
    return steps


def lars(momentum, decay, trust):
    state = {name: [torch.tensor(v, dtype=torch.float64).flatten(), 0.0, d]
             for name, v, d in (("weight", WEIGHT, decay), ("bias", BIAS, 0.0))}
    steps = []
    for t in range(STEPS):
        for name, shape, phase in (("weight", (2, 3), 0.0), ("bias", (2,), 0.4)):
            w, v, beta = state[name]
            g = gradient(t, shape, phase).double().flatten()
            local = trust * w.norm() / (g.norm() + beta * w.norm())
            v = momentum * v + LR * local * (g + beta * w)
            state[name] = [w - v, v, beta]
        steps.append({name: state[name][0].tolist() for name in state})
    return steps


def main():
    record = {"torch": torch.__version__.split("+")[0], "lr": LR, "weight": sum(WEIGHT, []), "bias": BIAS,
              "grads": [{"weight": gradient(t, (2, 3), 0.0).flatten().tolist(),
                         "bias": gradient(t, (2,), 0.4).tolist()} for t in range(STEPS)], "cases": []}
    for name, kind, attrs, cls, options, spec in CASES:
        record["cases"].append({"name": name, "kind": kind, "attrs": attrs, "spec": spec,
                                "steps": trace(cls, options, spec)})
    record["cases"].append({"name": "lars", "kind": "lars", "attrs": {"weight_decay": 0.1, "trust": 0.5}, "spec": {},
                            "steps": lars(0.9, 0.1, 0.5)})
    path = pathlib.Path("tests/model/recorded/optimisers.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    cases = ",\n".join(json.dumps(case) for case in record.pop("cases"))
    path.write_text(json.dumps(record)[:-1] + f', "cases": [\n{cases}\n]}}\n')


if __name__ == "__main__":
    main()
