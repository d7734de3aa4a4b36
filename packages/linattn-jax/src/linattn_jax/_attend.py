"""The choice between the two forms."""

from functools import partial

import jax
from jax.custom_derivatives import SymbolicZero

from linattn_core.chunks import chunk_length, is_recurrent
from linattn_jax._chunk import parallel
from linattn_jax._describe import static_size
from linattn_jax._recurrent import recurrent
from linattn_jax._tokens import Array, Tokens

# The longest chunk where chunks follow each other on a CPU, which gains nothing by larger products:
# longer chunks only cost more operations.
CPU_CHUNK = 32

# Up to this size of a state a CPU runs token by token faster than in chunks, but not back again.
SMALL_STATE = 64 * 64


def attend(
    tokens: Tokens, state: Array, execution_mode: str, chunk_size: int
) -> tuple[Array, Array]:
    """The output `[B, T, H, R, Dv]` and the state after the last token, in the form asked for."""
    count = static_size(tokens.key.shape[1])
    if is_recurrent(execution_mode, count):
        return _form(tokens, state, None)
    length = _length(tokens, chunk_size)
    if execution_mode == "auto" and count != 0 and _is_faster_by_token(tokens):
        return _faster_form(tokens, state, length)
    return _form(tokens, state, length)


@partial(jax.jit, static_argnames="length")
def _form(tokens: Tokens, state: Array, length: int | None) -> tuple[Array, Array]:
    return recurrent(tokens, state) if length is None else parallel(tokens, state, length)


@partial(jax.custom_jvp, nondiff_argnums=(2,))
def _faster_form(tokens: Tokens, state: Array, length: int) -> tuple[Array, Array]:
    """In chunks, but token by token on a CPU as long as nothing is differentiated."""
    return _form_of_platform(tokens, state, length)


@partial(_faster_form.defjvp, symbolic_zeros=True)
def _faster_form_jvp(
    length: int, primals: tuple[Tokens, Array], tangents: tuple[Tokens, Array]
) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    primal, tree = jax.tree.flatten(primals)
    tangent = tree.flatten_up_to(tangents)
    # What is constant stays out, or its zeros would be multiplied out and differentiated back.
    varied = [n for n, x in enumerate(tangent) if not isinstance(x, SymbolicZero)]

    def in_chunks(*values: Array) -> tuple[Array, Array]:
        given = dict(zip(varied, values, strict=True))
        tokens, state = tree.unflatten(given.get(n, x) for n, x in enumerate(primal))
        return _form(tokens, state, length)

    return jax.jvp(in_chunks, [primal[n] for n in varied], [tangent[n] for n in varied])


@partial(jax.jit, static_argnames="length")
def _form_of_platform(tokens: Tokens, state: Array, length: int) -> tuple[Array, Array]:
    in_chunks = partial(parallel, length=length)
    return jax.lax.platform_dependent(tokens, state, cpu=recurrent, default=in_chunks)


def _is_faster_by_token(tokens: Tokens) -> bool:
    """Whether a state is small, read by one query head, and chunks of it are dear to prepare."""
    log_decay = tokens.log_decay
    dear = tokens.beta is not None or (log_decay is not None and log_decay.shape[-1] > 1)
    size = tokens.key.shape[-1] * tokens.value.shape[-1]
    return dear and tokens.query.shape[-2] == 1 and size <= SMALL_STATE


def _length(tokens: Tokens, chunk_size: int) -> int:
    """The chunk's length, which is a matter of speed only, so it may depend on the machine."""
    length = chunk_length(chunk_size)
    if _is_sum(tokens) or jax.default_backend() != "cpu":
        return length
    return min(length, CPU_CHUNK)


def _is_sum(tokens: Tokens) -> bool:
    """Whether the rule is "linear": the state is a sum, made without a loop."""
    return tokens.log_decay is None and tokens.beta is None
