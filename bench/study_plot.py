"""Plots as SVG text, for the studies: lines over numbers, bars over names."""
import math
from html import escape

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 360, 64, 130, 36, 44
COLOURS = ("#1f5fa8", "#c8442d", "#3a8f4b", "#8a5bb0", "#c78a1b", "#4a4a4a", "#2a9d9d", "#d46a9e", "#7a8f1b", "#7a4a2a")


def _open(title, height):
    return [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12">',
            f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
            f'<text x="{LEFT}" y="20" font-size="14">{escape(title)}</text>']


def _number(v):
    return f"{v:,.0f}" if abs(v) >= 100 else f"{v:.3g}"


def _ticks(low, high, log):
    if log:
        first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
        marks = [m * 10.0**e for e in range(first, last + 1) for m in (1, 2, 5)]
        marks = [m for m in marks if low * 0.999 <= m <= high * 1.001]
        if len(marks) > 1:
            return marks
    step = 10.0 ** math.floor(math.log10((high - low) / 4))
    step *= next(m for m in (1, 2, 5, 10) if (high - low) / (step * m) <= 5)
    start = math.ceil(low / step)
    return [step * k for k in range(start, math.floor(high / step + 1e-9) + 1)]


def _range(values, log):
    low, high = min(values), max(values)
    if log:
        return (low / 1.5, high * 1.5) if low == high else (low / 1.08, high * 1.08)
    pad = (high - low) * 0.08 or abs(high) * 0.1 or 1
    return low - pad, high + pad


def lines(title, axes, series, xlog=False, ylog=False):
    """axes: names of x and y; series: {name: [(x, y), ...]}. Ticks of a logarithmic x are the points themselves."""
    points = [p for run in series.values() for p in run]
    xs, ys = [p[0] for p in points], [p[1] for p in points]
    xlog, ylog = xlog and min(xs) > 0, ylog and min(ys) > 0
    (x0, x1), (y0, y1) = _range(xs, xlog), _range(ys, ylog)

    def place(v, low, high, log):
        return (math.log(v / low) / math.log(high / low)) if log else (v - low) / (high - low)

    at_x = lambda v: LEFT + (WIDTH - LEFT - RIGHT) * place(v, x0, x1, xlog)
    at_y = lambda v: HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * place(v, y0, y1, ylog)
    out = _open(title, HEIGHT)
    for v in _ticks(y0, y1, ylog):
        out.append(f'<path d="M{LEFT} {at_y(v):.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>'
                   f'<text x="{LEFT - 6}" y="{at_y(v) + 4:.1f}" text-anchor="end">{_number(v)}</text>')
    for v in sorted(set(xs)) if xlog else _ticks(x0, x1, False):
        out.append(f'<path d="M{at_x(v):.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#eee"/>'
                   f'<text x="{at_x(v):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{_number(v)}</text>')
    out.append(f'<path d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}" fill="none" stroke="#333"/>'
               f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}" text-anchor="middle">{escape(axes[0])}</text>'
               f'<text x="{LEFT}" y="{TOP - 4}" fill="#555" font-size="11">{escape(axes[1])}</text>')
    for k, (name, run) in enumerate(series.items()):
        colour, run = COLOURS[k % len(COLOURS)], sorted(run)
        path = "L".join(f"{at_x(x):.1f} {at_y(y):.1f}" for x, y in run)
        out.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out += [f'<circle cx="{at_x(x):.1f}" cy="{at_y(y):.1f}" r="3" fill="{colour}"/>' for x, y in run]
        out.append(f'<rect x="{WIDTH - RIGHT + 10}" y="{TOP + 18 * k}" width="12" height="4" fill="{colour}"/>'
                   f'<text x="{WIDTH - RIGHT + 26}" y="{TOP + 18 * k + 6}">{escape(name)}</text>')
    return "\n".join(out + ["</svg>"]) + "\n"


def bars(title, values):
    """values: {name: number}, drawn in the given order."""
    left, row = 170, 22
    height = TOP + row * len(values) + 12
    longest = max(max(values.values()), 1e-30)
    out = _open(title, height)
    for k, (name, value) in enumerate(values.items()):
        y, width = TOP + row * k, (WIDTH - left - 80) * value / longest
        out.append(f'<text x="{left - 8}" y="{y + 13}" text-anchor="end">{escape(name)}</text>'
                   f'<rect x="{left}" y="{y + 2}" width="{max(width, 1):.1f}" height="{row - 6}" fill="{COLOURS[0]}"/>'
                   f'<text x="{left + max(width, 1) + 6:.1f}" y="{y + 13}">{_number(value)}</text>')
    return "\n".join(out + ["</svg>"]) + "\n"
