import numpy
import torch

from elementwise_ops import DTYPES


def transpose(x, a):
    order = a["order"] or list(range(x[0].dim()))[::-1]
    return x[0].permute(order)


def count(x, a):
    n = 1
    for d in a["axes"] or range(x[0].dim()):
        n *= x[0].shape[d]
    return torch.tensor(float(n), dtype=x[0].dtype)


def resolved_slices(shape, a):
    steps = a["step"] or [1] * len(shape)
    slices = []
    for n, begin, end, step in zip(shape, a["begin"], a["end"], steps):
        slices.append(slice(begin, end if end > 0 else (end if end < 0 else None), step))
    return tuple(slices)


def slice_grad(x, a):
    zeros = torch.zeros(a["shape"], dtype=x[0].dtype)
    index = resolved_slices(a["shape"], a)
    out = zeros.clone()
    out[index] = x[0]
    return out


def pad(x, a):
    widths = []
    for low, high in reversed(list(zip(a["low"], a["high"]))):
        widths += [low, high]
    return torch.nn.functional.pad(x[0], widths, value=a["value"]) if widths else x[0] * 1


def rows_of(x, axis, ids):
    """Rows along an axis; zeros where an index is out of range."""
    n = x.shape[axis]
    good = (ids >= 0) & (ids < n)
    if n == 0:
        shape = list(x.shape)
        shape[axis:axis + 1] = list(ids.shape)
        return torch.zeros(shape, dtype=x.dtype)
    taken = torch.index_select(x, axis, torch.where(good, ids, torch.zeros_like(ids)).reshape(-1).long())
    mask_shape = [1] * x.dim()
    mask_shape[axis] = -1
    taken = torch.where(good.reshape(mask_shape), taken, torch.zeros_like(taken))
    shape = list(x.shape)
    shape[axis:axis + 1] = list(ids.shape)
    return taken.reshape(shape)


def gather(x, a):
    axis = a["axis"] % x[0].dim()
    return rows_of(x[0], axis, x[1])


def scatter(ids, updates, shape, axis):
    flat_shape = list(shape)
    flat_shape[axis] = ids.numel()
    flat = updates.reshape(flat_shape)
    ids = ids.reshape(-1).long()
    good = (ids >= 0) & (ids < shape[axis])
    kept = torch.index_select(flat, axis, torch.nonzero(good).reshape(-1))
    return torch.zeros(shape, dtype=updates.dtype).index_add(axis, ids[good], kept)


def one_hot(x, a):
    steps = torch.arange(a["depth"])
    return (x[0][..., None].long() == steps).to(DTYPES[a["dtype"]])


def cumsum(x, a):
    if not a["reverse"]:
        return torch.cumsum(x[0], a["axis"], dtype=x[0].dtype)
    return torch.flip(torch.cumsum(torch.flip(x[0], [a["axis"]]), a["axis"], dtype=x[0].dtype), [a["axis"]])


def constant(x, a):
    names = {"f64": "<f8", "f32": "<f4", "f16": "<f2", "i64": "<i8", "i32": "<i4", "u8": "u1", "bool": "?"}
    values = numpy.frombuffer(bytes.fromhex(a["data"]), names[a["dtype"]]).copy()
    return torch.from_numpy(values).reshape(a["shape"])


def scatter_add(x, a):
    axis = a["axis"] % len(a["shape"])
    return scatter(x[1], x[0], a["shape"], axis) if x[0].is_floating_point() or x[0].dtype != torch.bool else None


OPS = {
    "scatter_add": scatter_add,
    "reshape": lambda x, a: x[0].reshape(a["shape"]),
    "transpose": transpose,
    "broadcast_to": lambda x, a: x[0].expand(a["shape"]),
    "fill": lambda x, a: torch.full(a["shape"], a["value"], dtype=DTYPES[a["dtype"]]),
    "fill_like": lambda x, a: torch.full(x[0].shape, a["value"]).to(x[0].dtype),
    "count": count,
    "constant": constant,
    "stop_gradient": lambda x, a: x[0].detach(),
    "concat": lambda x, a: torch.cat(x, a["axis"]),
    "split": lambda x, a: list(torch.split(x[0], a["sizes"], a["axis"])),
    "slice": lambda x, a: x[0][resolved_slices(x[0].shape, a)],
    "slice_grad": slice_grad,
    "pad": pad,
    "tile": lambda x, a: x[0].repeat(a["times"]) if a["times"] else x[0] * 1,
    "gather": gather,
    "one_hot": one_hot,
    "reverse": lambda x, a: torch.flip(x[0], a["axes"] or list(range(x[0].dim()))),
    "cumsum": cumsum,
    "range": lambda x, a: torch.from_numpy(numpy.arange(a["start"], a["limit"], a["step"])).to(DTYPES[a["dtype"]]),
    "shape": lambda x, a: torch.tensor(list(x[0].shape), dtype=torch.int64),
    "rank": lambda x, a: torch.tensor(x[0].dim()),
    "size": lambda x, a: torch.tensor(x[0].numel()),
}
