"""Runs of studies: each on cores of its own, several beside each other, results told as they come."""
import os, queue, shutil, signal, subprocess, tempfile, threading, time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LOOPBACK = "loopback"
CLUSTER = os.path.join(ROOT, "tools", "netns_cluster")


class Run:
    """One command. `line` is made from the run's own folder; `cores` is how many it keeps busy; `alone`: its time is what is measured,
    so nothing runs beside it; `rate`: of the links of a cluster of namespaces with as many hosts as it has workers, or "loopback": this
    host's own (its result then has `kernel_bytes`, what the interfaces sent)."""

    def __init__(self, key, line, parse, cores=1, alone=False, rate=None):
        self.keys, self.line, self.parse, self.cores, self.alone, self.rate = [key], line, parse, cores, alone or bool(rate), rate
        self.name = " ".join(line("FOLDER")[1:]) + (f" links {rate}" if rate else "")  # what is run, whatever it is called

    def outcome(self, timeout, cores, started):
        """(result, None) or (None, why not). `started` gets the process as soon as there is one."""
        folder = tempfile.mkdtemp(prefix="trireme-study-")
        begin = time.monotonic()
        try:
            with Loopback() if self.rate == LOOPBACK else Namespaces(folder, self.cores if self.rate else 0, self.rate) as hosts:
                process = subprocess.Popen(self.line(folder) + hosts.options, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
                                           start_new_session=True, preexec_fn=(lambda: os.sched_setaffinity(0, cores)) if cores else None)
                started(process)
                out, err = process.communicate(timeout=timeout)
                sent = hosts.sent()
            if process.returncode != 0:
                return None, f"code {process.returncode}: {' | '.join(err.strip().splitlines()[-4:]) or 'no message'}"
            return dict(self.parse(out), **sent, bench_seconds=round(time.monotonic() - begin, 2), bench_command=self.name), None
        except subprocess.TimeoutExpired:
            kill(process)
            process.communicate()
            return None, f"did not end in {timeout} s"
        except (OSError, ValueError, LookupError, subprocess.CalledProcessError) as problem:
            return None, f"{type(problem).__name__}: {problem}"
        finally:
            shutil.rmtree(folder, ignore_errors=True)


class Namespaces:
    """Hosts of network namespaces at a rate, and a stand-in for ssh that runs a command in one of them. No hosts: nothing at all."""

    def __init__(self, folder, hosts, rate):
        self.folder, self.hosts, self.rate, self.options = folder, hosts, rate, []
        self.env = dict(os.environ, NETNS_CLUSTER=f"study{os.getpid()}")

    def __enter__(self):
        if not self.hosts:
            return self
        made = subprocess.run([CLUSTER, "up", str(self.hosts), self.rate], env=self.env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if made.returncode != 0:
            self.__exit__()
            raise OSError(made.stderr.strip() or "no namespaces")
        with open(self.folder + "/hosts", "w") as file:
            file.writelines(f"10.77.0.{h + 1}\n" for h in range(self.hosts))
        with open(self.folder + "/ssh", "w") as file:
            file.write(f"#!/bin/sh\nhost=${{1##*.}}; shift\nNETNS_CLUSTER={self.env['NETNS_CLUSTER']} exec '{CLUSTER}' run $((host - 1)) "
                       "sh -c \"$*\"\n")
        os.chmod(self.folder + "/ssh", 0o755)
        self.options = ["--hosts", self.folder + "/hosts", "--ssh", self.folder + "/ssh", "--insecure"]
        return self

    def sent(self):
        if not self.hosts:
            return {}
        return {"kernel_bytes": int(subprocess.run([CLUSTER, "bytes"], env=self.env, stdout=subprocess.PIPE, text=True, check=True).stdout)}

    def __exit__(self, *_):
        if self.hosts:
            subprocess.run([CLUSTER, "down"], env=self.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class Loopback:
    """This host alone; what its loopback interface carries meanwhile."""

    def __enter__(self):
        self.options, self.before = [], self.count()
        return self

    def count(self):
        with open("/sys/class/net/lo/statistics/tx_bytes") as file:
            return int(file.read())

    def sent(self):
        return {"kernel_bytes": self.count() - self.before}

    def __exit__(self, *_):
        pass


def kill(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def run_all(runs, jobs, until, timeout, done):
    """Runs them on `jobs` cores, those with most cores first and those that want to be alone last, and calls done(run, result, why)
    here as each ends. No run starts after `until` (monotonic seconds, or None). Returns how many were left."""
    own = sorted(os.sched_getaffinity(0))
    free = own[:jobs] if 1 < jobs <= len(own) else [None] * jobs  # None: a core that nobody is bound to
    pending = sorted(runs, key=lambda r: (r.alone, -r.cores))
    ended, active = queue.Queue(), {}

    def work(run, cores):
        bound = [c for c in cores if c is not None] if not run.alone else []
        ended.put((run, cores, run.outcome(timeout, bound, lambda process: active.__setitem__(run, process))))

    try:
        while pending or active:
            late = until is not None and time.monotonic() >= until
            need = min(jobs, jobs if pending and pending[0].alone else pending[0].cores) if pending and not late else 0
            if need and need <= len(free):
                run, cores, free = pending.pop(0), free[:need], free[need:]
                active[run] = None
                threading.Thread(target=work, args=(run, cores), daemon=True).start()
            elif active:
                run, cores, (result, why) = ended.get()
                del active[run]
                free = sorted(free + cores, key=lambda c: -1 if c is None else c)
                done(run, result, why)
            else:
                break
    finally:
        for process in active.values():
            if process:
                kill(process)
    return len(pending)
