"""What the studies of bench/replicas work with: runs that are kept, and the page."""
import json, os, re, sys, time

from replicas_plot import lines
from replicas_runs import ROOT, Run, run_all


class Lab:
    """Collects the runs that studies want, keeps their results, collects the page."""

    def __init__(self, args):
        self.args, self.quick, self.study, self.running = args, args.quick, "", False
        self.page, self.wanted, self.results, self.drawing = [], [], {}, False
        if os.path.exists(args.out):
            with open(args.out) as file:
                self.results = json.load(file)
        if args.retry:
            self.results = {key: r for key, r in self.results.items() if "failed" not in r}

    # ---- runs
    def kept(self, label, line, parse, **how):
        """The result called `label` of this study. Where there is none and the study was asked for it is put on the list of runs to make;
        None: there is none yet."""
        key = f"{self.study}/{label}"
        if key not in self.results and self.running and re.search(self.args.only, key):
            self.wanted.append(Run(key, line, parse, **how))
        result = self.results.get(key)
        return None if result is None or "failed" in result else result

    def make(self):
        """Makes the runs that are wanted; commands that several studies share are run once. Returns how many are left."""
        known = {r["bench_command"]: r for r in self.results.values() if "bench_command" in r}
        runs = {}
        for run in self.wanted:
            if run.name in known:
                self.results[run.keys[0]] = known[run.name]
            elif run.name in runs:
                runs[run.name].keys += run.keys
            else:
                runs[run.name] = run
        self.wanted = []
        until = time.monotonic() + self.args.budget if self.args.budget else None
        left = run_all(list(runs.values()), self.args.jobs, until, self.args.timeout, self.ended)
        self.write()
        return left

    def ended(self, run, result, why):
        if why:
            print(f"{run.keys[0]}: {why}\n    {run.name}", file=sys.stderr, flush=True)
            result = {"failed": why}
        else:
            print(f"{', '.join(run.keys)}: {result['bench_seconds']:.0f} s", flush=True)
        self.results.update({key: result for key in run.keys})
        self.write()

    def write(self):
        os.makedirs(os.path.dirname(self.args.out), exist_ok=True)
        with open(self.args.out + ".new", "w") as file:
            json.dump(self.results, file, indent=1)
        os.replace(self.args.out + ".new", self.args.out)

    def failures(self):
        return [(key, r["failed"]) for key, r in self.results.items() if "failed" in r]

    def train(self, label, job, workers, sets, more=(), alone=False, rate=None):
        """summary.json of a real run; with a rate on hosts of its own behind such links."""
        line = lambda folder: [self.args.command, "train"] + ([job] if job else []) + ["--workers", str(workers), "--quiet", "--json", "--run-dir",
                               folder + "/run", "--set", "train.events=false"] + list(sets) + list(more)
        return self.kept(label, line, json.loads, cores=workers, alone=alone, rate=rate)

    def simulate(self, label, job, ranks, sets, more=(), real=False, algorithm="ring"):
        """The row that `trireme simulate --json` prints."""
        line = [self.args.command, "simulate"] + ([job] if job else []) + ["--ranks", str(ranks), "--json", "--algorithm", algorithm,
                "--compute", "real" if real else "phantom", *more, "--set", f"parallel.workers={ranks}"] + list(sets)
        return self.kept(label, lambda _: line, lambda out: json.loads(out)[0])

    # ---- what is trained
    def mnist(self):
        """The MNIST CNN, or in small a network on the built-in digits: job file, keys, accuracy to reach."""
        if self.quick:
            return None, ["model.name=mlp", "data.limit_train=1200", "data.limit_test=200", "train.epochs=6",
                          "train.eval_steps=10"], 0.6
        job = os.path.join(ROOT, "recipes", "mnist-lenet.toml")
        path = [f"data.path={self.args.mnist}"] if self.args.mnist else []
        return job, path + ["train.epochs=6", "train.eval_steps=100", "data.limit_test=2000", "train.checkpoint_steps=100000"], 0.985

    # ---- the page
    def text(self, *lines_):
        self.page += [*lines_, ""]

    def table(self, head, rows):
        if not rows:
            self.text("Not measured yet.")
            return
        self.page += ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
        self.page += ["| " + " | ".join(str(c) for c in row) + " |" for row in rows] + [""]

    def plot(self, draw, name, *args, **kw):
        if self.drawing and (any(points for points in args[2].values()) if draw is lines else args[1]):
            folder = os.path.splitext(self.args.page)[0]
            os.makedirs(folder, exist_ok=True)
            with open(os.path.join(folder, name + ".svg"), "w") as file:
                file.write(draw(*args, **kw))
            self.text(f"![{args[0]}]({os.path.basename(folder)}/{name}.svg)")


def keys(sets):
    return ["--set", *sets] if sets else []


def seconds(s):
    return f"{s:.1f} s" if s >= 10 else f"{s:.2f} s" if s >= 1 else f"{s * 1e3:.1f} ms" if s >= 1e-3 else f"{s * 1e6:.0f} us"


def percent(x):
    return f"{100 * x:.1f} %"
