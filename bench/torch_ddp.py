#!/usr/bin/env python3
"""Samples per second of PyTorch's DistributedDataParallel over Gloo: processes of one host, one thread and one core each, a fixed
batch per worker, SGD with momentum. Prints one JSON object. Needs torch; bench/replicas starts it with --torch PYTHON.

  torch_ddp.py MODEL WORKERS [BATCH_PER_WORKER [STEPS]]        MODEL: speech-42m or resnet50
"""
import json, os, socket, sys, time

import torch
from torch import distributed, multiprocessing, nn


def speech():
    layers, width = [], 440
    for _ in range(4):
        layers += [nn.Linear(width, 2560), nn.Sigmoid()]
        width = 2560
    return nn.Sequential(*layers, nn.Linear(width, 8192))


class Bottleneck(nn.Module):
    """He et al. 2016 with the stride in the 3x3 convolution."""

    def __init__(self, channels, inner, stride):
        super().__init__()
        conv = lambda a, b, window, step: [nn.Conv2d(a, b, window, step, window // 2, bias=False), nn.BatchNorm2d(b)]
        self.branch = nn.Sequential(*conv(channels, inner, 1, 1), nn.ReLU(), *conv(inner, inner, 3, stride), nn.ReLU(),
                                    *conv(inner, 4 * inner, 1, 1))
        plain = stride == 1 and channels == 4 * inner
        self.side = nn.Identity() if plain else nn.Sequential(*conv(channels, 4 * inner, 1, stride))

    def forward(self, x):
        return torch.relu(self.branch(x) + self.side(x))


def resnet50():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        for block in range(blocks):
            layers.append(Bottleneck(channels, 64 << stage, 2 if block == 0 and stage > 0 else 1))
            channels = 256 << stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000))


MODELS = {"speech-42m": (speech, (440,), 8192, 128), "resnet50": (resnet50, (3, 224, 224), 1000, 8)}


def worker(rank, world, name, batch, steps, port, queue):
    torch.set_num_threads(1)
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[rank % len(cores)]})
    distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world)
    make, shape, classes, _ = MODELS[name]
    torch.manual_seed(1)
    net, x, y = make(), torch.randn(batch, *shape), torch.randint(classes, (batch,))
    if len(shape) == 3:
        net, x = net.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)
    net = nn.parallel.DistributedDataParallel(net)
    optimizer, loss = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9), nn.CrossEntropyLoss()

    def run(count):
        distributed.barrier()
        start = time.perf_counter()
        for _ in range(count):
            optimizer.zero_grad()
            loss(net(x), y).backward()
            optimizer.step()
        distributed.barrier()
        return time.perf_counter() - start

    run(2)
    seconds = run(steps)
    if rank == 0:
        queue.put(seconds)
    distributed.destroy_process_group()


def main():
    if len(sys.argv) < 3 or sys.argv[1] not in MODELS:
        sys.exit(__doc__)
    name, world = sys.argv[1], int(sys.argv[2])
    batch = int(sys.argv[3]) if len(sys.argv) > 3 else MODELS[name][3]
    steps = int(sys.argv[4]) if len(sys.argv) > 4 else 10
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    queue = multiprocessing.get_context("spawn").SimpleQueue()
    multiprocessing.spawn(worker, (world, name, batch, steps, port, queue), world)
    seconds = queue.get()
    print(json.dumps({"model": name, "workers": world, "samples_per_second": batch * world * steps / seconds,
                      "step_seconds": seconds / steps, "torch": torch.__version__}))


if __name__ == "__main__":
    main()
