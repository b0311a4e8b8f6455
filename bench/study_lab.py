"""What scripts of studies work with: runs that are kept, the page, the command line. A study is one function and one row of a table
{name: (function, title)}, or (function, title, the command that its page shows); the same function asks for what is missing and draws
what is there."""
import argparse, json, os, re, shutil, sys, tempfile, textwrap, time

import study_plot
from study_runs import ROOT, Run, run_all


class Lab:
    """Collects the runs that studies want, keeps their results, collects the page."""

    def __init__(self, args):
        self.args, self.quick, self.study, self.running = args, args.quick, "", False
        self.page, self.wanted, self.results = [], [], {}
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
    def text(self, *paragraphs):
        for p in paragraphs:
            as_it_is = p.startswith(("#", "    ", "!"))
            self.page += [p] if as_it_is else textwrap.wrap(p, 110, break_long_words=False, break_on_hyphens=False)
        self.page.append("")

    def table(self, head, rows):
        if not rows:
            self.text("Not measured yet.")
            return
        self.page += ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
        self.page += ["| " + " | ".join(str(c) for c in row) + " |" for row in rows] + [""]

    def figure(self, name, alt):
        """The figure of that name in study_plot.FIGURES, drawn from the tables of the page once it is written."""
        self.text(f"![{alt}]({os.path.basename(os.path.splitext(self.args.page)[0])}/{name}.svg)")


def keys(sets):
    return ["--set", *sets] if sets else []


def seconds(s):
    return f"{s:.1f} s" if s >= 10 else f"{s:.2f} s" if s >= 1 else f"{s * 1e3:.1f} ms" if s >= 1e-3 else f"{s * 1e6:.0f} us"


def percent(x):
    return f"{100 * x:.1f} %"


def arguments(script, doc, options):
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("studies", nargs="*", metavar="STUDY", help="default: all")
    parser.add_argument("--mnist", help="folder of the four IDX files (default: data/mnist)")
    parser.add_argument("--torch", metavar="PYTHON", help="a Python that has torch: measures PyTorch too")
    parser.add_argument("--command", default=os.path.join(ROOT, "run"), help="how to start trireme (default: ./run)")
    parser.add_argument("--jobs", type=int, default=1, metavar="CORES", help="cores for runs beside each other (default 1: one after another)")
    parser.add_argument("--budget", type=float, default=0, metavar="SECONDS", help="no run starts after it (default: none)")
    parser.add_argument("--only", default="", metavar="REGEX", help="of the runs of the studies, those whose name (STUDY/RUN) has it")
    parser.add_argument("--retry", action="store_true", help="make runs again that failed")
    parser.add_argument("--no-page", action="store_true", help="results only")
    parser.add_argument("--timeout", type=int, default=0, help="seconds for a run (default: 3600, with --quick 60)")
    parser.add_argument("--quick", action="store_true", help="everything in small, kept apart")
    parser.add_argument("--out", help="where results are kept (default: build/SCRIPT.json, with --quick build/SCRIPT-quick.json)")
    parser.add_argument("--page", help="the page to write (default: docs/studies/SCRIPT.md, with --quick build/SCRIPT-quick.md)")
    parser.add_argument("--list", action="store_true", help="list the studies and end")
    parser.add_argument("--draw", action="store_true", help="write the page from what is kept, run nothing")
    options(parser)
    args = parser.parse_args()
    args.timeout = args.timeout or (60 if args.quick else 3600)
    name = script + "-quick" if args.quick else script
    args.out = os.path.abspath(args.out or os.path.join(ROOT, "build", name + ".json"))
    page = os.path.join(ROOT, "build", name + ".md") if args.quick else os.path.join(ROOT, "docs", "studies", name + ".md")
    args.page = os.path.abspath(args.page or page)
    args.command = os.path.abspath(args.command)
    if args.mnist:
        args.mnist = os.path.abspath(args.mnist)
    return args


def main(script, studies, title, intro, doc, options=lambda parser: None):
    """bench/SCRIPT: its studies, the head of its page, its options beside those of all."""
    args = arguments(script, doc, options)
    if args.list:
        for name, (_, what, *_) in studies.items():
            print(f"{name:16} {what}")
        return 0
    unknown = [s for s in args.studies if s not in studies]
    if unknown:
        sys.exit(f"{script}: no study is called '{unknown[0]}'; there are: {', '.join(studies)}")
    lab = Lab(args)
    left = 0
    lab.folder = tempfile.mkdtemp(prefix="trireme-clusters-")
    try:
        if not args.draw:
            collect(lab, studies)
            left = lab.make()
            print(f"{left} runs are left for another go" if left else "no run is left")
        if not args.no_page:
            draw(lab, script, studies, title, intro)
    finally:
        shutil.rmtree(lab.folder, ignore_errors=True)
    return 1 if left or lab.failures() else 0


def collect(lab, studies):
    for name, (study, *_) in studies.items():
        lab.study, lab.running = name, not lab.args.studies or name in lab.args.studies
        study(lab)
    lab.running = False


def write_page(page, lines):
    os.makedirs(os.path.dirname(page), exist_ok=True)
    with open(page, "w") as file:
        file.write(re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n")


def draw(lab, script, studies, title, intro):
    lab.page, page = [], lab.args.page
    lab.text(f"# {title}")
    lab.text(intro)
    if lab.quick:
        lab.text("**Made with `--quick`: too small to mean anything.**")
    for name, (study, what, *command) in studies.items():
        lab.study = name
        lab.text(f"## {what}")
        lab.text("    " + (command[0] if command else f"bench/{script} --mnist DIR {name}"))
        study(lab)
    failures = lab.failures()
    if failures:
        lab.text("## Runs that failed")
        lab.table(["run", "why"], [[key, why.replace("|", "/")] for key, why in failures])
    write_page(page, lab.page)
    drawn = study_plot.run(page, script) if lab.results else []
    write_page(page, [line for line in lab.page if not line.startswith("![") or re.search(r"([^/]+)\.svg\)$", line)[1] in drawn])
    print(f"written: {page}" + (f"; {len(failures)} runs failed" if failures else ""))
