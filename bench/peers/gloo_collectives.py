"""PyTorch-Gloo's side of `trireme bench`, one process per rank: gloo_collectives.py RANK WORLD STORE SOCKET.

Does what the driver asks for over its socket (trireme/measure/collective/work.h has the lines, start_line.h the page) and
reports the times. STORE is a file where the ranks meet.
"""
import gc
import mmap
import os
import socket
import struct
import sys
import time

BYTES, SEGMENT = 1, 2  # frames of a local stream
STRIDE = 64  # counters of the start line
MEETING_S = 60


class Driver:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.connect(path)
        self.lines = b""
        self.page = None
        self.fds = []

    def send_line(self, line):
        data = line.replace("\n", " ").encode() + b"\n"
        self.socket.sendall(struct.pack("<II", BYTES, len(data)) + data)

    def read_exact(self, count):
        data = b""
        while len(data) < count:
            got, fds, _, _ = socket.recv_fds(self.socket, count - len(data), 4)
            self.fds += fds
            if not got:
                raise EOFError
            data += got
        return data

    def read_frame(self):
        kind, count = struct.unpack("<II", self.read_exact(8))
        payload = self.read_exact(count)
        if kind == BYTES:
            self.lines += payload
        elif kind == SEGMENT:
            self.page = mmap.mmap(self.fds.pop(0), struct.unpack("<Q", payload)[0])

    def next_line(self):
        while b"\n" not in self.lines:
            self.read_frame()
        line, self.lines = self.lines.split(b"\n", 1)
        return line.decode()


class StartLine:
    def __init__(self, page, rank, world):
        self.counters = memoryview(page).cast("Q")
        self.mine = rank * STRIDE // 8
        self.others = [r * STRIDE // 8 for r in range(world) if r != rank]
        self.round = 0

    def meet(self, crowded):
        self.round += 1
        counters, target = self.counters, self.round
        counters[self.mine] = target
        deadline = time.monotonic() + MEETING_S
        for at in self.others:
            while counters[at] < target:
                if crowded:
                    time.sleep(20e-6)
                if time.monotonic() > deadline:
                    raise TimeoutError("a rank did not come to the start line")


class Measured:
    """The tensors of one kind of call, as trireme/measure/collective/rank.cc has them."""

    def __init__(self, torch, rank, world):
        self.torch, self.dist = torch, torch.distributed
        self.rank, self.world, self.setup = rank, world, None

    def set_up(self, kind, elems, in_place):
        torch, dist, rank, world = self.torch, self.dist, self.rank, self.world
        self.setup = (kind, elems, in_place)
        self.kind, block, root = kind, elems // world, rank == 0
        self.given = self.got = self.input = None
        total, part = (lambda: torch.zeros(elems)), (lambda: torch.zeros(block))
        if kind in ("allreduce", "reduce"):
            self.given = self.input = total()
            self.got = self.given if in_place else total()
            op = dist.all_reduce if kind == "allreduce" else lambda t: dist.reduce(t, 0)

            def call():
                if self.got is not self.given:  # Gloo has only the form in place
                    self.got.copy_(self.given)
                op(self.got)

        elif kind == "broadcast":
            self.given = self.got = self.input = total()
            call = lambda: dist.broadcast(self.got, 0)
        elif kind == "gather":
            self.got = total() if root else None
            self.input = self.got[:block] if in_place and root else part()
            blocks = list(self.got.split(block)) if root else None
            call = lambda: dist.gather(self.input, blocks, 0)
        elif kind == "scatter":
            self.input = total() if root else None
            self.got = part()
            blocks = list(self.input.split(block)) if root else None
            call = lambda: dist.scatter(self.got, blocks, 0)
        elif kind == "allgather":
            self.got = total()
            self.input = self.got[rank * block : (rank + 1) * block] if in_place else part()
            blocks = list(self.got.split(block))
            call = lambda: dist.all_gather(blocks, self.input)
        elif kind == "reduce_scatter":
            self.input, self.got = total(), part()
            call = lambda: dist.reduce_scatter_tensor(self.got, self.input)
        elif kind == "all_to_all":
            self.input, self.got = total(), total()
            call = lambda: dist.all_to_all_single(self.got, self.input)
        else:
            call = dist.barrier
        self.call = call

    def rewrite(self):
        if self.input is not None:
            self.input.fill_(self.rank + 1)

    def is_right(self):
        kind, world, torch = self.kind, self.world, self.torch
        if self.got is None or kind == "barrier" or (kind == "reduce" and self.rank != 0):
            return True
        if kind in ("allreduce", "reduce", "reduce_scatter"):
            expected = torch.tensor(float(world * (world + 1) // 2))
        elif kind in ("gather", "allgather", "all_to_all"):
            expected = torch.arange(1, world + 1).float().repeat_interleave(self.got.numel() // world)
        else:
            expected = torch.tensor(1.0)
        return bool((self.got == expected).all())


def measure(measured, line, words):
    kind, elems, in_place = words[1], int(words[2]), words[3] == "in"
    crowded, warmup, calls = words[5] == "1", int(words[6]), int(words[7])
    fresh = measured.setup != (kind, elems, in_place)
    if fresh:
        measured.set_up(kind, elems, in_place)
    times = []
    gc.disable()
    first = -warmup - 1 if fresh else -warmup
    for i in range(first, calls):
        measured.rewrite()
        line.meet(crowded)
        begin = time.monotonic_ns()
        measured.call()
        end = time.monotonic_ns()
        if i >= 0:
            times.append(end - begin)
        if ((fresh and i == first) or i == calls - 1) and not measured.is_right():
            raise RuntimeError(f"{kind} gave a wrong result")
    gc.enable()
    return " ".join(["times"] + [str(t) for t in times])


def main():
    rank, world, store, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    driver = Driver(path)
    driver.send_line(f"hello {rank}")
    try:
        import torch
        import torch.distributed

        torch.set_num_threads(1)
        torch.distributed.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=world)
        while driver.page is None:
            driver.read_frame()
        line, measured = StartLine(driver.page, rank, world), Measured(torch, rank, world)
        driver.send_line("ready")
        while (text := driver.next_line()) != "quit":
            driver.send_line(measure(measured, line, text.split()))
        torch.distributed.destroy_process_group()
    except EOFError:
        pass
    except Exception as failure:  # whatever PyTorch raises is the reason why there are no figures
        driver.send_line(f"error {type(failure).__name__}: {failure}")
        sys.exit(1)


if __name__ == "__main__":
    main()
