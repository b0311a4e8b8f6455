"""What the studies of bench/replicas work with: runs that are kept, the page, hosts of network namespaces."""
import json, os, shutil, signal, subprocess, sys, tempfile

from replicas_plot import lines

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CLUSTER = os.path.join(ROOT, "tools", "netns_cluster")


class Lab:
    """Makes runs, keeps their results, collects the page."""

    def __init__(self, args):
        self.args, self.quick, self.study, self.running = args, args.quick, "", False
        self.page, self.failures, self.results = [], [], {}
        if os.path.exists(args.out):
            with open(args.out) as file:
                self.results = json.load(file)

    # ---- runs
    def kept(self, label, line, parse):
        """The result called `label` of this study; made where it is missing and the study was asked for. None: there is none."""
        key = f"{self.study}/{label}"
        if key in self.results or not self.running:
            return self.results.get(key)
        process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, start_new_session=True)
        try:
            out, err = process.communicate(timeout=self.args.timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return self.failed(key, line, f"did not end in {self.args.timeout} s")
        if process.returncode != 0:
            return self.failed(key, line, f"code {process.returncode}: {(err.strip().splitlines() or ['no message'])[-1]}")
        self.results[key] = parse(out)
        print(f"{key}: done", flush=True)
        os.makedirs(os.path.dirname(self.args.out), exist_ok=True)
        with open(self.args.out, "w") as file:
            json.dump(self.results, file, indent=1)
        return self.results[key]

    def failed(self, key, line, why):
        print(f"{key}: {why}\n    {' '.join(line)}", file=sys.stderr, flush=True)
        self.failures.append((key, why))
        return None

    def train(self, label, job, workers, sets, more=()):
        """summary.json of a real run."""
        folder = tempfile.mkdtemp(prefix="trireme-replicas-")
        line = [self.args.command, "train"] + ([job] if job else []) + ["--workers", str(workers), "--quiet", "--json", "--run-dir",
                folder + "/run", "--set", "train.events=false"] + list(sets) + list(more)
        try:
            return self.kept(label, line, json.loads)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def simulate(self, label, job, ranks, sets, more=(), real=False, algorithm="ring"):
        """The row that `trireme simulate --json` prints."""
        line = [self.args.command, "simulate"] + ([job] if job else []) + ["--ranks", str(ranks), "--json", "--algorithm", algorithm,
                "--compute", "real" if real else "phantom", *more, "--set", f"parallel.workers={ranks}"] + list(sets)
        return self.kept(label, line, lambda out: json.loads(out)[0])

    # ---- what is trained
    def mnist(self):
        """The MNIST CNN, or in small a network on the built-in digits: job file, keys, accuracy to reach."""
        if self.quick:
            return None, ["model.name=mlp", "data.limit_train=1200", "data.limit_test=200", "train.epochs=6",
                          "train.eval_steps=10"], 0.6
        job = os.path.join(ROOT, "recipes", "mnist-lenet.toml")
        path = [f"data.path={self.args.mnist}"] if self.args.mnist else []
        return job, path + ["train.epochs=12", "train.eval_steps=100", "data.limit_test=2000", "train.checkpoint_steps=100000"], 0.985

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
        if any(points for points in args[2].values()) if draw is lines else args[1]:
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


class Namespaces:
    """Hosts of network namespaces at a rate, and a stand-in for ssh that runs a command in one of them."""

    def __init__(self, lab, hosts, rate):
        self.folder = tempfile.mkdtemp(prefix="trireme-replicas-")
        self.hosts, self.rate, self.up = hosts, rate, False
        self.env = dict(os.environ, NETNS_CLUSTER=f"study{os.getpid()}")
        self.wanted = lab.running

    def __enter__(self):
        if not self.wanted:
            return self
        made = subprocess.run([CLUSTER, "up", str(self.hosts), self.rate], env=self.env, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True)
        self.up, self.why = made.returncode == 0, made.stderr.strip()
        with open(self.folder + "/hosts", "w") as file:
            file.writelines(f"10.77.0.{h + 1}\n" for h in range(self.hosts))
        with open(self.folder + "/ssh", "w") as file:
            file.write(f"#!/bin/sh\nhost=${{1##*.}}; shift\nNETNS_CLUSTER={self.env['NETNS_CLUSTER']} exec '{CLUSTER}' run $((host - 1)) "
                       "sh -c \"$*\"\n")
        os.chmod(self.folder + "/ssh", 0o755)
        return self

    def options(self):
        return ["--hosts", self.folder + "/hosts", "--ssh", self.folder + "/ssh", "--insecure"]

    def __exit__(self, *_):
        if self.up:
            subprocess.run([CLUSTER, "down"], env=self.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        shutil.rmtree(self.folder, ignore_errors=True)
