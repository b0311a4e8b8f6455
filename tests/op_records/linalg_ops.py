import torch


def matmul(x, a):
    p = x[0].transpose(-1, -2) if a["transpose_a"] else x[0]
    q = x[1].transpose(-1, -2) if a["transpose_b"] else x[1]
    return p @ q


OPS = {
    "matmul": matmul,
    "inverse": lambda x, a: torch.linalg.inv(x[0]),
    "determinant": lambda x, a: torch.linalg.det(x[0]),
}
