#!/usr/bin/env python3
"""A model whose gradients are long and activations short, as replicas and cut over workers, on links of one rate.

  python3 bench/study_sharding.py BINARY [--rounds 3] [--rate 1gbit] [--ranks 4]

Makes hosts (tools/netns_cluster, root only), trains speech-42m with a batch of 64 on every one of them by turns, and prints
seconds and bytes per step. The tables of docs/studies/sharding.md are its output.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
CLUSTER = str(ROOT / "tools/netns_cluster")
JOB = ["model.name=speech-42m", "data.kind=synthetic", "data.shape=440", "data.classes=8192", "data.limit_train=640",
       "data.limit_test=64", "train.batch=64", "train.steps=6", "parallel.transport=tcp"]


def address(rank):
    return subprocess.run([CLUSTER, "address", str(rank)], capture_output=True, text=True, check=True).stdout.strip()


def train(binary, ranks, keys):
    with tempfile.TemporaryDirectory() as folder:
        running = []
        for rank in range(ranks):
            environment = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_RANK="0", LOCAL_WORLD_SIZE="1",
                               MASTER_ADDR=address(0), MASTER_PORT="29600")
            command = [CLUSTER, "run", str(rank), binary, "train", "--insecure", "--quiet", "--run-dir", f"{folder}/run",
                       "--set", *JOB, *keys]
            running.append(subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True))
        for rank, process in enumerate(running):
            errors = process.communicate(timeout=300)[1]
            if process.returncode != 0:
                sys.exit(f"rank {rank} ended with {process.returncode}:\n{errors}")
        return json.loads(pathlib.Path(folder, "run/summary.json").read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", type=os.path.realpath)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--ranks", type=int, default=4)
    options = parser.parse_args()
    ways = {"replicas (data)": [], "cut (model), tensor": [f"parallel.mesh=model={options.ranks}", "parallel.style=tensor"]}
    subprocess.run([CLUSTER, "up", str(options.ranks), options.rate], check=True, stdout=subprocess.DEVNULL)
    try:
        for round_number in range(1, options.rounds + 1):
            seconds = {}
            for name, keys in ways.items():
                summary = train(options.binary, options.ranks, keys)
                seconds[name] = summary["measured_step_seconds"]
                print(f"round {round_number}  {name:<20} {seconds[name]:7.3f} s  "
                      f"{summary['bytes_sent_per_step'] / 1e6:8.1f} MB sent per step by rank 0", flush=True)
            first, second = seconds.values()
            print(f"round {round_number}  ratio {first / second:.1f}", flush=True)
    finally:
        subprocess.run([CLUSTER, "down"], check=False, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
