"""PyTorch, eager or compiled."""

import torch


def use(threads):
    torch.set_num_threads(threads)


def forward(function, inputs, dtype, *, compiled=False):
    given, function = _tensors(inputs, dtype), _compiled(function, compiled)

    def call():
        with torch.no_grad():
            return function(given)

    return call


def gradient(function, inputs, cotangents, dtype, *, compiled=False):
    given, function = _tensors(inputs, dtype), _compiled(function, compiled)
    incoming = _tensors(cotangents, dtype)
    leaves = [x.requires_grad_() for x in given.values()]

    def call():
        results = function(given)
        outputs = [results[name] for name in incoming]
        into = [x.to(y.dtype) for x, y in zip(incoming.values(), outputs, strict=True)]
        gradients = torch.autograd.grad(outputs, leaves, into)
        named = zip(given, gradients, strict=True)
        return results | {f"gradient.{name}": x for name, x in named}

    return call


def step(function, inputs, dtype, *, compiled=False):
    given, function = _tensors(inputs, dtype), _compiled(function, compiled)
    batch, tokens, heads, width = given["query"].shape
    each = [{name: x[:, t].contiguous() for name, x in given.items()} for t in range(tokens)]

    def call(state=None):
        if state is None:
            state = torch.zeros(batch, heads, width, width)
        with torch.no_grad():
            for token in each:
                output, state = function(token, state)
        return {"last_output": output, "final_state": state}

    return call


def arrays(results):
    return {name: x.detach().float().numpy() for name, x in results.items()}


def _tensors(arrays, dtype):
    # A copy of its own, aligned as PyTorch aligns what it allocates.
    return {
        name: torch.from_numpy(x.copy()).to(getattr(torch, dtype), copy=True)
        for name, x in arrays.items()
    }


def _compiled(function, compiled):
    return torch.compile(function, fullgraph=True, dynamic=False) if compiled else function
