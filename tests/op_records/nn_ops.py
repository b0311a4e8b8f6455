import torch
import torch.nn.functional as F


def conv_args(a):
    return dict(stride=(a["stride_h"], a["stride_w"]), padding=(a["pad_h"], a["pad_w"]),
                dilation=(a["dilation_h"], a["dilation_w"]), groups=a["groups"])


def conv2d(x, a):
    if 0 in x[1].shape:
        return None
    return F.conv2d(x[0], x[1], **conv_args(a))


def adjoint(f, at, direction):
    """The vector-Jacobian product of f at `at`, itself differentiable."""
    at = at.detach().requires_grad_()
    return torch.autograd.grad(f(at), at, direction, create_graph=True)[0]


def conv2d_input_grad(x, a):
    if 0 in x[0].shape or 0 in x[1].shape:
        return None
    return torch.nn.grad.conv2d_input(a["input_shape"], x[0], x[1], **conv_args(a))


def conv2d_filter_grad(x, a):
    if 0 in a["filter_shape"]:
        return None
    return torch.nn.grad.conv2d_weight(x[0], a["filter_shape"], x[1], **conv_args(a))


def pool_args(a):
    return dict(kernel_size=(a["window_h"], a["window_w"]), stride=(a["stride_h"], a["stride_w"]),
                padding=(a["pad_h"], a["pad_w"]))


def max_pool2d(x, a):
    # PyTorch limits the padding to half the window; infinity outside says the same without a limit.
    padded = F.pad(x[0], (a["pad_w"], a["pad_w"], a["pad_h"], a["pad_h"]), value=float("-inf"))
    return F.max_pool2d(padded, (a["window_h"], a["window_w"]), (a["stride_h"], a["stride_w"]))


def max_pool2d_grad(x, a):
    return adjoint(lambda v: max_pool2d([v], a), x[0], x[2])


def bias_shape(x):
    return [1, -1] + [1] * (x.dim() - 2)


def cross_entropy(x, a):
    losses = F.cross_entropy(x[0], x[1].long(), reduction="none")
    return losses * x[2].to(losses.dtype)


def cross_entropy_grad(x, a):
    p = torch.softmax(x[0], -1) - F.one_hot(x[1].long(), x[0].shape[-1])
    return p * (x[2].to(p.dtype) * x[3])[:, None]


def correct(x, a):
    return ((x[0].argmax(-1) == x[1].long()) & (x[2] > 0)).to(torch.float32)


def max_pool2d_grad_grad(x, a):
    """Each output takes the element of x[2] where its window of x[0] has its (first) maximum."""
    one = torch.zeros_like(x[1], requires_grad=True)
    return torch.autograd.grad(max_pool2d_grad([x[0], x[1], one], a), one, x[2], create_graph=True)[0]


def squared_error(x, a):
    per = (x[0] - x[1]) ** 2
    return per.sum(list(range(1, per.dim()))) * x[2].to(per.dtype) if per.dim() > 1 else per * x[2].to(per.dtype)


def squared_error_grad(x, a):
    w = (x[2].to(x[0].dtype) * x[3]).reshape([-1] + [1] * (x[0].dim() - 1))
    return 2 * (x[0] - x[1]) * w


def conv2d_transpose(x, a):
    return F.conv_transpose2d(x[0], x[1], stride=(a["stride_h"], a["stride_w"]), padding=(a["pad_h"], a["pad_w"]),
                              output_padding=(a["output_pad_h"], a["output_pad_w"]), groups=a["groups"],
                              dilation=(a["dilation_h"], a["dilation_w"]))


