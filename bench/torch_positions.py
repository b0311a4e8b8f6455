#!/usr/bin/env python3
"""Bits that a position costs in a sparse message, by Rice codes (what threshold and topk write), zstd and an adaptive range coder. Needs
torch, numpy and the program zstd.

  torch_positions.py --mnist DIR [--steps 300]

The gradients are those of the largest layer of mnist-mlp (784 x 512) after some steps of training, and values without any order. Gaps
between the positions of the largest values are coded: Rice with the codec's parameter, each gap as one to three bytes by zstd -19, and the
entropy of the gaps' lengths in bits, with the bits below the first as they are, which an adaptive range coder comes close to.
"""
import argparse, importlib.util, math, os, subprocess, sys

sys.dont_write_bytecode = True
spec = importlib.util.spec_from_file_location("target", os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_target.py"))
target = importlib.util.module_from_spec(spec)
spec.loader.exec_module(target)


def gradient(args, torch):
    """Of the first layer, with what top-k would have left behind: the sum of the last steps' gradients."""
    from torch import nn
    torch.manual_seed(1)
    x, y, _, _ = target.pictures(args, torch)
    net = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    optimizer, loss, kept = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9), nn.CrossEntropyLoss(), 0
    for step in range(args.steps):
        picked = torch.randint(len(x), (128,))
        optimizer.zero_grad()
        loss(net(x[picked]), y[picked]).backward()
        kept = 0.9 * kept + net[0].weight.grad
        optimizer.step()
    return kept.t().contiguous().flatten().numpy()  # as the project has it: inputs by outputs


def rice(gaps, size):
    p = max(1, size // len(gaps) * 11 // 16).bit_length() - 1  # rice_parameter() of trireme/codec/bits.h
    return float(((gaps >> p) + 1 + p).sum()) / len(gaps)


def by_zstd(gaps):
    data = b"".join(bytes([g]) if g < 192 else bytes([192 + (g >> 8), g & 255]) if g < 15872 else b"\xff" + int(g).to_bytes(4, "little") for g in map(int, gaps))
    return 8 * len(subprocess.run(["zstd", "-19", "-c"], input=data, capture_output=True, check=True).stdout) / len(gaps)


def by_range(gaps, numpy):
    lengths = numpy.floor(numpy.log2(gaps + 1)).astype(int)
    share = numpy.bincount(lengths) / len(gaps)
    share = share[share > 0]
    return float(-(share * numpy.log2(share)).sum() + lengths.mean())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mnist")
    parser.add_argument("--steps", type=int, default=300)
    args = parser.parse_args()
    import numpy, torch
    torch.set_num_threads(1)
    for name, values in {"gradient": gradient(args, torch), "no order": numpy.random.default_rng(1).standard_normal(784 * 512)}.items():
        for share in (0.01, 0.003, 0.001):
            k = int(share * len(values))
            at = numpy.sort(numpy.argpartition(-abs(values), k)[:k])
            gaps = numpy.diff(numpy.concatenate([[-1], at])) - 1
            least = -(math.log2(share) + (1 - share) / share * math.log2(1 - share))
            print(f"| {name} | {100 * share:g} % | {rice(gaps, len(values)):.2f} | {by_zstd(gaps):.2f} | {by_range(gaps, numpy):.2f} | {least:.2f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
