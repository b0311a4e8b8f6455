#!/usr/bin/env python3
"""Seconds per step of PyTorch on one model as a pipeline of torch.distributed.pipelining or as replicas, over Gloo. Prints one JSON object.
Needs torch; bench/pipelines starts it.

  torch_pipeline.py WAY MODEL --ranks 4 [--cut 3,3,3,3] [--micro-batches N] [--batch N] [--steps N] [--threads N]
                    [--hosts FILE --ssh COMMAND]    a process on each host of the file (as of trireme train); without: on this one
  torch_pipeline.py WAY MODEL                       one rank, started like torchrun's (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT)

WAY: gpipe, 1f1b, interleaved (ScheduleGPipe, Schedule1F1B, ScheduleInterleaved1F1B), ddp (DistributedDataParallel). MODEL: char-gpt (12 blocks of
256, 4 heads, 128 bytes of text; Adam), vgg16 and alexnet (224 x 224, 1000 classes; SGD with momentum). --cut: layers of each stage along the
model; of char-gpt blocks, of the others convolutions and fully connected layers. Interleaved has twice as many stages as ranks. The batch
is that of all ranks. Tokens are one parameter of the first and the last stage of char-gpt: the two sum its gradients. grown_mib: what a
rank held at most, beyond what it held before it had a model.
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

CONTEXT, WIDTH, HEADS, LAYERS, BYTES = 128, 256, 4, 12, 256
VGG16 = (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0)  # 0: pooling


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("way", choices=["gpipe", "1f1b", "interleaved", "ddp"])
    parser.add_argument("model", choices=["char-gpt", "vgg16", "alexnet"])
    parser.add_argument("--cut", default="3,3,3,3")
    parser.add_argument("--micro-batches", type=int, default=4)
    parser.add_argument("--batch", type=int, default=32, help="samples of a step")
    parser.add_argument("--steps", type=int, default=8, help="measured, after two more")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=0, help="of a rank; 0: as many as it may use cores")
    parser.add_argument("--ranks", type=int, default=0, help="start that many; 0: this process is a rank")
    parser.add_argument("--hosts")
    parser.add_argument("--ssh")
    parser.add_argument("--insecure", action="store_true", help="taken and ignored")
    return parser.parse_args()


def start_all(options):
    """A process per rank; what the first prints is printed here."""
    hosts = [line.split()[0] for line in open(options.hosts)] if options.hosts else []
    port = 29402
    if not hosts:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
    own = [options.way, options.model, "--cut", options.cut, "--micro-batches", options.micro_batches, "--batch", options.batch,
           "--steps", options.steps, "--seed", options.seed, "--threads", options.threads]
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


def char_gpt(torch):
    """Blocks in order; the first has the tables of tokens and positions before it, the last the norm and the logits behind it."""
    nn = torch.nn

    class Begin(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.positions = nn.Embedding(BYTES, WIDTH), nn.Parameter(torch.zeros(CONTEXT, WIDTH))

        def forward(self, ids):
            return self.tokens(ids) + self.positions

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.qkv, self.back = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            self.wide = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(approximate="tanh"), nn.Linear(4 * WIDTH, WIDTH))

        def forward(self, x):
            cut = [t.view(*x.shape[:2], HEADS, -1).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, -1)]
            mixed = nn.functional.scaled_dot_product_attention(*cut, is_causal=True)
            x = x + self.back(mixed.transpose(1, 2).reshape(x.shape))
            return x + self.wide(self.norm2(x))

    layers = [[Block()] for _ in range(LAYERS)]
    layers[0].insert(0, Begin())
    layers[-1] += [nn.LayerNorm(WIDTH), nn.Linear(WIDTH, BYTES, bias=False)]
    return layers


def dense(nn, inner):
    return [[nn.Flatten(), nn.Dropout(), nn.Linear(inner, 4096), nn.ReLU()], [nn.Dropout(), nn.Linear(4096, 4096), nn.ReLU()],
            [nn.Linear(4096, 1000)]]


def vgg16(torch):
    nn, layers, before = torch.nn, [], 3
    for channels in VGG16:
        if channels == 0:
            layers[-1].append(nn.MaxPool2d(2))
        else:
            layers.append([nn.Conv2d(before, channels, 3, 1, 1), nn.ReLU()])
            before = channels
    return layers + dense(nn, 512 * 7 * 7)


def alexnet(torch):
    nn = torch.nn
    pool = lambda: nn.MaxPool2d(3, 2)
    layers = [[nn.Conv2d(3, 64, 11, 4, 2), nn.ReLU(), pool()], [nn.Conv2d(64, 192, 5, 1, 2), nn.ReLU(), pool()],
              [nn.Conv2d(192, 384, 3, 1, 1), nn.ReLU()], [nn.Conv2d(384, 256, 3, 1, 1), nn.ReLU()],
              [nn.Conv2d(256, 256, 3, 1, 1), nn.ReLU(), pool()]]
    return layers + dense(nn, 256 * 6 * 6)


MODELS = {"char-gpt": char_gpt, "vgg16": vgg16, "alexnet": alexnet}


def inputs(options, samples, torch):
    if options.model == "char-gpt":
        text = torch.randint(BYTES, (samples, CONTEXT + 1))
        return text[:, :-1].contiguous(), text[:, 1:].contiguous()
    return torch.randn(samples, 3, 224, 224), torch.randint(1000, (samples,))


def loss_of(torch):
    return lambda out, y: torch.nn.functional.cross_entropy(out.flatten(0, -2), y.flatten())


class Pipeline:
    """The stages of a rank, number rank and, interleaved, rank + world along the model."""

    def __init__(self, options, layers, rank, world, torch):
        from torch.distributed import pipelining
        cut = [int(n) for n in options.cut.split(",")]
        each = 2 if options.way == "interleaved" else 1
        if len(cut) != world * each or sum(cut) != len(layers):
            sys.exit(f"--cut: got {options.cut}, expected {world * each} numbers whose sum is {len(layers)}")
        self.first, self.last = rank == 0, rank == world - 1
        self.modules, stages = [], []
        for number in range(rank, len(cut), world):
            own = layers[sum(cut[:number]):sum(cut[:number + 1])]
            self.modules.append(torch.nn.Sequential(*(part for layer in own for part in layer)))
            stages.append(pipelining.PipelineStage(self.modules[-1], number, len(cut), torch.device("cpu")))
        kinds = {"gpipe": pipelining.ScheduleGPipe, "1f1b": pipelining.Schedule1F1B, "interleaved": pipelining.ScheduleInterleaved1F1B}
        given = stages if options.way == "interleaved" else stages[0]
        self.schedule = kinds[options.way](given, options.micro_batches, loss_fn=loss_of(torch))
        self.tied = []
        if options.model == "char-gpt":
            ends = torch.distributed.new_group([0, world - 1])
            self.tied = [(m.weight, ends) for s in self.modules for m in s.modules()
                         if isinstance(m, torch.nn.Embedding) or (isinstance(m, torch.nn.Linear) and m.bias is None)]
        for weight, ends in self.tied:
            torch.distributed.broadcast(weight.data, 0, group=ends)

    def parameters(self):
        return [p for m in self.modules for p in m.parameters()]

    def backward(self, x, y, distributed):
        given = (x,) if self.first else ()
        self.schedule.step(*given, **({"target": y, "losses": []} if self.last else {}), return_outputs=False)
        for weight, ends in self.tied:
            distributed.all_reduce(weight.grad, group=ends)


class Replica:
    def __init__(self, layers, torch):
        self.net = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*(part for layer in layers for part in layer)))
        self.loss = loss_of(torch)

    def parameters(self):
        return self.net.parameters()

    def backward(self, x, y, _):
        self.loss(self.net(x), y).backward()


def resident():
    """MiB at most so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


