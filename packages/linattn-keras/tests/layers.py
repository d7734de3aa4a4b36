"""Small layers with random weights, their definition in float64, and gradients on any backend."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import keras
import numpy as np

from linattn_keras import LinearAttention
from linattn_spec import kernelized_attention

BATCH, TOKENS, WIDTH = 2, 11, 6
SIZES = dict(num_heads=3, key_dim=4, value_dim=5, output_shape=7)

Array = np.ndarray


def draw(*shape: int, seed: int = 0, dtype: str = "float32") -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def sequence(tokens: int = TOKENS, seed: int = 0, dtype: str = "float32") -> Array:
    """Inputs of a layer."""
    return draw(BATCH, tokens, WIDTH, seed=seed, dtype=dtype)


def built(**arguments: Any) -> LinearAttention:
    """A layer with every weight random, the biases too."""
    layer = LinearAttention(**{**SIZES, **arguments})
    layer.build((None, None, WIDTH))
    rng = np.random.default_rng(1)
    layer.set_weights([0.5 * rng.normal(size=w.shape) for w in layer.weights])
    return layer


@contextmanager
def float64() -> Iterator[None]:
    """Within it, as a decorator too, JAX does not round float64 to float32."""
    if keras.backend.backend() != "jax":
        yield
        return
    import jax

    with jax.enable_x64(True):
        yield


def arrays(x: Any) -> Any:
    """The tensors in `x` as NumPy arrays, half precisions as float32."""

    def array(tensor: Any) -> Array:
        dtype = keras.backend.standardize_dtype(tensor.dtype)
        if dtype in ("float16", "bfloat16"):
            tensor = keras.ops.cast(tensor, "float32")
        return keras.ops.convert_to_numpy(tensor)

    return keras.tree.map_structure(array, x)


def assert_close(actual: Any, expected: Any, tolerance: float) -> None:
    """Raises AssertionError unless each array is within `tolerance` of its largest element."""
    actual, expected = map(keras.tree.flatten, (arrays(actual), arrays(expected)))
    assert len(actual) == len(expected) > 0
    for x, y in zip(actual, expected, strict=True):
        scale = max(float(np.max(np.abs(y), initial=0)), 1e-30)
        np.testing.assert_allclose(x / scale, y / scale, 0, tolerance, equal_nan=False)


def assert_same_bits(actual: Any, expected: Any) -> None:
    """Raises AssertionError unless all arrays are equal."""
    actual, expected = map(keras.tree.flatten, (arrays(actual), arrays(expected)))
    assert len(actual) == len(expected) > 0
    for x, y in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(x, y)


def project(layer: LinearAttention, name: str, x: Array) -> Array:
    """The projection called `name` of the layer, in float64."""
    equation = "bthv,hvo->bto" if name == "attention_output" else "btd,dhk->bthk"
    weights = {"/".join(w.path.split("/")[-2:]): arrays(w).astype("float64") for w in layer.weights}
    return np.einsum(equation, x, weights[f"{name}/kernel"]) + weights.get(f"{name}/bias", 0)


def reference(
    layer: LinearAttention,
    inputs: Array,
    mask: Array | None = None,
    initial_state: Sequence[Array] | None = None,
) -> tuple[Array, tuple[Array, ...] | None]:
    """The outputs and the state that the definition gives for the layer's weights, in float64."""
    live = np.ones(inputs.shape[:2], bool) if mask is None else mask
    inputs = np.where(live[..., None], inputs.astype("float64"), 0)
    outputs, state = kernelized_attention(
        *(project(layer, name, inputs) for name in ("query", "key", "value")),
        feature_map=layer.feature_map,
        causal=layer.causal,
        use_normalizer=layer.use_normalizer,
        epsilon=layer.normalization_epsilon,
        mask=live,
        initial_state=initial_state,
    )
    outputs = project(layer, "attention_output", outputs)
    return np.where(live[..., None], outputs, 0), state


def gradients(
    loss: Callable[..., Any], tensors: Sequence[Array], variables: Sequence[keras.Variable] = ()
) -> list[Array]:
    """The gradients of `loss(*tensors)` for each of `tensors` and then each of `variables`."""
    return arrays(differentiate(loss, tensors, variables))


def differentiate(
    loss: Callable[..., Any], tensors: Sequence[Any], variables: Sequence[keras.Variable] = ()
) -> list[Any]:
    """`gradients` as the backend's tensors, which may be traced."""
    tensors = [keras.ops.convert_to_tensor(x) for x in tensors]
    return _GRADIENTS[keras.backend.backend()](loss, tensors, list(variables))


def _torch(loss: Callable[..., Any], tensors: list[Any], variables: list[Any]) -> list[Any]:
    import torch

    sources = [x.detach().clone().requires_grad_() for x in tensors]
    total = loss(*sources)
    sources += [variable.value for variable in variables]
    return list(torch.autograd.grad(total, sources, materialize_grads=True))


def _tensorflow(loss: Callable[..., Any], tensors: list[Any], variables: list[Any]) -> list[Any]:
    import tensorflow as tf

    sources = tensors + [variable.value for variable in variables]
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        total = loss(*tensors)
    return tape.gradient(total, sources, unconnected_gradients="zero")


def _jax(loss: Callable[..., Any], tensors: list[Any], variables: list[Any]) -> list[Any]:
    import jax

    def stateless(tensors: list[Any], values: list[Any]) -> Any:
        with keras.StatelessScope(state_mapping=zip(variables, values, strict=True)):
            return loss(*tensors)

    values = [variable.value for variable in variables]
    # Compiling one program takes a fifth of the time of compiling every operation in it.
    by_tensor, by_value = jax.jit(jax.grad(stateless, argnums=(0, 1)))(tensors, values)
    return by_tensor + by_value


_GRADIENTS = {"jax": _jax, "tensorflow": _tensorflow, "torch": _torch}
