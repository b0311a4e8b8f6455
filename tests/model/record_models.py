#!/usr/bin/env python3
"""Records losses, gradients and batch-norm statistics of small models of the zoo, written once more with PyTorch's own
layers, as tests/model/recorded/models.json, which tests/model/recorded_models_test.cc compares with.

Needs torch (CPU, any 2.x). Run from the root of the repository. Parameters, pictures and tokens are formulas of names and
indices that the test repeats; a gradient is kept as its length and its product with a probe.
"""
import json
import math
import pathlib

import torch
import torch.nn.functional as F


def phase(name):
    h = 0xCBF29CE484222325
    for c in name.encode():
        h = ((h ^ c) * 0x100000001B3) % 2**64
    return h % 1000 / 100


def noise(name, count, step=12.9898):
    """Looks random: the fraction of a large sine, in [-1, 1)."""
    large = (43758.5453 * math.sin(step * i + phase(name)) for i in range(count))
    return torch.tensor([2 * (v - math.floor(v)) - 1 for v in large], dtype=torch.float64)


class Store:
    """Parameters by name, made when first used."""

    def __init__(self):
        self.parameters, self.statistics = {}, {}

    def get(self, name, *shape):
        if name not in self.parameters:
            count, last = math.prod(shape), name.split("/")[-1]
            fan_in = count // shape[0]
            v = noise(name, count)
            v = 1 + 0.1 * v if last == "scale" else 0.1 * v if last.startswith("bias") else v * math.sqrt(2 / fan_in)
            self.parameters[name] = v.reshape(shape).requires_grad_()
        return self.parameters[name]

    def dense(self, name, x, out, bias=True):
        x = x.flatten(1)
        return F.linear(x, self.get(name + "/weight", out, x.shape[1]), self.get(name + "/bias", out) if bias else None)

    def linear(self, name, x, out):
        return F.linear(x, self.get(name + "/weight", out, x.shape[-1]), self.get(name + "/bias", out))

    def conv(self, name, x, out, window, stride=1, padding=0, groups=1, bias=True):
        w = self.get(name + "/weight", out, x.shape[1] // groups, window, window)
        return F.conv2d(x, w, self.get(name + "/bias", out) if bias else None, stride, padding, 1, groups)

    def norm(self, name, x):
        c = x.shape[1]
        mean, var = torch.zeros(c, dtype=x.dtype), torch.zeros(c, dtype=x.dtype)
        y = F.batch_norm(x, mean, var, self.get(name + "/scale", c), self.get(name + "/bias", c), True, 1.0, 1e-5)
        self.statistics[name + "/mean"], self.statistics[name + "/var"] = mean.tolist(), var.tolist()
        return y

    def layer_norm(self, name, x):
        d = x.shape[-1]
        return F.layer_norm(x, (d,), self.get(name + "/scale", d), self.get(name + "/bias", d))


def scaled(n, scale):
    return max(1, math.floor(n * scale + 0.5))


def resnet18(s, x, classes, scale):
    def conv_norm(prefix, i, x, *args):
        return s.norm(f"{prefix}bn{i}", s.conv(f"{prefix}conv{i}", x, *args, bias=False))

    width = scaled(64, scale)
    x = F.max_pool2d(F.relu(conv_norm("", 1, x, width, 7, 2, 3)), 3, 2, 1)
    for stage in range(4):
        for i in range(2):
            prefix, stride = f"stage{stage + 1}_{i}/", 2 if stage > 0 and i == 0 else 1
            y = conv_norm(prefix, 2, F.relu(conv_norm(prefix, 1, x, width, 3, stride, 1)), width, 3, 1, 1)
            skip = x if stride == 1 and x.shape[1] == width else conv_norm(prefix + "down/", 1, x, width, 1, stride)
            x = F.relu(y + skip)
        width *= 2
    return s.dense("fc", x.mean((2, 3)), classes)


def alexnet_2012(s, x, classes, scale):
    channels = lambda n: 2 * scaled(n // 2, scale)
    respond = lambda x: F.local_response_norm(x, 5, 5 * 1e-4, 0.75, 2.0)
    x = F.max_pool2d(respond(F.relu(s.conv("conv1", x, channels(96), 11, 4, 2))), 3, 2)
    x = F.max_pool2d(respond(F.relu(s.conv("conv2", x, channels(256), 5, 1, 2, 2))), 3, 2)
    x = F.relu(s.conv("conv3", x, channels(384), 3, 1, 1))
    x = F.relu(s.conv("conv4", x, channels(384), 3, 1, 1, 2))
    x = F.max_pool2d(F.relu(s.conv("conv5", x, channels(256), 3, 1, 1, 2)), 3, 2)
    x = F.relu(s.dense("fc6", x, scaled(4096, scale)))
    x = F.relu(s.dense("fc7", x, scaled(4096, scale)))
    return s.dense("fc8", x, classes)


def googlenet(s, x, classes, scale):
    conv = lambda name, x, out, k: F.relu(s.conv(name, x, scaled(out, scale), k, 1, k // 2))
    pool = lambda x: F.max_pool2d(x, 3, 2, 1)
    respond = lambda x: F.local_response_norm(x, 5, 5 * 1e-4, 0.75, 2.0)
    x = pool(F.relu(s.conv("conv1", x, scaled(64, scale), 7, 2, 3)))
    x = pool(respond(conv("conv2", conv("conv2_reduce", respond(x), 64, 1), 192, 3)))
    table = {"3a": (64, 96, 128, 16, 32, 32), "3b": (128, 128, 192, 32, 96, 64), "4a": (192, 96, 208, 16, 48, 64),
             "4b": (160, 112, 224, 24, 64, 64), "4c": (128, 128, 256, 24, 64, 64), "4d": (112, 144, 288, 32, 64, 64),
             "4e": (256, 160, 320, 32, 128, 128), "5a": (256, 160, 320, 32, 128, 128),
             "5b": (384, 192, 384, 48, 128, 128)}
    for block, (one, r3, three, r5, five, proj) in table.items():
        p = f"inception{block}/"
        x = torch.cat([conv(p + "1x1", x, one, 1), conv(p + "3x3", conv(p + "3x3_reduce", x, r3, 1), three, 3),
                       conv(p + "5x5", conv(p + "5x5_reduce", x, r5, 1), five, 5),
                       conv(p + "pool_proj", F.max_pool2d(x, 3, 1, 1), proj, 1)], 1)
        if block in ("3b", "4e"):
            x = pool(x)
    return s.dense("fc", x.mean((2, 3)), classes)


def char_gpt(s, x, vocabulary, width, layers, heads):
    n, t = x.shape
    table = s.get("tokens/weight", vocabulary, width)
    x = F.embedding(x, table) + s.get("positions/weight", t, width)
    for i in range(layers):
        p = f"block{i}/"
        qkv = s.linear(p + "attention/qkv", s.layer_norm(p + "norm1", x), 3 * width).split(width, 2)
        q, k, v = (a.view(n, t, heads, width // heads).transpose(1, 2) for a in qkv)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(n, t, width)
        x = x + s.linear(p + "attention/out", y, width)
        y = F.gelu(s.linear(p + "up", s.layer_norm(p + "norm2", x), 4 * width), approximate="tanh")
        x = x + s.linear(p + "down", y, width)
    return F.linear(s.layer_norm("norm", x), table)


def char_lstm(s, x, vocabulary, width, layers):
    x = F.embedding(x, s.get("embedding/weight", vocabulary, width))
    for i in range(1, layers + 1):
        w = [s.get(f"lstm{i}/{k}", *shape) for k, shape in (("weight_ih", (4 * width, width)),
             ("weight_hh", (4 * width, width)), ("bias_ih", (4 * width,)), ("bias_hh", (4 * width,)))]
        zero = torch.zeros(1, x.shape[0], width, dtype=x.dtype)
        x = torch._VF.lstm(x, (zero, zero), w, True, 1, 0.0, True, False, True)[0]
    return s.linear("out", x, vocabulary)


N = 3
CASES = [("resnet18", resnet18, [3, 64, 64], 10, {"scale": 0.07}, {}),
         ("alexnet-2012", alexnet_2012, [3, 63, 63], 10, {"scale": 0.03}, {"dropout": 0}),
         ("googlenet", googlenet, [3, 32, 32], 10, {"scale": 0.05}, {"dropout": 0}),
         ("char-gpt", char_gpt, [5], 7, {"width": 8, "layers": 2, "heads": 2}, {}),
         ("char-lstm", char_lstm, [5], 7, {"width": 6, "layers": 2}, {"dropout": 0})]


def main():
    cases = []
    for name, build, shape, classes, options, more in CASES:
        s, count = Store(), N * math.prod(shape)
        if name.startswith("char"):
            x = torch.tensor([(7 * i + 3) % classes for i in range(count)]).reshape(N, *shape)
            labels = torch.tensor([(5 * i + 1) % classes for i in range(count)])
        else:
            x = noise("images", count, 78.233).reshape(N, *shape)
            labels = torch.tensor([(5 * i + 1) % classes for i in range(N)])
        logits = build(s, x, classes, **options).reshape(-1, classes)
        loss = F.cross_entropy(logits, labels)
        loss.backward()
        grads = {k: [p.grad.norm().item(), (p.grad.flatten() * noise("probe", p.numel())).sum().item()]
                 for k, p in s.parameters.items()}
        cases.append(json.dumps({"name": name, "shape": shape, "classes": classes, "options": options | more,
                                 "loss": loss.item(), "grads": grads, "statistics": s.statistics}))
    path = pathlib.Path("tests/model/recorded/models.json")
    path.write_text(f'{{"torch": "{torch.__version__.split("+")[0]}", "samples": {N}, "cases": [\n'
                    + ",\n".join(cases) + "\n]}\n")


if __name__ == "__main__":
    main()