def train(options):
    import torch
    from torch import distributed
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.set_num_threads(options.threads or len(os.sched_getaffinity(0)))
    distributed.init_process_group("gloo")
    torch.manual_seed(options.seed)
    empty = resident()
    layers = MODELS[options.model](torch)
    is_replica = options.way == "ddp"
    net = Replica(layers, torch) if is_replica else Pipeline(options, layers, rank, world, torch)
    del layers
    x, y = inputs(options, options.batch // world if is_replica else options.batch, torch)
    if options.model == "char-gpt":
        optimizer = torch.optim.Adam(net.parameters(), lr=0.001)
    else:
        optimizer = torch.optim.SGD(net.parameters(), lr=0.001, momentum=0.9)
    seconds = []
    for step in range(options.steps + 2):
        distributed.barrier()
        start = time.perf_counter()
        optimizer.zero_grad()
        net.backward(x, y, distributed)
        optimizer.step()
        distributed.barrier()
        if step >= 2:
            seconds.append(time.perf_counter() - start)
    peaks = [None] * world
    distributed.all_gather_object(peaks, (resident(), resident() - empty))
    if rank == 0:
        middle = statistics.median(seconds)
        print(json.dumps({"way": options.way, "world": world, "step_seconds": middle, "samples_per_second": options.batch / middle,
                          "all": seconds, "peak_mib": [p for p, _ in peaks], "grown_mib": [g for _, g in peaks],
                          "torch": torch.__version__}))
    distributed.barrier()
    distributed.destroy_process_group()
    return 0


if __name__ == "__main__":
    given = arguments()
    sys.exit(start_all(given) if given.ranks else train(given))
