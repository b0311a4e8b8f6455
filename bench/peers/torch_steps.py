"""PyTorch's side of `trireme bench train`: torch_steps.py WORKLOAD MODE DTYPE THREADS BATCH DEVICE SOCKET.

Training steps (forward, backward, optimiser) of one model on data made up once, in one process, eager or compiled with
the loss inside the compiled function. Does what the driver asks for over its socket (trireme/measure/step/step_side.h has
the lines) and reports the times. The models are those of trireme/measure/step/workloads.cc, layer by layer.
"""
import contextlib
import fcntl
import gc
import os
import socket
import struct
import sys
import time

BYTES = 1  # the frame of a local stream that carries text


class Driver:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.connect(path)
        self.lines = b""

    def send_line(self, line):
        data = line.replace("\n", " ").encode() + b"\n"
        self.socket.sendall(struct.pack("<II", BYTES, len(data)) + data)

    def read_exact(self, count):
        data = b""
        while len(data) < count:
            got = self.socket.recv(count - len(data))
            if not got:
                raise EOFError
            data += got
        return data

    def next_line(self):
        while b"\n" not in self.lines:
            _, count = struct.unpack("<II", self.read_exact(8))
            self.lines += self.read_exact(count)
        line, self.lines = self.lines.split(b"\n", 1)
        return line.decode()


class Turns:
    """While many sides start at once (--ahead) their first steps take turns, by a lock on a file beside the sockets: threads that wait for
    each other on cores that others use make a step of a second take half a minute. Compiling goes on side by side."""

    def __init__(self, path):
        self.file, self.ended = open(path, "w"), False

    @contextlib.contextmanager
    def turn(self):
        if self.ended:
            yield
            return
        fcntl.flock(self.file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self.file, fcntl.LOCK_UN)

    def wrap(self, function):
        def wrapped(*args, **kwargs):
            with self.turn():
                return function(*args, **kwargs)

        return wrapped


def let_compiled_graphs_take_turns(turns):
    """Compiled forward and backward graphs are called by one method; where another PyTorch has none, they do not take turns."""
    try:
        from torch._inductor.output_code import CompiledFxGraph
    except ImportError:
        return lambda: None
    plain = CompiledFxGraph.__call__
    CompiledFxGraph.__call__ = turns.wrap(plain)

    def undo():
        CompiledFxGraph.__call__ = plain

    return undo


def status_bytes(key):
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith(key + ":"):
                return int(line.split()[1]) * 1024
    return 0


def start_peak():
    with open("/proc/self/clear_refs", "w") as refs:
        refs.write("5")


