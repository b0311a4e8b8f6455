import torch
import torch.nn.functional as F


def conv_args(a):
    return dict(stride=(a["stride_h"], a["stride_w"]), padding=(a["pad_h"], a["pad_w"]),
                dilation=(a["dilation_h"], a["dilation_w"]), groups=a["groups"])


def conv2d(x, a):
    return F.conv2d(x[0], x[1], **conv_args(a))


def adjoint(f, at, direction):
    """The vector-Jacobian product of f at `at`, itself differentiable."""
    at = at.detach().requires_grad_()
    return torch.autograd.grad(f(at), at, direction, create_graph=True)[0]


def conv2d_input_grad(x, a):
    return torch.nn.grad.conv2d_input(a["input_shape"], x[0], x[1], **conv_args(a))


def conv2d_filter_grad(x, a):
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


OPS = {
    "conv2d": conv2d, "conv2d_input_grad": conv2d_input_grad, "conv2d_filter_grad": conv2d_filter_grad,
    "max_pool2d": max_pool2d, "max_pool2d_grad": max_pool2d_grad,
    "bias_add": lambda x, a: x[0] + x[1].reshape(bias_shape(x[0])),
    "bias_grad": lambda x, a: x[0].sum([d for d in range(x[0].dim()) if d != 1]),
    "softmax": lambda x, a: torch.softmax(x[0], a.get("axis", -1)),
    "log_softmax": lambda x, a: torch.log_softmax(x[0], a.get("axis", -1)),
    "softmax_cross_entropy": cross_entropy, "softmax_cross_entropy_grad": cross_entropy_grad, "correct": correct,
}
