import torch

from array_ops import rows_of, scatter


def attention(x, a):
    q, k, v = x[:3]
    scale = a["scale"] or (q.shape[-1] ** -0.5 if q.shape[-1] else 0.0)
    scores = scale * q @ k.transpose(-1, -2)
    if a["causal"]:
        t, s = scores.shape[-2:]
        scores = scores.masked_fill(~torch.ones(t, s, dtype=torch.bool).tril(), float("-inf"))
    if k.shape[-2] == 0:
        return torch.zeros(*q.shape[:-1], v.shape[-1], dtype=q.dtype) + 0 * q.sum()
    return torch.softmax(scores, -1) @ v


def attention_grad(x, a):
    """Gradients that can be differentiated again."""
    inputs = [t if t.requires_grad else t.clone().requires_grad_() for t in x[:3]]
    y = attention(inputs, a)
    grads = torch.autograd.grad(y, inputs, x[3], create_graph=True, allow_unused=True)
    return [g if g is not None else torch.zeros_like(t) for g, t in zip(grads, inputs)]


def attention_grad_grad(x, a):
    """Gradients of <u, attention_grad(q, k, v, dy)>."""
    inputs = [t.detach().requires_grad_() for t in x[:4]]
    total = sum((g * u).sum() for g, u in zip(attention_grad(inputs, a), x[4:]))
    return zeros_for_none(torch.autograd.grad(total, inputs, allow_unused=True), inputs)


def zeros_for_none(grads, inputs):
    return [g if g is not None else torch.zeros_like(t) for g, t in zip(grads, inputs)]


def recurrent(f, num_states):
    """A cell of PyTorch: (x, states..., w_ih, w_hh, b_ih, b_hh) -> (y, last states...)."""
    def run(x, a):
        if any(0 in t.shape for t in x):
            return None  # PyTorch refuses empty sequences and batches
        states = [s[None] for s in x[1:1 + num_states]]
        out = f(a)(x[0], states if num_states > 1 else states[0], list(x[1 + num_states:5 + num_states]), True, 1, 0.0,
                   False, False, False)
        return [out[0]] + [s[0] for s in out[1:]]

    def grad(x, a):
        n = 5 + num_states
        inputs = [t if t.requires_grad else t.clone().requires_grad_() for t in x[:n]]
        out = run(inputs, a)
        if out is None:
            return None
        return list(torch.autograd.grad(out, inputs, x[n:], create_graph=True))

    def grad_grad(x, a):
        n, m = 5 + num_states, 6 + 2 * num_states
        inputs = [t.detach().requires_grad_() for t in x[:m]]
        first = grad(inputs, a)
        if first is None:
            return None
        total = sum((g * u).sum() for g, u in zip(first, x[m:]))
        return zeros_for_none(torch.autograd.grad(total, inputs, allow_unused=True), inputs)

    return run, grad, grad_grad


rnn, rnn_grad, rnn_grad_grad = recurrent(
    lambda a: torch._VF.rnn_relu if a["nonlinearity"] == "relu" else torch._VF.rnn_tanh, 1)
lstm, lstm_grad, lstm_grad_grad = recurrent(lambda a: torch._VF.lstm, 2)
gru, gru_grad, gru_grad_grad = recurrent(lambda a: torch._VF.gru, 1)


def embedding_grad(x, a):
    return scatter(x[1], x[0], a["shape"], 0)


OPS = {
    "rnn": rnn, "rnn_grad": rnn_grad, "rnn_grad_grad": rnn_grad_grad,
    "lstm": lstm, "lstm_grad": lstm_grad, "lstm_grad_grad": lstm_grad_grad,
    "gru": gru, "gru_grad": gru_grad, "gru_grad_grad": gru_grad_grad,
    "embedding_grad": embedding_grad, "attention_grad_grad": attention_grad_grad,
    "embedding": lambda x, a: rows_of(x[0], 0, x[1]),
    "attention": attention, "attention_grad": attention_grad,
}
