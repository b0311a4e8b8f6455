import torch
import torch.nn.functional as F

DTYPES = {"f64": torch.float64, "f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16, "i64": torch.int64,
          "i32": torch.int32, "u8": torch.uint8, "bool": torch.bool}


def unary(f):
    return lambda x, a: f(x[0])


def binary(f):
    return lambda x, a: f(x[0], x[1])


def clip(x, a):
    return torch.clamp(x[0], a["low"], a["high"])


def relu_grad(x, a):
    return x[0] * (x[1] > 0).to(x[0].dtype)


OPS = {
    "add": binary(torch.add), "sub": binary(torch.sub), "mul": binary(torch.mul), "div": binary(torch.div),
    "pow": binary(torch.pow), "maximum": binary(torch.maximum), "minimum": binary(torch.minimum),
    "squared_difference": binary(lambda p, q: (p - q) ** 2),
    "neg": unary(torch.neg), "exp": unary(torch.exp), "log": unary(torch.log), "sqrt": unary(torch.sqrt),
    "square": unary(torch.square), "relu": unary(torch.relu), "sigmoid": unary(torch.sigmoid), "tanh": unary(torch.tanh),
    "abs": unary(torch.abs), "sign": unary(torch.sign), "reciprocal": unary(torch.reciprocal), "rsqrt": unary(torch.rsqrt),
    "log1p": unary(torch.log1p), "expm1": unary(torch.expm1), "sin": unary(torch.sin), "cos": unary(torch.cos),
    "erf": unary(torch.erf), "floor": unary(torch.floor), "ceil": unary(torch.ceil), "round": unary(torch.round),
    "softplus": unary(F.softplus), "silu": unary(F.silu),
    "elu": lambda x, a: F.elu(x[0], a["alpha"]),
    "leaky_relu": lambda x, a: F.leaky_relu(x[0], a["slope"]),
    "gelu": lambda x, a: F.gelu(x[0], approximate="tanh" if a["tanh"] else "none"),
    "scale": lambda x, a: x[0] * a["factor"] if x[0].is_floating_point() else (x[0] * a["factor"]).to(x[0].dtype),
    "clip": clip, "relu_grad": relu_grad,
    "cast": lambda x, a: x[0].to(DTYPES[a["dtype"]]),
    "equal": binary(torch.eq), "not_equal": binary(torch.ne), "less": binary(torch.lt), "less_equal": binary(torch.le),
    "greater": binary(torch.gt), "greater_equal": binary(torch.ge),
    "logical_and": binary(torch.logical_and), "logical_or": binary(torch.logical_or), "logical_not": unary(torch.logical_not),
    "select": lambda x, a: torch.where(x[0], x[1], x[2]),
    "is_nan": unary(torch.isnan), "is_finite": unary(torch.isfinite),
}
