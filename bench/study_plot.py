#!/usr/bin/env python3
"""Figures of the studies, drawn with matplotlib from the tables of their pages.

  bench/study_plot.py docs/studies/replicas.md docs/studies/compression.md
  bench/study_plot.py PAGE --as replicas                            # a page of another name
  bench/study_plot.py --overview docs/images/against_ddp.svg        # the figure of the README, from both pages

The tables of a page are the data: a figure is one function and one row of FIGURES. A figure has one message, log axes where values
span more than a factor of four, labels beside the lines, ranges as error bars. An SVG has both color schemes: a reader whose
browser prefers dark gets the dark one. Needs python3-matplotlib (Debian), for studies only.
"""
import math, os, re, sys

# light, dark. Series are told apart by more than color: labels stand beside them.
INK, MUTED, GRID, PAPER = ("#1c2733", "#e6e6e6"), ("#5c6873", "#a3adb8"), ("#dde2e7", "#3a424b"), ("#ffffff", "#1e2129")
OURS, OTHER, THIRD = ("#0b6bb5", "#63b3f2"), ("#c4501b", "#f29e6b"), ("#2a7f4f", "#6ccf97")
DARK_OF = dict((INK, MUTED, GRID, PAPER, OURS, OTHER, THIRD))
DEBIANS = "/usr/bin/python3"


# ------------------------------------------------------------------------------------------------------------------- tables
class Table:
    """Rows by column names; `above` is the paragraph before it, `section` the heading, `bold` the words in bold on a line of their
    own since that heading whose first table this is."""

    def __init__(self, section, bold, above, head):
        self.section, self.bold, self.above, self.head, self.rows = section, bold, above, head, []

    def column(self, *names):
        """Numbers of the named columns, row by row; rows in which one is missing are left out."""
        at = [self.head.index(n) for n in names]
        rows = [[number(r[k]) for k in at] for r in self.rows]
        return [tuple(r) for r in rows if None not in r]


def number(cell):
    """`4,668.1` 4668.1; `12.3 ms` in seconds; `85.9 %` 85.9; a text of another kind: None."""
    m = re.match(r"^([+-]?[\d,]*\.?\d+)\s*(us|ms|s|%|MB)?$", cell.strip())
    if not m:
        return None
    return float(m.group(1).replace(",", "")) * {"us": 1e-6, "ms": 1e-3}.get(m.group(2), 1)


def read_tables(path):
    tables, section, bold, above, wide, table = [], "", "", "", False, None
    with open(path) as file:
        for line in file.read().split("\n"):
            if line.startswith("## "):
                section, bold = line[3:], ""
            if re.match(r"^\*\*[^*]+\*\*$", line):
                bold = line.strip("*")
            cells = [c.strip() for c in line.replace(r"\|", "¦").strip("|").split("|")] if line.startswith("|") else None
            if cells is None:
                table = None
                above = above + " " + line if line.strip() and wide else line if line.strip() else above
                wide = bool(line.strip())
            elif table is None:
                table, bold = Table(section, bold, above, cells), ""
                tables.append(table)
            elif set("".join(cells)) != {"-"}:
                table.rows.append(cells)
    return tables


def find(tables, section, above=""):
    for t in tables:
        if t.section == section and above in t.above and t.rows:
            return t
    return None


# ------------------------------------------------------------------------------------------------------------------ drawing
def pyplot():
    import matplotlib
    matplotlib.use("svg")
    import matplotlib.pyplot as plt
    plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "trireme", "font.family": "DejaVu Sans", "font.size": 9.5,
                         "axes.edgecolor": MUTED[0], "axes.labelcolor": MUTED[0], "text.color": INK[0], "xtick.color": MUTED[0],
                         "ytick.color": MUTED[0], "axes.spines.top": False, "axes.spines.right": False, "figure.facecolor": PAPER[0],
                         "axes.facecolor": PAPER[0], "axes.grid": True, "grid.color": GRID[0], "grid.linewidth": 0.7, "axes.axisbelow": True,
                         "xtick.minor.size": 0, "ytick.minor.size": 0, "xtick.major.size": 3, "ytick.major.size": 3})
    return plt


def figure(title, height=3.6, columns=1, below=""):
    """Axes below a title that says the message; `below` is a second, quieter line."""
    plt = pyplot()
    fig, axes = plt.subplots(1, columns, figsize=(7.2, height), sharey=columns > 1)
    fig.text(0.015, 1 - 0.10 / height, title, va="top", fontsize=11.5, fontweight="bold", color=INK[0])
    if below:
        fig.text(0.015, 1 - 0.34 / height, below, va="top", fontsize=9, color=MUTED[0])
    fig.subplots_adjust(left=0.09, right=0.80, bottom=0.52 / height, top=1 - (0.72 if below else 0.5) / height, wspace=0.08)
    return fig, axes