def locally_connected2d(x, a):
    """By unfolding: y[n,o,p] = sum_j filter[p,o,j] patch[n,g,j,p]."""
    image, filters = x
    oh, ow, o, cg, kh, kw = filters.shape
    groups, n = a["groups"], image.shape[0]
    patches = F.unfold(image, (kh, kw), dilation=(a["dilation_h"], a["dilation_w"]), padding=(a["pad_h"], a["pad_w"]),
                       stride=(a["stride_h"], a["stride_w"]))
    patches = patches.reshape(n, groups, cg * kh * kw, oh * ow)
    weights = filters.reshape(oh * ow, groups, o // groups, cg * kh * kw)
    return torch.einsum("pgoj,ngjp->ngop", weights, patches).reshape(n, o, oh, ow)


def local_input_grad(x, a):
    zero = torch.zeros(a["input_shape"], dtype=x[0].dtype, requires_grad=True)
    return torch.autograd.grad(locally_connected2d([zero, x[0]], a), zero, x[1], create_graph=True)[0]


def local_filter_grad(x, a):
    zero = torch.zeros(a["filter_shape"], dtype=x[0].dtype, requires_grad=True)
    return torch.autograd.grad(locally_connected2d([x[0], zero], a), zero, x[1], create_graph=True)[0]


def skip_empty(f):
    """PyTorch's unfold and transposed convolution refuse tensors without elements."""
    return lambda x, a: None if any(0 in t.shape for t in x) else f(x, a)


def avg_pool2d(x, a):
    args = dict(kernel_size=(a["window_h"], a["window_w"]), stride=(a["stride_h"], a["stride_w"]))
    pads = (a["pad_w"], a["pad_w"], a["pad_h"], a["pad_h"])
    sums = F.avg_pool2d(F.pad(x[0], pads), divisor_override=1, **args)
    if a["count_include_pad"]:
        return sums / (a["window_h"] * a["window_w"])
    counts = F.avg_pool2d(F.pad(torch.ones_like(x[0]), pads), divisor_override=1, **args)
    return sums / counts


def avg_pool2d_grad(x, a):
    zero = torch.zeros(a["input_shape"], dtype=x[0].dtype, requires_grad=True)
    return torch.autograd.grad(avg_pool2d([zero], a), zero, x[0], create_graph=True)[0]


def l2_pool2d(x, a):
    padded = F.pad(x[0] ** 2, (a["pad_w"], a["pad_w"], a["pad_h"], a["pad_h"]))
    sums = F.avg_pool2d(padded, (a["window_h"], a["window_w"]), (a["stride_h"], a["stride_w"]), divisor_override=1)
    return torch.sqrt(sums + a["eps"])


def channels(v, x):
    return v.reshape([1, -1] + [1] * (x.dim() - 2))


def batch_norm(x, a):
    if x[0].numel() == x[0].shape[1]:
        return None  # PyTorch wants two values per channel
    y = F.batch_norm(x[0], None, None, x[1], x[2], training=True, eps=a["eps"])
    axes = [d for d in range(x[0].dim()) if d != 1]
    return [y, x[0].mean(axes), x[0].var(axes, unbiased=False)]


def norm_grad(x, scale, mean, var, dy, eps, axes, param_axes):
    """dx, dscale, dbias of a normalisation whose statistics over `axes` are given."""
    rstd = (var + eps) ** -0.5
    xhat = (x - mean) * rstd
    g = dy * scale
    dx = rstd * (g - g.mean(axes, keepdim=True) - xhat * (g * xhat).mean(axes, keepdim=True))
    return dx, (dy * xhat).sum(param_axes), dy.sum(param_axes)


def batch_norm_grad(x, a):
    image, scale, mean, var, dy = x
    axes = [d for d in range(image.dim()) if d != 1]
    return list(norm_grad(image, channels(scale, image), channels(mean, image), channels(var, image), dy, a["eps"], axes,
                          axes))


def batch_norm_inference(x, a):
    image, scale, bias, mean, var = x
    # PyTorch's does not differentiate by the statistics.
    factor = channels(scale, image) / torch.sqrt(channels(var, image) + a["eps"])
    return (image - channels(mean, image)) * factor + channels(bias, image)


def layer_norm(x, a):
    k = a["num_axes"]
    axes = list(range(x[0].dim() - k, x[0].dim()))
    y = F.layer_norm(x[0], x[0].shape[-k:], x[1], x[2], a["eps"])
    return [y, x[0].mean(axes), x[0].var(axes, unbiased=False)]


def layer_norm_grad(x, a):
    value, scale, mean, var, dy = x
    k = a["num_axes"]
    axes = list(range(value.dim() - k, value.dim()))
    shape = list(mean.shape) + [1] * k
    outer = list(range(value.dim() - k))
    dx, dscale, dbias = norm_grad(value, scale, mean.reshape(shape), var.reshape(shape), dy, a["eps"], axes, outer)
    return [dx, dscale if outer else dy * (value - mean.reshape(shape)) * (var.reshape(shape) + a["eps"]) ** -0.5,
            dbias if outer else dy * 1]


def local_response_norm(x, a):
    if x[0].dim() == 2:  # PyTorch wants a further dimension
        return F.local_response_norm(x[0][..., None], a["size"], a["alpha"], a["beta"], a["k"])[..., 0]
    return F.local_response_norm(x[0], a["size"], a["alpha"], a["beta"], a["k"])


def gaussian(a):
    u = torch.arange(a["window"], dtype=torch.float64) - a["window"] // 2
    row = torch.exp(-u ** 2 / (2 * a["sigma"] ** 2))
    window = torch.outer(row, row)
    return window / window.sum()


def gaussian_blur2d(x, a):
    planes = x[0].reshape(-1, 1, *x[0].shape[2:])
    return F.conv2d(planes, gaussian(a)[None, None], padding=a["window"] // 2).reshape(x[0].shape)


def local_contrast_norm(x, a):
    def average(t):
        return gaussian_blur2d([t.mean(1, keepdim=True)], a)

    v = x[0] - average(x[0])
    return v / torch.clamp(torch.sqrt(average(v ** 2)), min=a["threshold"])


def window_sum(x, a):
    n, axis = x[0].shape[a["axis"]], a["axis"]
    i = torch.arange(n)
    inside = (i[None, :] >= i[:, None] - a["before"]) & (i[None, :] <= i[:, None] + a["after"])
    return torch.movedim(torch.movedim(x[0], axis, -1) @ inside.to(x[0].dtype).T, -1, axis)


def conv2d_bias_act(x, a):
    y = conv2d(x[:2], a)
    if y is None:
        return None
    y = y + x[2].reshape(1, -1, 1, 1)
    return torch.relu(y) if a["relu"] else y


OPS = {
    "avg_pool2d": avg_pool2d, "avg_pool2d_grad": avg_pool2d_grad, "l2_pool2d": l2_pool2d,
    "batch_norm": skip_empty(batch_norm), "batch_norm_grad": skip_empty(batch_norm_grad),
    "batch_norm_inference": skip_empty(batch_norm_inference),
    "layer_norm": skip_empty(layer_norm), "layer_norm_grad": skip_empty(layer_norm_grad),
    "local_response_norm": skip_empty(local_response_norm), "local_contrast_norm": skip_empty(local_contrast_norm),
    "gaussian_blur2d": skip_empty(gaussian_blur2d), "window_sum": window_sum, "conv2d_bias_act": conv2d_bias_act,
    "conv2d_transpose": skip_empty(conv2d_transpose), "locally_connected2d": skip_empty(locally_connected2d),
    "locally_connected2d_input_grad": skip_empty(local_input_grad),
    "locally_connected2d_filter_grad": skip_empty(local_filter_grad),
    "max_pool2d_grad_grad": max_pool2d_grad_grad, "squared_error": squared_error, "squared_error_grad": squared_error_grad,
    "conv2d": conv2d, "conv2d_input_grad": conv2d_input_grad, "conv2d_filter_grad": conv2d_filter_grad,
    "max_pool2d": max_pool2d, "max_pool2d_grad": max_pool2d_grad,
    "bias_add": lambda x, a: x[0] + x[1].reshape(bias_shape(x[0])),
    "bias_grad": lambda x, a: x[0].sum([d for d in range(x[0].dim()) if d != 1]),
    "softmax": lambda x, a: torch.softmax(x[0], a.get("axis", -1)),
    "log_softmax": lambda x, a: torch.log_softmax(x[0], a.get("axis", -1)),
    "softmax_cross_entropy": cross_entropy, "softmax_cross_entropy_grad": cross_entropy_grad, "correct": correct,
}
