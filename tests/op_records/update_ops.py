"""Mutating ops: outputs are [input 0 after the write] and then every written input, as the conformance harness lists."""


def written(*tensors):
    return [tensors[0], *tensors]


def apply_sgd(x, a):
    w, g, lr = x
    return written(w - lr * (g + a["weight_decay"] * w))


def apply_momentum(x, a):
    w, v, g, lr = x
    g = g + a["weight_decay"] * w
    v = a["momentum"] * v + g
    return written(w - lr * (g + a["momentum"] * v if a["nesterov"] else v), v)


OPS = {
    "apply_sgd": apply_sgd, "apply_momentum": apply_momentum,
    "assign": lambda x, a: written(x[1]),
    "assign_add": lambda x, a: written(x[0] + x[1]),
}