def make_models(torch):
    nn, F = torch.nn, torch.nn.functional

    def lenet():
        return nn.Sequential(
            nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, 10))

    def speech():
        widths = [440] + [2560] * 4
        layers = [layer for a, b in zip(widths, widths[1:]) for layer in (nn.Linear(a, b), nn.Sigmoid())]
        return nn.Sequential(*layers, nn.Linear(2560, 8192))

    def alexnet():
        return nn.Sequential(
            nn.Conv2d(3, 64, 11, stride=4, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2),
            nn.Conv2d(64, 192, 5, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2),
            nn.Conv2d(192, 384, 3, padding=1), nn.ReLU(),
            nn.Conv2d(384, 256, 3, padding=1), nn.ReLU(),
            nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, 2),
            nn.Flatten(), nn.Dropout(0.5), nn.Linear(9216, 4096), nn.ReLU(),
            nn.Dropout(0.5), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 1000))

    class Bottleneck(nn.Module):
        def __init__(self, channels, width, stride):
            super().__init__()
            out = 4 * width
            self.c1, self.b1 = nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width)
            self.c2, self.b2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
            self.c3, self.b3 = nn.Conv2d(width, out, 1, bias=False), nn.BatchNorm2d(out)
            self.down = None
            if stride != 1 or channels != out:
                self.down = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

        def forward(self, x):
            y = F.relu(self.b1(self.c1(x)), inplace=True)
            y = F.relu(self.b2(self.c2(y)), inplace=True)
            y = self.b3(self.c3(y))
            return F.relu(y + (x if self.down is None else self.down(x)), inplace=True)

    def resnet50():
        layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(True), nn.MaxPool2d(3, 2, 1)]
        channels = 64
        for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
            for block in range(blocks):
                layers.append(Bottleneck(channels, width, stride if block == 0 else 1))
                channels = 4 * width
        return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))

    class Block(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.heads = heads
            self.n1, self.qkv, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.n2, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            n, t, width = x.shape
            q, k, v = (p.view(n, t, self.heads, width // self.heads).transpose(1, 2)
                       for p in self.qkv(self.n1(x)).split(width, 2))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(n, t, width))
            return x + self.down(F.gelu(self.up(self.n2(x)), approximate="tanh"))

    class Gpt(nn.Module):
        def __init__(self, vocabulary=65, context=256, width=384, layers=6, heads=6):
            super().__init__()
            self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
            nn.init.normal_(self.tokens.weight, std=0.02)
            self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
            self.head.weight = self.tokens.weight

        def forward(self, x):
            h = self.tokens(x) + self.positions(torch.arange(x.shape[1], device=x.device))
            for block in self.blocks:
                h = block(h)
            return self.head(self.norm(h))

    class Lstm(nn.Module):
        def __init__(self, vocabulary=65, width=512):
            super().__init__()
            self.tokens = nn.Embedding(vocabulary, width)
            self.lstm = nn.LSTM(width, width, 2, batch_first=True)
            self.head = nn.Linear(width, vocabulary)

        def forward(self, x):
            return self.head(self.lstm(self.tokens(x))[0])

    def images(n, channels, size, classes):
        return torch.randn(n, channels, size, size), torch.randint(classes, (n,))

    def texts(n, context, words=65):
        return torch.randint(words, (n, context)), torch.randint(words, (n, context))

    return {
        "lenet": (lenet, lambda n: images(n, 1, 28, 10), "sgd"),
        "speech": (speech, lambda n: (torch.randn(n, 440), torch.randint(8192, (n,))), "sgd"),
        "alexnet": (alexnet, lambda n: images(n, 3, 224, 1000), "sgd"),
        "resnet50": (resnet50, lambda n: images(n, 3, 224, 1000), "sgd"),
        "gpt": (Gpt, lambda n: texts(n, 256), "adamw"),
        "lstm": (Lstm, lambda n: texts(n, 128), "adamw"),
        "gpt2": (lambda: Gpt(50304, 1024, 768, 12, 12), lambda n: texts(n, 1024, 50257), "adamw"),
    }


def make_step(torch, workload, mode, dtype, batch, device):
    build, data, optimiser = make_models(torch)[workload]
    model, (x, y) = build().to(device), [t.to(device) for t in data(batch)]
    if x.dim() == 4 and x.shape[1] > 1:
        model, x = model.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)
    if optimiser == "sgd":
        update = torch.optim.SGD(model.parameters(), 0.001, momentum=0.9, fused=True)
    else:
        update = torch.optim.AdamW(model.parameters(), 0.0001, fused=True)

    def loss_of(x, y):
        logits = model(x)
        if device == "cpu":
            logits = logits.float()
        return torch.nn.functional.cross_entropy(logits.view(-1, logits.shape[-1]), y.view(-1))

    forward = torch.compile(loss_of) if mode == "compile" else loss_of

    def step():
        with torch.autocast(device, torch.bfloat16, enabled=dtype == "bf16"):
            loss = forward(x, y)
        update.zero_grad(set_to_none=True)
        loss.backward()
        update.step()

    return step


def time_steps(torch, step, count, device):
    """Nanoseconds of each; on a GPU between events of its own clock, so that steps may queue up."""
    if device == "cuda":
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
        marks[0].record()
        for mark in marks[1:]:
            step()
            mark.record()
        torch.cuda.synchronize()
        return [int(a.elapsed_time(b) * 1e6) for a, b in zip(marks, marks[1:])]
    times = []
    for _ in range(count):
        begin = time.monotonic_ns()
        step()
        times.append(time.monotonic_ns() - begin)
    return times


def main():
    workload, mode, dtype, threads, batch, device, path = sys.argv[1:8]
    driver = Driver(path)
    try:
        import torch

        torch.set_num_threads(int(threads))
        torch.manual_seed(1)
        if device == "cuda":
            torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = dtype != "f32"
            torch.backends.cudnn.benchmark = True
        step = make_step(torch, workload, mode, dtype, int(batch), device)
        start_peak()
        before = status_bytes("VmRSS")
        turns = Turns(os.path.join(os.path.dirname(path), "turns"))
        first_step = step if mode == "compile" else turns.wrap(step)
        undo = let_compiled_graphs_take_turns(turns) if mode == "compile" else lambda: None
        driver.send_line(f"ready {torch.__version__}")
        while (text := driver.next_line()) != "quit":
            if text == "memory":
                peak = torch.cuda.max_memory_allocated() if device == "cuda" else status_bytes("VmHWM") - before
                driver.send_line(f"memory {peak}")
                continue
            gc.disable()
            times = time_steps(torch, step if turns.ended else first_step, int(text.split()[1]), device)
            gc.enable()
            turns.ended = True
            undo()
            driver.send_line(" ".join(["times"] + [str(t) for t in times]))
    except EOFError:
        pass
    except Exception as failure:  # whatever PyTorch raises is the reason why there are no figures
        driver.send_line(f"error {type(failure).__name__}: {str(failure)[:2000]}")
        sys.exit(1)


if __name__ == "__main__":
    main()
