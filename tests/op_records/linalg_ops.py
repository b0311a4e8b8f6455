import torch


def matmul(x, a):
    p = x[0].transpose(-1, -2) if a["transpose_a"] else x[0]
    q = x[1].transpose(-1, -2) if a["transpose_b"] else x[1]
    return p @ q


def matmul_bias_act(x, a):
    y = matmul(x[:2], a)
    y = y + x[2].reshape([1, -1] + [1] * (y.dim() - 2))
    return torch.relu(y) if a["relu"] else y


OPS = {
    "matmul_bias_act": matmul_bias_act,
    "matmul": matmul,
    "inverse": lambda x, a: torch.linalg.inv(x[0]),
    "determinant": lambda x, a: torch.linalg.det(x[0]),
}
