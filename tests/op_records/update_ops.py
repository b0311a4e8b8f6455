import torch

"""Mutating ops: outputs are [input 0 after the write] and then every written input, as the conformance harness lists."""


def written(*tensors):
    return [tensors[0], *tensors]


def apply_sgd(x, a):
    w, g, lr = x
    return written(w - lr * (g + a["weight_decay"] * w))


def apply_momentum(x, a):
    w, v, g, lr = x
    g = g + a["weight_decay"] * w
    if a["rate_inside"]:
        v = a["momentum"] * v + lr * (1 - a["dampening"]) * g
        return written(w - (lr * g + a["momentum"] * v if a["nesterov"] else v), v)
    v = a["momentum"] * v + (1 - a["dampening"]) * g
    return written(w - lr * (g + a["momentum"] * v if a["nesterov"] else v), v)


def all_finite(x, a):
    return torch.tensor(all(bool(torch.isfinite(t).all()) for t in x))


def apply_running_variance(x, a):
    running, var, n = x
    unbiased = var * n / (n - 1) if n > 1 else var
    return written((1 - a["momentum"]) * running + a["momentum"] * unbiased)


OPS = {
    "apply_running_average": lambda x, a: written((1 - a["momentum"]) * x[0] + a["momentum"] * x[1]),
    "apply_running_variance": apply_running_variance,
    "all_finite": all_finite, "apply_sgd": apply_sgd, "apply_momentum": apply_momentum,
    "assign": lambda x, a: written(x[1]),
    "assign_add": lambda x, a: written(x[0] + x[1]),
}
