#!/usr/bin/env python3
"""Seconds per step of PyTorch on one model in several ways, over Gloo. Prints one JSON object. Needs torch; bench/sharding starts it.

  torch_sharded.py WAY MODEL --ranks 4 [--batch N] [--steps N] [--optimizer momentum|adam] [--threads N]
                   [--hosts FILE --ssh COMMAND]    a process on each host of the file (as of trireme train); without: on this one
  torch_sharded.py WAY MODEL                       one rank, started like torchrun's (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT)

WAY: ddp (DistributedDataParallel), tp (tensor parallel by DTensor: columns, then rows; speech-42m only), fsdp2 (fully_shard of every
layer), none (no exchange at all: what one rank computes). Over Gloo, FSDP2's reduce-scatter is an allreduce of which a rank keeps its
part. MODEL: speech-42m, char-gpt (4 layers of 256, 4 heads, 128 bytes of text). The batch is that of all ranks; ddp and fsdp2 cut it.
Threads of a rank: as many as it may use cores, unless given.
"""
import argparse
import json
import os
import resource
import socket
import statistics
import subprocess
import sys
import time

CONTEXT, WIDTH, HEADS, LAYERS, BYTES = 128, 256, 4, 4, 256


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("way", choices=["ddp", "tp", "fsdp2", "none"])
    parser.add_argument("model", choices=["speech-42m", "char-gpt"])
    parser.add_argument("--batch", type=int, default=64, help="samples of a step")
    parser.add_argument("--steps", type=int, default=8, help="measured, after two more")
    parser.add_argument("--optimizer", choices=["momentum", "adam"], default="momentum")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--ranks", type=int, default=0, help="start that many; 0: this process is a rank")
    parser.add_argument("--hosts")
    parser.add_argument("--ssh")
    parser.add_argument("--insecure", action="store_true", help="taken and ignored")
    options = parser.parse_args()
    if options.way == "tp" and options.model != "speech-42m":
        parser.error("tp: the layers of speech-42m alone are cut")
    return options


def start_all(options):
    """A process per rank; what the first prints is printed here."""
    hosts = [line.split()[0] for line in open(options.hosts)] if options.hosts else []
    port = 29400
    if not hosts:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
    own = [options.way, options.model, "--batch", options.batch, "--steps", options.steps, "--optimizer", options.optimizer,
           "--seed", options.seed, "--threads", options.threads]
    line = [sys.executable, os.path.abspath(__file__), *map(str, own)]
    running = []
    for rank in range(options.ranks):
        env = {"RANK": rank, "WORLD_SIZE": options.ranks, "MASTER_ADDR": hosts[0] if hosts else "127.0.0.1", "MASTER_PORT": port,
               "GLOO_SOCKET_IFNAME": "eth0" if hosts else "lo"}
        words = ["env", *(f"{name}={value}" for name, value in env.items()), *line]
        command = [options.ssh, hosts[rank], " ".join(words)] if hosts else words
        running.append(subprocess.Popen(command, stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL, text=True))
    out = running[0].communicate()[0]
    codes = [process.wait() for process in running]
    sys.stdout.write(out)
    return max(codes, key=abs)


def speech(nn):
    layers, width = [], 440
    for _ in range(4):
        layers += [nn.Linear(width, 2560), nn.Sigmoid()]
        width = 2560
    return nn.Sequential(*layers, nn.Linear(width, 8192))


def char_gpt(torch):
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.qkv, self.back = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            self.wide = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

        def forward(self, x):
            cut = [t.view(*x.shape[:2], HEADS, -1).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, -1)]
            mixed = nn.functional.scaled_dot_product_attention(*cut, is_causal=True)
            x = x + self.back(mixed.transpose(1, 2).reshape(x.shape))
            return x + self.wide(self.norm2(x))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens = nn.Embedding(BYTES, WIDTH)
            self.positions = nn.Parameter(torch.zeros(CONTEXT, WIDTH))
            self.blocks, self.norm = nn.Sequential(*(Block() for _ in range(LAYERS))), nn.LayerNorm(WIDTH)

        def forward(self, ids):
            out = self.norm(self.blocks(self.tokens(ids) + self.positions))
            return nn.functional.linear(out, self.tokens.weight).flatten(0, 1)

    return Gpt()


def tensor_parallel(net, world):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel(), "4": ColwiseParallel(), "6": RowwiseParallel(),
            "8": ColwiseParallel(output_layouts=Replicate())}
    return parallelize_module(net, init_device_mesh("cpu", (world,)), plan)


def fully_sharded(net, nn):
    from torch.distributed.fsdp import fully_shard
    for layer in net.blocks if hasattr(net, "blocks") else net:
        if any(True for _ in layer.parameters()):
            fully_shard(layer)
    fully_shard(net)
    return net


def inputs(options, samples, torch):
    if options.model == "char-gpt":
        text = torch.randint(BYTES, (samples, CONTEXT + 1))
        return text[:, :-1].contiguous(), text[:, 1:].flatten()
    return torch.randn(samples, 440), torch.randint(8192, (samples,))


def train(options):
    import torch
    from torch import distributed, nn
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.set_num_threads(options.threads or len(os.sched_getaffinity(0)))
    distributed.init_process_group("gloo")
    torch.manual_seed(options.seed)
    net = speech(nn) if options.model == "speech-42m" else char_gpt(torch)
    samples = options.batch // world if options.way in ("ddp", "fsdp2") else options.batch
    x, y = inputs(options, samples, torch)
    if options.way == "ddp":
        net = nn.parallel.DistributedDataParallel(net)
    elif options.way == "tp":
        net = tensor_parallel(net, world)
    elif options.way == "fsdp2":
        net = fully_sharded(net, nn)
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
        middle = statistics.median(seconds)
        print(json.dumps({"way": options.way, "world": world, "step_seconds": middle, "samples_per_second": options.batch / middle,
                          "all": seconds, "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10, "torch": torch.__version__}))
    distributed.barrier()
    distributed.destroy_process_group()
    return 0


if __name__ == "__main__":
    given = arguments()
    sys.exit(start_all(given) if given.ranks else train(given))
