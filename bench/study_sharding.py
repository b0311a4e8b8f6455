#!/usr/bin/env python3
"""A model whose gradients are long and activations short, as replicas and cut over workers, on links of one rate.

  python3 bench/study_sharding.py BINARY [--rounds 3] [--rate 1gbit | --one-host] [--ranks 4] [--torch PYTHON]

Makes hosts (tools/netns_cluster, root only), trains speech-42m with a batch of 64 on every one of them by turns, and prints
the median of the steps but two, and bytes per step. --one-host: ranks of this machine, ours through shared memory. --torch: an interpreter that has
PyTorch, which does the same over Gloo (bench/torch_sharded.py). The tables of docs/studies/sharding.md are its output.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
CLUSTER = str(ROOT / "tools/netns_cluster")
JOB = ["model.name=speech-42m", "data.kind=synthetic", "data.shape=440", "data.classes=8192", "data.limit_train=640",
       "data.limit_test=64", "train.batch=64", "train.steps=10"]


def address(rank, one_host):
    if one_host:
        return "127.0.0.1"
    return subprocess.run([CLUSTER, "address", str(rank)], capture_output=True, text=True, check=True).stdout.strip()


# Which cores a rank may use: its share of all, or one that it shares with others.
def cores_of(rank, ranks):
    cores = sorted(os.sched_getaffinity(0))
    if ranks >= len(cores):
        return [cores[rank % len(cores)]]
    return cores[rank * len(cores) // ranks:(rank + 1) * len(cores) // ranks]


# One process per rank, on its host and its cores. Yields what rank 0 printed.
def run_ranks(options, command, port):
    running = []
    for rank in range(options.ranks):
        local = (rank, options.ranks) if options.one_host else (0, 1)
        environment = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(options.ranks), LOCAL_RANK=str(local[0]),
                           LOCAL_WORLD_SIZE=str(local[1]), MASTER_ADDR=address(0, options.one_host), MASTER_PORT=str(port),
                           GLOO_SOCKET_IFNAME="lo" if options.one_host else "eth0")
        place = [] if options.one_host else [CLUSTER, "run", str(rank)]
        pinned = ["taskset", "-c", ",".join(map(str, cores_of(rank, options.ranks)))]
        running.append(subprocess.Popen(pinned + place + command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    said = [process.communicate(timeout=600) for process in running]
    for rank, process in enumerate(running):
        if process.returncode != 0:
            sys.exit(f"rank {rank} ended with {process.returncode}:\n{said[rank][1]}")
    return said[0][0]


def train(options, keys):
    transport = [] if options.one_host else ["parallel.transport=tcp"]
    with tempfile.TemporaryDirectory() as folder:
        insecure = [] if options.one_host else ["--insecure"]
        run_ranks(options, [options.binary, "train", *insecure, "--quiet", "--run-dir", f"{folder}/run", "--set",
                            *JOB, *transport, *keys], 29600)
        summary = json.loads(pathlib.Path(folder, "run/summary.json").read_text())
        lines = pathlib.Path(folder, "run/metrics.jsonl").read_text().splitlines()
    ends = [line["seconds"] for line in map(json.loads, lines) if "loss" in line]
    steps = [after - before for before, after in zip(ends[1:], ends[2:])]  # the first two are for warming up, as with PyTorch
    return statistics.median(steps), f"{summary['bytes_sent_per_step'] / 1e6:8.1f} MB sent per step by rank 0"


def train_torch(options, way):
    said = run_ranks(options, [options.torch, str(ROOT / "bench/torch_sharded.py"), way, "speech-42m"], 29700)
    found = json.loads(said.strip().splitlines()[-1])
    return found["step_seconds"], f"PyTorch {found['torch']}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", type=os.path.realpath)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--one-host", action="store_true")
    parser.add_argument("--torch", help="an interpreter that has PyTorch")
    options = parser.parse_args()
    ways = {"replicas (data)": lambda: train(options, []),
            "cut (model), tensor": lambda: train(options, [f"parallel.mesh=model={options.ranks}", "parallel.style=tensor"])}
    if options.torch:
        ways["PyTorch DDP"] = lambda: train_torch(options, "ddp")
        ways["PyTorch tensor parallel"] = lambda: train_torch(options, "tp")
    if not options.one_host:
        subprocess.run([CLUSTER, "up", str(options.ranks), options.rate], check=True, stdout=subprocess.DEVNULL)
    try:
        for round_number in range(1, options.rounds + 1):
            seconds = {}
            for name, way in ways.items():
                seconds[name], more = way()
                print(f"round {round_number}  {name:<24} {seconds[name]:8.4f} s  {more}", flush=True)
            cut = seconds["cut (model), tensor"]
            print(f"round {round_number}  times as long as cut: " +
                  ", ".join(f"{name} {s / cut:.2f}" for name, s in seconds.items() if s != cut), flush=True)
    finally:
        if not options.one_host:
            subprocess.run([CLUSTER, "down"], check=False, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