def plain(v, _=None):
    if v >= 1e4:
        return f"{v / 1e6:g} M" if v >= 1e6 else f"{v / 1e3:g} k"
    return f"{v:,.0f}" if v >= 100 else f"{v:g}" if v >= 1 or v <= 0 else f"{v:.3g}"


def log_axis(axis, values, ticks=None):
    """A log axis with a dozen labels at most: at the values given, or at 1, 2, 5, or at powers of ten."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
    low, high = min(values), max(values)
    (axis.axes.set_xscale if axis.axis_name == "x" else axis.axes.set_yscale)("log")
    if ticks is None:
        marks = (1, 1.5, 2, 3, 4, 5, 7) if high / low < 8 else (1, 2, 5) if high / low < 300 else (1,)
        span = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 2)
        ticks = [m * 10.0**e for e in span for m in marks]
        room = (high / low) ** 0.06
        ticks = [t for t in ticks if low / room <= t <= high * room]
        if len(ticks) < 3 and high / low < 4:
            step = 10.0 ** math.floor(math.log10(high - low or high))
            step = next(step * m for m in (0.1, 0.2, 0.5, 1, 2) if (high - low) / (step * m) <= 6)
            ticks = [step * k for k in range(math.floor(low / step), math.ceil(high / step) + 1) if k > 0]
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(plain))


def label_ends(ax, ends, gap=0.085):
    """Names at the right ends of lines: [(x, y, text, color)], moved apart where they would meet."""
    placed = []
    for x, y, text, color in sorted(ends, key=lambda e: e[1]):
        at = ax.transAxes.inverted().transform(ax.transData.transform((x, y)))
        spot = max(at[1], placed[-1] + gap) if placed else at[1]
        placed.append(spot)
        ax.annotate(text, (x, y), xytext=(1.02, spot), textcoords=ax.transAxes, color=color, va="center", fontsize=9.5,
                    annotation_clip=False)


def curves(ax, series, xticks, ylog=True, pad=0.08):
    """series: [(name, color, [(x, y)], style)]; x is logarithmic with a tick for each of its values."""
    for name, color, points, style in series:
        xs, ys = zip(*sorted(points))
        ax.plot(xs, ys, color=color, linewidth=1.2 if style == ":" else 2, linestyle=style or "-", marker="" if style == ":" else "o", markersize=4.5)
    log_axis(ax.xaxis, [x for x in xticks], list(xticks))
    ys = [y for _, _, points, _ in series for _, y in points]
    if ylog:
        log_axis(ax.yaxis, ys)
        ax.set_ylim(min(ys) / (max(ys) / min(ys)) ** pad, max(ys) * (max(ys) / min(ys)) ** pad)
    else:
        room = (max(ys) - min(ys)) * pad or 1
        ax.set_ylim(min(ys) - room, max(ys) + room)
    label_ends(ax, [(*max(points), name, color) for name, color, points, _ in series if name])


def dots(ax, rows, xlog=True, limits=None):
    """rows: [(name, value, color, note, low, high)] from top to bottom: a dot each, with its range, and a note beside it."""
    for k, (name, value, color, note, low, high) in enumerate(rows):
        if low is not None:
            ax.plot([low, high], [k, k], color=color, linewidth=2, solid_capstyle="round")
        ax.plot([value], [k], "o", color=color, markersize=5.5)
        ax.annotate(note, (high if high is not None else value, k), xytext=(7, 0), textcoords="offset points", va="center", fontsize=8.5, color=color)
    ax.set_yticks(range(len(rows)), [r[0] for r in rows])
    ax.tick_params(axis="y", length=0, labelcolor=INK[0])
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.grid(axis="y", visible=False)
    values = [v for r in rows for v in (r[1], r[4], r[5]) if v is not None]
    if xlog:
        log_axis(ax.xaxis, values)
        ax.set_xlim(min(values) / (max(values) / min(values)) ** 0.06 / 1.02, max(values) * (max(values) / min(values)) ** 0.22 * 1.05)
    if limits:
        ax.set_xlim(*limits)


def took(s):
    return f"{s:.3g} s" if s >= 1 else f"{s * 1e3:.3g} ms"


def dot_figure(title, below, rows, xlabel, xlog=True, limits=None):
    fig, ax = figure(title, height=1.35 + 0.235 * len(rows), below=below)
    fig.subplots_adjust(left=0.23, right=0.97)
    dots(ax, rows, xlog, limits)
    ax.set_xlabel(xlabel)
    return fig, ax


def line_figure(title, below, series, xticks, labels, ylog=True, right=0.80):
    fig, ax = figure(title, below=below)
    fig.subplots_adjust(right=right, top=0.745)
    curves(ax, series, xticks, ylog)
    ax.set_xlabel(labels[0])
    fig.text(0.015, ax.get_position().y1 + 0.035, labels[1], fontsize=9, color=MUTED[0])
    return fig


# ----------------------------------------------------------------------------------------------------------------- replicas
def scaling(model, samples):
    def draw(tables):
        t = find(tables, "Scaling on one host", f"`{model}`")
        if not t:
            return None
        bsp, ddp = t.column("workers", "samples/s"), t.column("workers", "DDP samples/s")
        if not bsp:
            return None
        counts = [n for n, _ in bsp]
        ideal = [(n, bsp[0][1] * n / bsp[0][0]) for n in counts]
        series = [("perfect scaling", MUTED[0], ideal, ":"), ("Trireme", OURS[0], bsp, "")]
        title = f"{model}: samples per second with 1 to {plain(counts[-1])} workers"
        if ddp:
            series.append(("PyTorch DDP", OTHER[0], ddp, ""))
            gain = dict(bsp).get(ddp[-1][0], 0) / ddp[-1][1]
            title = f"{model}: {gain:.1f} times the samples/s of DDP on {plain(ddp[-1][0])} workers"
        return line_figure(title, f"One host, a core per worker, {samples} samples per worker and step, synchronous", series, counts,
                           ("workers", "samples per second"))
    return draw


def slow_worker(section, where):
    def draw(tables):
        t = find(tables, section)
        if not t:
            return None
        time = next(h for h in t.head if h.startswith("time to"))
        rows = [(r[t.head.index("rule")].strip("`"), number(r[t.head.index(time)]), number(r[t.head.index("with the slow worker")])) for r in t.rows]
        rows = sorted((r for r in rows if r[1] and r[2]), key=lambda r: r[2])
        if not rows:
            return None
        fig, ax = figure("What one worker that is 4 times slower costs each rule", 1.5 + 0.25 * len(rows), below=f"Time to {time[8:]} test accuracy, {where}")
        fig.subplots_adjust(left=0.2, right=0.97)
        for k, (_, even, hurt) in enumerate(rows):
            ax.plot([even, hurt], [k, k], color=GRID[0], linewidth=3, zorder=1)
            ax.plot([even], [k], "o", color=OURS[0], markersize=6)
            ax.plot([hurt], [k], "D", color=OTHER[0], markersize=5.5)
            ax.annotate(f"x {hurt / even:.1f}", (max(even, hurt), k), xytext=(9, 0), textcoords="offset points", va="center", fontsize=9)
        fig.text(0.97, 1 - 0.45 / fig.get_figheight(), "\u25cf all equal", ha="right", va="bottom", color=OURS[0], fontsize=9.5)
        fig.text(0.97, 1 - 0.63 / fig.get_figheight(), "\u25c6 one slow", ha="right", va="bottom", color=OTHER[0], fontsize=9.5)
        ax.set_yticks(range(len(rows)), [r[0] for r in rows])
        ax.tick_params(axis="y", length=0, labelcolor=INK[0])
        ax.set_ylim(len(rows) - 0.4, -0.6)
        ax.grid(axis="y", visible=False)
        every = [v for r in rows for v in r[1:]]
        log_axis(ax.xaxis, every)
        ax.set_xlim(min(every) / 1.12, max(every) * 1.3)
        ax.set_xlabel("seconds")
        return fig
    return draw


def distbelief(tables):
    t = find(tables, "Downpour and AdaGrad; elastic averaging")
    if not t:
        return None
    time = t.head[1]
    rows = sorted((number(r[1]), r[0].strip("`")) for r in t.rows if number(r[1]))
    return rows and dot_figure(f"AdaGrad shortens the {time}, synchronous or not", "8 virtual workers at 1 Gbit/s",
                      [(name, s, OTHER[0] if "AdaGrad" in name else OURS[0], took(s), None, None) for s, name in rows], "seconds")[0]


def period(tables):
    t = find(tables, "The period of averaging")
    points = t.column("tau", t.head[1]) if t else []
    if not points:
        return None
    best = min(points, key=lambda p: p[1])
    fig = line_figure(f"Averaging every {plain(best[0])} steps is fastest: {took(best[1])}", "8 virtual workers at 1 Gbit/s, one seed", [("", OURS[0], points, "")],
                      [x for x, _ in points], ("steps between averages (tau)", f"seconds to {t.head[1][8:]} test accuracy"), right=0.96)
    for x, y in points:
        fig.axes[0].annotate(took(y), (x, y), xytext=(0, 8), textcoords="offset points", ha="center", fontsize=9)
    return fig


def last_executor(tables):
    t = find(tables, "The last worker")
    if not t:
        return None
    names = {"step, equal machines": ("equal machines", MUTED[0]), "step, unequal": ("synchronous", OURS[0]), "`late`, unequal": ("late (75 %)", OTHER[0])}
    series = [(name, color, [(x, 1e3 * y) for x, y in t.column("workers", column)], "") for column, (name, color) in names.items()]
    if not series[0][2] or not series[1][2]:
        return None
    most = max(series[0][2])[0]
    longer = dict(series[1][2])[most] / dict(series[0][2])[most] - 1
    return line_figure(f"Waiting for the slowest of {most:,.0f} machines makes a step {100 * longer:.0f} % longer", "LeNet on virtual machines whose speeds differ by 10 % on average, 10 Gbit/s",
                       [s for s in series if s[2]], [x for x, _ in series[0][2]], ("workers", "milliseconds per step"))


def servers(tables):
    t = find(tables, "Servers against the bottleneck")
    if not t:
        return None
    series = []
    for rule, color in (("downpour", OTHER[0]), ("bsp-server", OURS[0])):
        points = [(number(r[1]), 1e3 * number(r[2])) for r in t.rows if r[0] == f"`{rule}`" and number(r[2])]
        if points:
            series.append((rule, color, points, ""))
    if not series:
        return None
    first = series[-1][2]
    ideal = [(s, first[0][1] / s) for s, _ in first]
    return line_figure("Twice the parameter servers, half the step, up to 8 of them", "16 virtual workers, links of 1 Gbit/s, 670 k parameters",
                       [("1 / servers", MUTED[0], ideal, ":")] + series, [s for s, _ in first], ("servers", "milliseconds per step"))


def linear_scaling(tables):
    t = find(tables, "Large batches")
    if not t:
        return None
    names = {t.head[2]: ("lr x batch", OTHER[0]), t.head[3]: ("and warm-up", OURS[0]), t.head[4]: ("lr fixed", MUTED[0])}
    series = [(name, color, [(x, 100 - y) for x, y in t.column("batch", column)], "") for column, (name, color) in names.items()]
    series = [s for s in series if s[2]]
    return line_figure("Warm-up carries a scaled learning rate to twice the batch, not further", "LeNet on MNIST, 4 epochs; 89 % is guessing",
                       series, [x for x, _ in series[0][2]], ("batch", "test error, %")) if series else None


def overlap(tables):
    t = find(tables, "Overlap")
    if not t:
        return None
    places, found = [], {}
    for r in t.rows:
        places += [r[0]] if r[0] not in places else []
        found[r[0], r[1]] = 1e3 * number(r[3])
    fig, ax = figure("Overlap hides most of the communication once the link is fast enough", 1.45 + 0.62 * len(places), below="Exposed communication per step, mnist-cnn on 4 workers")
    fig.subplots_adjust(left=0.2, right=0.97)
    marks = {"none": ("o", OTHER[0], -0.27), "buckets": ("s", OURS[0], 0), "full": ("^", THIRD[0], 0.27)}
    for k, place in enumerate(places):
        for how, (mark, color, shift) in marks.items():
            if (place, how) in found:
                v = found[place, how]
                ax.plot([v], [k + shift], mark, color=color, markersize=5.5)
                ax.annotate(f"{how}  {v:.3g}", (v, k + shift), xytext=(8, 0), textcoords="offset points", va="center", fontsize=8, color=color)
    ax.set_yticks(range(len(places)), places)
    ax.tick_params(axis="y", length=0, labelcolor=INK[0])
    ax.set_ylim(len(places) - 0.5, -0.5)
    ax.grid(axis="y", visible=False)
    log_axis(ax.xaxis, list(found.values()))
    ax.set_xlim(min(found.values()) / 1.2, max(found.values()) * 2)
    ax.set_xlabel("milliseconds")
    return fig


def hogwild(tables):
    t = find(tables, "Hogwild against locks")
    if not t:
        return None
    free, locked = t.column("workers", "hogwild samples/s"), t.column("workers", "locked samples/s")
    if not free or not locked:
        return None
    n, gain = max(((n, v / dict(locked)[n]) for n, v in free if n in dict(locked)), key=lambda p: p[1])
    return line_figure(f"Without locks {n:.0f} workers are {gain:.1f} times as fast", "Softmax regression, 16 samples per worker and step",
                       [("no locks", OURS[0], free, ""), ("one lock", OTHER[0], locked, "")], [n for n, _ in free], ("workers", "samples per second"))


def prediction(tables):
    t = find(tables, "Predicted against measured")
    rows = []
    for r in t.rows if t else []:
        ends = re.match(r"([+-]\d+) to ([+-]\d+) %", r[4])
        middle = number(r[3])
        if ends and middle is not None:
            low, high = (1 + int(e) / 100 for e in ends.groups())
            rows.append((f"{r[0]}, {r[1]}", 1 + middle / 100, OTHER[0] if r[1] == "real" else OURS[0], f"{middle:+.0f} %", low, high))
    if not rows:
        return None
    rows.sort(key=lambda r: abs(math.log(r[1])))
    close = sum(abs(r[1] - 1) <= 0.3 for r in rows)
    fig, ax = dot_figure(f"Step times are predicted within 30 % in {close} of {len(rows)} studies", "Predicted / measured: median and range over the runs of a study", rows, "predicted / measured")
    ax.axvline(1, color=MUTED[0], linewidth=1, linestyle=":")
    return fig


# ----------------------------------------------------------------------------------------------------------------- sharding
def machines(tables):
    t = find(tables, "DistBelief's figure", "one machine")
    if not t:
        return None
    colors = {"speech-42m": OURS[0], "local-net-1700m, spatial": OTHER[0]}
    series = [(name, color, t.column("machines", name), "") for name, color in colors.items()]
    counts = [n for n, _ in series[0][2]]
    best, last = max(series[0][2], key=lambda p: p[1]), series[1][2][-1]
    shown = [(name.replace("local-net-1700m, ", "local net, "), color, points, style) for name, color, points, style in series]
    return line_figure(f"A dense net gains up to {best[0]:.0f} machines, a local one {last[1]:.0f} times at {last[0]:.0f}",
                       "One replica cut over machines of 20 cores at 1 Gbit/s, 64 samples per step, virtual time",
                       [("perfect", MUTED[0], [(n, n) for n in counts], ":")] + shown, counts, ("machines", "speed-up"), right=0.72)


def sizes(tables):
    t = find(tables, "Larger nets scale better", "one GPU")
    heads = {n: f"{n} GPUs" for n in (64, 16)}
    if not t or any(head not in t.head for head in heads.values()):
        return None
    points = {n: [(number(r[0].split()[0]), number(r[t.head.index(head)])) for r in t.rows] for n, head in heads.items()}
    return line_figure("Speed-up by the size of the net", "Local nets, style spatial, over GPUs on FDR InfiniBand, virtual time",
                       [(f"{n} GPUs", color, points[n], "") for n, color in ((64, OURS[0]), (16, OTHER[0]))],
                       [x for x, _ in points[64]], ("billions of parameters", "speed-up over one GPU"))


def replicas_of_four(tables):
    found = {t.bold: t.column("replicas", "samples/s") for t in tables if t.section == "Replicas of four ranks at servers" and t.rows}
    rates, hidden = found.get("32 samples per rank"), found.get("32 samples per rank, three pushes under way")
    if not rates or not hidden:
        return None
    ideal = [(n, rates[0][1] * n / rates[0][0]) for n, _ in rates]
    return line_figure(f"With one push under way {rates[-1][0]:.0f} replicas are {rates[-1][1] / rates[0][1]:.1f} times as fast as {rates[0][0]:.0f}",
                       "AlexNet, Downpour, four ranks each, 32 samples a rank, 20 servers at 10 Gbit/s, virtual time",
                       [("perfect scaling", MUTED[0], ideal, ":"), ("one push under way", OURS[0], rates, ""),
                        ("three", OTHER[0], hidden, "")], [n for n, _ in rates],
                       ("replicas", "samples per second"), right=0.76)


# -------------------------------------------------------------------------------------------------------------- compression
def accuracy(what, title, limits):
    """A dot per codec, by bytes; what lies beyond the limits is an arrow at the edge."""
    def draw(tables):
        t = find(tables, "Accuracy against bytes", what)
        if not t:
            return None
        metric, rows = t.head[3], []
        for r in t.rows:
            sent, value = number(r[1]), number(r[3])
            codec = r[0].replace("`", "").replace(" *", "").replace(" (blocks of 2,048)", "").replace("100 dense steps, fixed", "fixed")
            if sent is None or value is None:
                continue
            ends = re.match(r"([\d.]+)(?: %)? to ([\d.]+)", r[4])
            low, high = (float(e) for e in ends.groups()) if ends else (None, None)
            rows.append([sent, codec, value, low, high])
        if not rows:
            return None
        rows.sort(key=lambda r: -r[0])
        dense = next((r for r in rows if r[1] == "dense"), rows[0])
        shown, good = [], (lambda v: limits[0] <= v <= limits[1])
        for sent, codec, value, low, high in rows:
            exact = codec in ("dense", "nonzero", "factors")
            note = f"{dense[0] / sent:.3g} x fewer bytes" if sent < dense[0] * 0.97 else f"{sent / dense[0]:.2g} x the bytes" if sent > dense[0] * 1.03 else ""
            inside = good(value)
            edge = limits[0] if value < limits[0] else limits[1]
            shown.append((codec, value if inside else edge, MUTED[0] if exact else OURS[0] if inside else OTHER[0],
                          note if inside else f"off the scale: {value:g}{' %' if metric == 'accuracy' else ''}",
                          max(low, limits[0]) if low is not None and inside else None, min(high, limits[1]) if high is not None and inside else None))
        xlabel = "test accuracy, %" if metric == "accuracy" else "test loss, nats per token"
        room = (limits[1] - limits[0]) * 0.5
        fig, ax = dot_figure(title, "By bytes that a worker sends, most first; ranges over three seeds, dense shaded", shown, xlabel, False, (limits[0], limits[1] + room))
        from matplotlib.ticker import MaxNLocator
        ax.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
        if dense[3] is not None:
            ax.axvspan(dense[3], dense[4], color=GRID[0], alpha=0.7, linewidth=0, zorder=0)
        fig.subplots_adjust(left=0.1 + 0.0085 * max(len(r[0]) for r in shown))
        return fig
    return draw


def time_to(spoken, title):
    def draw(tables):
        t = next((t for t in tables if t.section == "Time to accuracy" and t.bold == spoken), None)
        if not t:
            return None
        rows = sorted((number(r[1]), r[0].strip("`")) for r in t.rows if number(r[1]))
        if not rows:
            return None
        ddp = next((s for s, name in rows if name == "DDP"), None)
        shown = [(name, s, OTHER[0] if "DDP" in name else MUTED[0] if name.startswith("dense") else OURS[0], took(s), None, None) for s, name in rows]
        head = f"{title[0].upper()}{title[1:]}: {rows[0][1]} is fastest" + (f", {ddp / rows[0][0]:.1f} times as fast as DDP" if ddp else "")
        fig, ax = dot_figure(head, f"Time to {t.head[1][8:]} test accuracy, mnist-mlp on 4 workers, one run each", shown, "seconds")
        if ddp:
            ax.axvline(ddp, color=OTHER[0], linewidth=1, linestyle=":")
        return fig
    return draw


def factors(net):
    def draw(tables):
        t = find(tables, "Factors of fully connected layers", f"`{net}`; MB")
        if not t:
            return None
        panels = (("among peers", "step, dense", "step, SFB"), ("over servers", "step, servers", "step, servers, factors"))
        fig, axes = figure(f"{net}: factors pay while batches and groups are small", 3.7, 2, "Time of a dense step / with factors, virtual time at 1 Gbit/s; above 1 factors win")
        fig.subplots_adjust(right=0.845, top=0.745)
        every = []
        for (_, dense, coded) in panels:
            every += [d / c for d, c in t.column(dense, coded)]
        shades = ("#8fc1e8", "#4f97cf", OURS[0], "#08436f")
        for ax, (name, dense, coded) in zip(axes, panels):
            by = {}
            for workers, samples, d, c in t.column("workers", "samples each", dense, coded):
                by.setdefault(workers, []).append((samples, d / c))
            series = [("", shades[k % 4], points, "") for k, points in enumerate(by.values())]
            curves(ax, series, [s for s, _ in next(iter(by.values()))])
            log_axis(ax.yaxis, every)
            ax.set_ylim(min(every) / 1.15, max(every) * 1.15)
            ax.axhline(1, color=MUTED[0], linewidth=1, linestyle=":")
            ax.set_title(name, fontsize=9.5, loc="left", color=MUTED[0])
            ax.set_xlabel("samples per worker")
        for k, workers in enumerate(by):
            fig.text(0.86, 0.62 - 0.07 * k, f"\u25cf {plain(workers)} workers", fontsize=9, color=shades[k % 4])
        return fig
    return draw


def virtual(tables):
    t = find(tables, "1-bit SGD with 160 M parameters, virtual")
    if not t:
        return None
    links = list(dict.fromkeys(r[0] for r in t.rows))
    fig, axes = figure("1-bit SGD keeps scaling where dense gradients fill the link", 3.5, len(links), "160 M parameters, 2,048 samples a step, virtual machines of 1 TFLOP/s")
    fig.subplots_adjust(right=0.97, top=0.70)
    axes = list(axes) if len(links) > 1 else [axes]
    base = [(number(r[2]), number(r[5])) for r in t.rows if r[1] == "`dense`" and r[2] == "1"][:1]
    every = [number(r[5]) for r in t.rows]
    for ax, link in zip(axes, links):
        for codec, color in (("dense", OTHER[0]), ("1bit", OURS[0])):
            points = [(number(r[2]), number(r[5])) for r in t.rows if r[0] == link and r[1] == f"`{codec}`"]
            points = (base if codec == "1bit" else []) + points
            ax.plot(*zip(*sorted(points)), color=color, linewidth=2, marker="o", markersize=4.5)
            x, y = max(points)
            ax.annotate(f"{codec}: {y / base[0][1]:.1f} x", (x, y), xytext=(0, 8 if codec == "1bit" else 6 if y < base[0][1] else -24), textcoords="offset points", ha="right", fontsize=9, color=color)
        log_axis(ax.xaxis, [1, 40], [1, 4, 8, 16, 40])
        log_axis(ax.yaxis, every)
        ax.set_ylim(min(every) / 1.5, max(every) * 1.5)
        ax.set_title(link, fontsize=9.5, loc="left", color=MUTED[0])
        ax.set_xlabel("workers")
    fig.text(0.015, axes[0].get_position().y1 + 0.075, "samples per second", fontsize=9, color=MUTED[0])
    return fig


# ---------------------------------------------------------------------------------------------------------------- pipelines
SHADES = {"gpipe": OTHER[0], "1f1b": MUTED[0], "interleaved": THIRD[0], "zb-h1": OURS[0], "zb-h2": "#4f97cf"}


def bubble(tables):
    t = find(tables, "Bubbles and memory")
    if not t:
        return None
    formula, runs = {}, {}
    for r in t.rows:
        kind, x = r[0].strip("`"), number(r[2])
        for cell, into in ((r[3], formula), (r[5], runs)):
            if number(cell) is not None:
                into.setdefault(kind, []).append((x, number(cell)))
    if "1f1b" not in formula:
        return None
    fig, ax = figure("zb-h1 waits a third as long as 1f1b, zb-h2 does not wait", below="Part of a step in which a stage waits; 4 equal stages, lines by formula, dots as run")
    fig.subplots_adjust(right=0.84, top=0.745)
    for kind, points in formula.items():
        ax.plot(*zip(*points), color=SHADES[kind], linewidth=2, linestyle=":" if kind == "gpipe" else "-")
    for kind, points in runs.items():
        ax.plot(*zip(*points), "o", color=SHADES[kind], markersize=4.5, zorder=3)
    log_axis(ax.xaxis, [x for x, _ in formula["1f1b"]], [x for x, _ in formula["1f1b"]])
    names = {"1f1b": "gpipe, 1f1b"}
    label_ends(ax, [(*points[-1], names.get(kind, kind), SHADES[kind]) for kind, points in formula.items() if kind != "gpipe"])
    ax.set_ylim(-1.5, 46)
    ax.set_xlabel("micro-batches per stage")
    fig.text(0.015, ax.get_position().y1 + 0.035, "% of a step", fontsize=9, color=MUTED[0])
    return fig


def in_flight(tables):
    t = find(tables, "Bubbles and memory", "fullest stage")
    if not t:
        return None
    rows = {kind: t.column("M/S", f"`{kind}`") for kind in SHADES}
    names = {"1f1b": "1f1b, zb-h1, async, 2bw"}
    series = [(names.get(kind, kind), SHADES[kind], points, "") for kind, points in rows.items() if points and kind != "zb-h1"]
    return line_figure("Only gpipe keeps more, the more micro-batches there are",
                       "Activations of micro-batches kept at the fullest of 4 stages", series, [x for x, _ in series[0][2]],
                       ("micro-batches per stage", "micro-batches in flight"), right=0.72) if series else None


def network(tables):
    t = next((t for t in tables if t.section == "Slow links" and t.bold.startswith("vgg16") and t.bold.endswith("100 Mbit/s")), None)
    rows = sorted(((number(r[3]), r[0].replace("`", "")) for r in t.rows if number(r[3])), reverse=True) if t else []
    if not rows:
        return None
    shown = [(way, rate, OTHER[0] if way.startswith("PyTorch") else MUTED[0] if way == "data, dense" else OURS[0], f"{rate:.2g}", None, None) for rate, way in rows]
    return dot_figure(f"VGG-16 at 100 Mbit/s: {rows[0][1]} is fastest", "Four ranks on links of their own", shown, "samples per second")[0]


FIGURES = {  # page: {name of the file: function of the page's tables}
    "replicas": {
        "scaling-speech-42m": scaling("speech-42m", 128), "scaling-resnet50": scaling("resnet50", 8),
        "rules": slow_worker("Rules with a slow worker, virtual", "8 virtual workers at 1 Gbit/s"),
        "rules-real": slow_worker("Rules with a slow worker, real", "4 processes of one host"),
        "distbelief": distbelief, "period": period, "last-executor": last_executor, "servers": servers,
        "linear-scaling": linear_scaling, "overlap": overlap, "hogwild": hogwild, "prediction": prediction},
    "pipelines": {"bubble": bubble, "in-flight": in_flight, "network": network},
    "sharding": {"distbelief": machines, "cots-hpc": sizes, "project-adam": replicas_of_four},
    "compression": {
        "accuracy-mlp": accuracy("`mnist-mlp` (", "MLP on MNIST: 86 times fewer bytes cost 0.4 points of accuracy", (97.5, 98.2)),
        "accuracy-cnn": accuracy("`lenet` (", "LeNet on MNIST after one epoch: most codecs lose less than 0.6 points", (97.0, 98.7)),
        "accuracy-gpt": accuracy("`char-gpt` with", "char-gpt with AdamW: error feedback needs fixed second moments", (2.0, 2.6)),
        "time-100mbit": time_to("100 Mbit/s", "At 100 Mbit/s"), "time-1gbit": time_to("1 Gbit/s", "At 1 Gbit/s"),
        "time-unlimited": time_to("unlimited", "on loopback"),
        "factors-speech-42m": factors("speech-42m"), "factors-alexnet-fc": factors("alexnet-fc"), "virtual": virtual},
}


def overview(replicas, compression):
    """The figure of the README: samples per second on one host, and time to accuracy on a slow network, beside DDP."""
    t = find(replicas, "Scaling on one host", "`speech-42m`")
    bsp, ddp = t.column("workers", "samples/s"), t.column("workers", "DDP samples/s")
    slow = next(t for t in compression if t.section == "Time to accuracy" and t.bold == "100 Mbit/s")
    plt = pyplot()
    fig, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.4), gridspec_kw={"width_ratios": (1, 1.1)})
    fig.subplots_adjust(left=0.065, right=0.975, bottom=0.155, top=0.76, wspace=0.62)
    curves(left, [("Trireme", OURS[0], bsp, ""), ("PyTorch DDP", OTHER[0], ddp, "")], [n for n, _ in bsp])
    left.set_xlabel("workers, a core each")
    times = {r[0].strip("`"): number(r[1]) for r in slow.rows}
    names = {"dense, ring": "Trireme, f32", "DDP": "DDP, f32", "DDP, fp16 hook": "DDP, fp16", "DDP, PowerSGD hook": "DDP, PowerSGD", "1bit": "Trireme, 1bit", "powersgd, rank 2": "Trireme, PowerSGD"}
    rows = [(names[k], times[k], OTHER[0] if "DDP" in k else OURS[0], took(times[k]), None, None) for k in names if k in times]
    dots(right, sorted(rows, key=lambda r: -r[1]))
    right.set_xlabel("seconds")
    for ax, message, small in ((left, f"{bsp[-1][1] / ddp[-1][1]:.1f} x DDP's speed on one host", "Samples per second, speech-42m, synchronous"),
                               (right, f"PowerSGD: {times['DDP, PowerSGD hook'] / times['powersgd, rank 2']:.1f} x as fast as DDP's on a slow network", f"Time to {slow.head[1][8:]}, 4 hosts at 100 Mbit/s, mnist-mlp")):
        x = 0.01 if ax is left else 0.53
        fig.text(x, 0.955, message, fontsize=11.5, fontweight="bold", va="top")
        fig.text(x, 0.875, small, fontsize=9, color=MUTED[0], va="top")
    return fig


def save(fig, path):
    """The SVG with a style for readers that prefer dark: colors are replaced, nothing else."""
    import io
    import matplotlib.pyplot as plt
    text = io.StringIO()
    fig.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    plt.close(fig)
    rules = "".join(f'[style*="{what}: {light}"]{{{what}:{dark}!important}}' for light, dark in {**DARK_OF, "#8fc1e8": "#c9e4fb", "#4f97cf": "#8cc8f5", "#08436f": "#2f8fd6"}.items()
                    for what in ("fill", "stroke"))
    style = f"<style>text{{font-family:'DejaVu Sans',Verdana,Helvetica,Arial,sans-serif!important}}@media (prefers-color-scheme:dark){{{rules}}}</style>"
    svg = text.getvalue()
    head = svg.index(">", svg.index("<svg")) + 1
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(re.sub(r"[ \t]+$", "", svg[:head] + "\n " + style + svg[head:], flags=re.M))


def draw_page(page, kind):
    """Draws the figures of a page that it has data for, into the folder beside it; returns their names."""
    tables, drawn = read_tables(page), []
    for name, draw in FIGURES[kind].items():
        fig = draw(tables)
        if fig:
            save(fig, os.path.join(os.path.splitext(page)[0], name + ".svg"))
            drawn.append(name)
    return drawn


def run(page, kind):
    """Draws the figures of a page in a process of its own; returns their names."""
    import subprocess
    done = subprocess.run([sys.executable, os.path.abspath(__file__), page, "--as", kind], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(done.returncode)
    return done.stdout.split()


def main(given):
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        if sys.executable != DEBIANS and os.path.exists(DEBIANS):  # another Python comes first in the path
            os.execv(DEBIANS, [DEBIANS, os.path.abspath(__file__), *given])
        sys.exit("study_plot: figures need matplotlib: apt-get install python3-matplotlib")
    if given[:1] == ["--overview"]:
        studies = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "docs", "studies")
        save(overview(*(read_tables(os.path.join(studies, page)) for page in ("replicas.md", "compression.md"))), given[1])
        return
    kind = given[given.index("--as") + 1] if "--as" in given else None
    for page in given[:given.index("--as")] if kind else given:
        base = kind or os.path.splitext(os.path.basename(page))[0]
        if base not in FIGURES:
            sys.exit(f"study_plot: '{page}' has no figures; pages that have: {', '.join(FIGURES)}")
        print(*draw_page(page, base))


if __name__ == "__main__":
    main(sys.argv[1:])
