#!/usr/bin/env python3
"""Seconds per step of PyTorch on one model in several ways, over Gloo: one process per rank, started like torchrun's
(RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT). Rank 0 prints one JSON object. Needs torch.

  torch_sharded.py WAY MODEL [--batch N] [--steps N]

WAY: ddp (DistributedDataParallel), tp (tensor parallel by DTensor: columns, then rows), fsdp2 (fully_shard of every layer),
none (no exchange at all: what one rank computes). MODEL: speech-42m. The batch is that of all ranks; ddp and fsdp2 cut it. As many
threads as the process may use cores.
"""
import argparse
import json
import os
import resource
import statistics
import time

import torch
from torch import distributed, nn


def speech():
    layers, width = [], 440
    for _ in range(4):
        layers += [nn.Linear(width, 2560), nn.Sigmoid()]
        width = 2560
    return nn.Sequential(*layers, nn.Linear(width, 8192))


def tensor_parallel(net, world):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel(), "4": ColwiseParallel(), "6": RowwiseParallel(),
            "8": ColwiseParallel(output_layouts=Replicate())}
    return parallelize_module(net, init_device_mesh("cpu", (world,)), plan)


def fully_sharded(net):
    from torch.distributed.fsdp import fully_shard
    for layer in net:
        if isinstance(layer, nn.Linear):
            fully_shard(layer)
    fully_shard(net)
    return net


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("way", choices=["ddp", "tp", "fsdp2", "none"])
    parser.add_argument("model", choices=["speech-42m"])
    parser.add_argument("--batch", type=int, default=64, help="samples of a step")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--optimizer", choices=["momentum", "adam"], default="momentum")
    options = parser.parse_args()
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    distributed.init_process_group("gloo")
    torch.manual_seed(1)
    net = speech()
    samples = options.batch // world if options.way in ("ddp", "fsdp2") else options.batch
    x, y = torch.randn(samples, 440), torch.randint(8192, (samples,))
    if options.way == "ddp":
        net = nn.parallel.DistributedDataParallel(net)
    elif options.way == "tp":
        net = tensor_parallel(net, world)
    elif options.way == "fsdp2":
        net = fully_sharded(net)
    if options.optimizer == "adam":
        optimizer = torch.optim.Adam(net.parameters(), lr=0.001)
    else:
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    loss = nn.CrossEntropyLoss()
    seconds = []
    for step in range(options.steps + 2):
        distributed.barrier()
        start = time.perf_counter()
        optimizer.zero_grad()
        loss(net(x), y).backward()
        optimizer.step()
        distributed.barrier()
        if step >= 2:
            seconds.append(time.perf_counter() - start)
    if rank == 0:
        print(json.dumps({"way": options.way, "world": world, "step_seconds": statistics.median(seconds), "all": seconds,
                          "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10, "torch": torch.__version__}))
    distributed.barrier()
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
