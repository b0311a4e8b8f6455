import torch


def over(f):
    """f(x, dims, keepdim) over the attribute axes; empty: all."""
    def run(x, a):
        dims = a["axes"] or list(range(x[0].dim()))
        if not dims:
            return f(x[0].reshape(1), [0], False)
        return f(x[0], dims, a["keep_dims"])
    return run


def prod(x, dims, keep):
    for d in sorted((d % x.dim() for d in dims), reverse=True):
        x = torch.prod(x, d, keepdim=keep)
    return x


def along(f):
    return lambda x, a: f(x[0], a["axis"], a["keep_dims"])


OPS = {
    "sum": over(lambda x, d, k: torch.sum(x, d, keepdim=k, dtype=x.dtype)),
    "mean": over(lambda x, d, k: torch.mean(x, d, keepdim=k)),
    "max": over(lambda x, d, k: torch.amax(x, d, keepdim=k)),
    "min": over(lambda x, d, k: torch.amin(x, d, keepdim=k)),
    "prod": over(prod),
    "logsumexp": over(lambda x, d, k: torch.logsumexp(x, d, keepdim=k)),
    "any": over(lambda x, d, k: torch.any(x, dim=tuple(d), keepdim=k)),
    "all": over(lambda x, d, k: torch.all(x, dim=tuple(d), keepdim=k)),
    # PyTorch does not promise which of several maxima it names: the first, as NumPy does.
    "argmax": along(lambda x, d, k: torch.from_numpy(__import__("numpy").asarray(
        x.detach().numpy().argmax(axis=d, keepdims=k)))),
    "argmin": along(lambda x, d, k: torch.from_numpy(__import__("numpy").asarray(
        x.detach().numpy().argmin(axis=d, keepdims=k)))),
}
