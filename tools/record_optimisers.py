#!/usr/bin/env python3
"""Records 10 steps of PyTorch's optimisers as tests/op/recorded/optimisers.json, which tests/op/update_test.cc replays.

Needs torch (CPU, any 2.x). Run from the root of the repository. All numbers are f64; gradients do not depend on the
parameters, so a wrong step shows from then on. `states` says which state inputs of the op are used.
"""
import json
import math
import pathlib

import torch

STEPS, START = 10, [0.5, -1.25, 2.0, 0.0]
GRADS = [[math.sin(1.3 * (i + 1) + 0.7 * t) * (i + 1) for i in range(len(START))] for t in range(STEPS)]

# name, op, torch class, torch options, attributes of the op, used states, where states start
CASES = [
    ("sgd", "apply_sgd", "SGD", {}, {}, [], 0.0),
    ("sgd decay", "apply_sgd", "SGD", {"weight_decay": 0.1}, {"weight_decay": 0.1}, [], 0.0),
    ("momentum", "apply_momentum", "SGD", {"momentum": 0.9}, {}, [True], 0.0),
    ("momentum decay", "apply_momentum", "SGD", {"momentum": 0.8, "weight_decay": 0.1},
     {"momentum": 0.8, "weight_decay": 0.1}, [True], 0.0),
    ("nesterov", "apply_momentum", "SGD", {"momentum": 0.9, "nesterov": True, "weight_decay": 0.05},
     {"nesterov": True, "weight_decay": 0.05}, [True], 0.0),
    ("dampening", "apply_momentum", "SGD", {"momentum": 0.9, "dampening": 0.4}, {"dampening": 0.4}, [True], 0.0),
    ("adagrad", "apply_adagrad", "Adagrad", {}, {}, [True], 0.0),
    ("adagrad options", "apply_adagrad", "Adagrad",
     {"lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.3, "eps": 0.01},
     {"lr_decay": 0.1, "weight_decay": 0.1, "eps": 0.01}, [True], 0.3),
    ("rmsprop", "apply_rmsprop", "RMSprop", {}, {}, [True, False, False], 0.0),
    ("rmsprop momentum", "apply_rmsprop", "RMSprop", {"momentum": 0.9, "alpha": 0.9, "eps": 0.01},
     {"momentum": 0.9, "alpha": 0.9, "eps": 0.01}, [True, False, True], 0.0),
    ("rmsprop centered", "apply_rmsprop", "RMSprop", {"centered": True}, {"centered": True}, [True, True, False], 0.0),
    ("rmsprop all", "apply_rmsprop", "RMSprop", {"centered": True, "momentum": 0.5, "weight_decay": 0.1},
     {"centered": True, "momentum": 0.5, "weight_decay": 0.1}, [True, True, True], 0.0),
    ("adam", "apply_adam", "Adam", {}, {}, [True, True, False], 0.0),
    ("adam options", "apply_adam", "Adam", {"betas": (0.8, 0.99), "eps": 0.01, "weight_decay": 0.1},
     {"beta1": 0.8, "beta2": 0.99, "eps": 0.01, "weight_decay": 0.1}, [True, True, False], 0.0),
    ("adam amsgrad", "apply_adam", "Adam", {"amsgrad": True}, {"amsgrad": True}, [True, True, True], 0.0),
    ("adamw", "apply_adamw", "AdamW", {}, {}, [True, True, False], 0.0),
    ("adamw options", "apply_adamw", "AdamW", {"weight_decay": 0.3, "amsgrad": True, "betas": (0.5, 0.9)},
     {"weight_decay": 0.3, "amsgrad": True, "beta1": 0.5, "beta2": 0.9}, [True, True, True], 0.0),
]


def trace(kind, options, lr):
    w = torch.tensor(START, dtype=torch.float64, requires_grad=True)
    optimiser = getattr(torch.optim, kind)([w], lr=lr, foreach=False, **options)
    steps = []
    for g in GRADS:
        w.grad = torch.tensor(g, dtype=torch.float64)
        optimiser.step()
        steps.append(w.detach().tolist())
    return steps


def main():
    lr = 0.1
    record = {"torch": torch.__version__.split("+")[0], "lr": lr, "start": START, "grads": GRADS, "cases": []}
    for name, op, kind, options, attrs, states, initial in CASES:
        record["cases"].append({"name": name, "op": op, "attrs": attrs, "states": states, "initial": initial,
                                "w": trace(kind, options, lr)})
    path = pathlib.Path("tests/op/recorded/optimisers.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
