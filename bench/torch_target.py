#!/usr/bin/env python3
"""PyTorch's DistributedDataParallel over Gloo trains the network of recipes/mnist-mlp.toml until an accuracy is reached: one process per
worker, one thread each, SGD with momentum at a fixed rate. Prints one JSON object. Needs torch; bench/compression starts it.

  torch_target.py --mnist DIR [--hook none|fp16|powersgd] [--workers 4] [--batch 128] [--lr 0.05] [--target 0.95] [--eval 50] [--steps 1000]
                  [--hosts FILE --ssh COMMAND]     a process on each host of the file (as of trireme train); without: on this one

wall_seconds counts from the first step, after a barrier, to the evaluation that reached the target; every worker evaluates its part of the
first 2,000 test pictures. Without --mnist pictures are noise around a centre per class.
"""
import argparse, gzip, json, os, socket, subprocess, sys, time

TEST, CLASSES = 2000, 10


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mnist")
    parser.add_argument("--hook", choices=("none", "fp16", "powersgd"), default="none")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--batch", type=int, default=128, help="of all workers together")
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--target", type=float, default=0.95)
    parser.add_argument("--eval", type=int, default=50, help="steps between evaluations")
    parser.add_argument("--steps", type=int, default=1000, help="at most")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--hosts")
    parser.add_argument("--ssh")
    parser.add_argument("--insecure", action="store_true", help="taken and ignored")
    parser.add_argument("--rank", type=int, help="of this process; without it all of them are started")
    parser.add_argument("--address", default="127.0.0.1")
    parser.add_argument("--port", type=int)
    return parser.parse_args()


def start_all(args):
    """A process per worker; what the first prints is printed here."""
    hosts = [line.split()[0] for line in open(args.hosts)] if args.hosts else []
    port = 29401
    if not hosts:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
    own = [a for a in sys.argv[1:] if a != "--insecure"]
    for option in ("--hosts", "--ssh"):
        if option in own:
            del own[own.index(option):own.index(option) + 2]
    running = []
    for rank in range(args.workers):
        line = [sys.executable, os.path.abspath(__file__), *own, "--rank", str(rank), "--port", str(port)]
        if hosts:
            line = [args.ssh, hosts[rank], " ".join(line + ["--address", hosts[0]])]
        running.append(subprocess.Popen(line, stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL, text=True))
    out = running[0].communicate()[0]
    codes = [process.wait() for process in running]
    sys.stdout.write(out)
    return max(codes, key=abs)


def pictures(args, torch):
    """(train x, y, test x, y), pixels with mean 0 and deviation 1."""
    if not args.mnist:
        noise = torch.Generator().manual_seed(1)
        y = torch.randint(CLASSES, (8192 + TEST,), generator=noise)
        x = torch.randn(CLASSES, 784, generator=noise)[y] + torch.randn(len(y), 784, generator=noise)
        return x[:-TEST], y[:-TEST], x[-TEST:], y[-TEST:]

    def read(name, skip):
        path = os.path.join(args.mnist, name)
        with gzip.open(path + ".gz") if os.path.exists(path + ".gz") else open(path, "rb") as file:
            return torch.frombuffer(bytearray(file.read()[skip:]), dtype=torch.uint8)

    sets = []
    for name in ("train", "t10k"):
        sets.append((read(f"{name}-images-idx3-ubyte", 16).view(-1, 784).float() / 255 - 0.1307) / 0.3081)
        sets.append(read(f"{name}-labels-idx1-ubyte", 8).long())
    return sets[0], sets[1], sets[2][:TEST], sets[3][:TEST]


def hook(net, name):
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
    if name == "fp16":
        net.register_comm_hook(None, default_hooks.fp16_compress_hook)
    elif name == "powersgd":  # as early as the hook allows, so that hardly a step is dense
        state = powerSGD_hook.PowerSGDState(process_group=None, matrix_approximation_rank=2, start_powerSGD_iter=2)
        net.register_comm_hook(state, powerSGD_hook.powerSGD_hook)


def train(args):
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # where there is a GPU the hook of PowerSGD waits for it, with gradients of the CPU too, and fails
    import torch
    from torch import distributed, nn
    torch.set_num_threads(1)
    if args.address != "127.0.0.1":
        os.environ["GLOO_SOCKET_IFNAME"] = "eth0"
    distributed.init_process_group("gloo", init_method=f"tcp://{args.address}:{args.port}", rank=args.rank, world_size=args.workers)
    x, y, test_x, test_y = pictures(args, torch)
    torch.manual_seed(args.seed)
    net = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Dropout(0.2), nn.Linear(512, 512), nn.ReLU(), nn.Dropout(0.2), nn.Linear(512, CLASSES))
    # The hook of PowerSGD starts sums from callbacks; over Gloo workers take those of two buckets in different orders and fail.
    net = nn.parallel.DistributedDataParallel(net, **({"bucket_cap_mb": 100} if args.hook == "powersgd" else {}))
    hook(net, args.hook)
    optimizer, loss = torch.optim.SGD(net.parameters(), lr=args.lr, momentum=0.9), nn.CrossEntropyLoss()
    order, each = torch.Generator().manual_seed(args.seed), args.batch // args.workers
    part = slice(args.rank, None, args.workers)
    distributed.barrier()
    begin, step, accuracy, picked = time.perf_counter(), 0, 0.0, torch.empty(0, dtype=torch.long)
    while step < args.steps and accuracy < args.target:
        if len(picked) < args.batch:
            picked = torch.randperm(len(x), generator=order)
        mine, picked = picked[args.rank * each:(args.rank + 1) * each], picked[args.batch:]
        optimizer.zero_grad()
        loss(net(x[mine]), y[mine]).backward()
        optimizer.step()
        step += 1
        if step % args.eval == 0 or step == args.steps:
            net.eval()
            with torch.no_grad():
                right = (net.module(test_x[part]).argmax(1) == test_y[part]).sum().double().reshape(1)
            net.train()
            distributed.all_reduce(right)
            accuracy = right.item() / len(test_y)
    wall = time.perf_counter() - begin
    if args.rank == 0:
        print(json.dumps({"hook": args.hook, "workers": args.workers, "steps": step, "wall_seconds": wall, "test_accuracy": accuracy,
                          "measured_step_seconds": wall / step, "torch": torch.__version__}), flush=True)
    distributed.barrier()
    distributed.destroy_process_group()
    return 0


if __name__ == "__main__":
    given = arguments()
    sys.exit(start_all(given) if given.rank is None else train(given))
