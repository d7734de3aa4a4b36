"""The LinearAttention layer."""

from collections.abc import Callable
from typing import Any

import keras
from keras import KerasTensor

from linattn_core.dtypes import compute_dtype
from linattn_keras import ops
from linattn_keras._dispatch import implementation
from linattn_keras.layers._arguments import (
    check_batch_size,
    check_call,
    check_causal,
    check_constructor,
    check_inputs_shape,
    check_mapped,
)
from linattn_keras.layers._attached_mask import AttachedMask
from linattn_keras.ops._tensors import describe, is_symbolic

Tensor = Any
State = tuple[Tensor, ...]


@keras.saving.register_keras_serializable(package="linattn")
class LinearAttention(keras.layers.Layer):
    """Linear self-attention with a constant-size state.

    The inputs are projected to queries, keys and values for every head, and a non-negative
    feature map `φ` is applied to queries and keys. A causal layer computes, for every token `t`,

        S[t] = S[t-1] + outer(φ(key[t]), value[t])
        Z[t] = Z[t-1] + φ(key[t])
        output[t] = φ(query[t]) @ S[t] / (φ(query[t]) @ Z[t] + normalization_epsilon)

    and a non-causal one reads the sums over the whole sequence. The outputs of all heads are
    concatenated and projected. Time and memory grow linearly with the number of tokens, and the
    state that a causal layer streams with does not grow at all.

    Projections are computed in the layer's compute dtype; feature maps, sums, normalisation and
    state in float32, or in float64 if that is the compute dtype.

    Args:
        num_heads: Number of attention heads.
        key_dim: Size of each head's queries and keys.
        value_dim: Size of each head's values. Defaults to `key_dim`.
        output_shape: Size of the outputs' last axis, an integer or a tuple of one. Defaults to
            that of the inputs.
        feature_map: `"elu_plus_one"`, `"relu"` (which adds `normalization_epsilon`), or a callable
            that keeps all axes but the last one; it is called once more when the layer is built,
            to find the size of that axis. A model with a callable can be saved if the
            callable is registered with `keras.saving.register_keras_serializable`.
        use_normalizer: Whether outputs are divided by the sum of what the query gives to every
            key. Without it there is no `key_state`.
        normalization_epsilon: Number `>= 0` that is added to the denominator.
        causal: Whether a token sees only itself and the tokens before it. Only a causal layer has
            a state.
        dropout: Rate of the dropout on the concatenated outputs of the heads, before the output
            projection.
        use_bias: Whether the projections have biases.
        execution_mode: `"parallel"` (chunk by chunk), `"recurrent"` (token by token), or `"auto"`:
            recurrent if the sequence is known to be a single token, else parallel. All give the
            same outputs, states and gradients up to rounding.
        kernel_initializer: Initializer of the projections' kernels.
        bias_initializer: Initializer of the projections' biases.
        kernel_regularizer: Regularizer of the projections' kernels.
        bias_regularizer: Regularizer of the projections' biases.
        activity_regularizer: Regularizer of the projections' outputs.
        kernel_constraint: Constraint on the projections' kernels.
        bias_constraint: Constraint on the projections' biases.
        seed: Integer seed of the dropout.
        native: `None` to compute in the package that is native to the active backend
            (linattn-torch, linattn-jax, linattn-tf) where it is installed, else in `keras.ops`;
            `True` for that package or an `ImportError`; `False` for `keras.ops`. It is no part of
            the config: weights, saved models and results do not depend on it.
        **kwargs: `name`, `dtype` and `trainable`, as for every layer.

    Call arguments:
        inputs: Tensor `(batch_size, sequence_length, input_dim)`, floating point.
        mask: Tensor of rank 2 that is broadcastable to `(batch_size, sequence_length)`, true for a
            real token. Defaults to the mask that Keras carries with the inputs. At any other
            token the outputs are 0 (the bias of the output projection included), the state stays
            as it was, gradients are 0, and the inputs may be anything, NaN too.
        initial_state: What an earlier call of a causal layer returned as its state, or
            `get_initial_state()`. Defaults to zeros.
        return_state: Whether to return the state after the last token too.
        training: Whether to apply the dropout.

    Input shape:
        `(batch_size, sequence_length, input_dim)`, with any batch size and any sequence length,
        0 included.

    Output shape:
        `(batch_size, sequence_length, output_dim)`. With `return_state=True` a tuple of that and
        the state: `(key_value_state, key_state)` of shapes
        `(batch_size, num_heads, key_dim, value_dim)` and `(batch_size, num_heads, key_dim)`, or
        `(key_value_state,)` with `use_normalizer=False`. Outputs have the compute dtype; states
        have float32, or float64 if that is the compute dtype.

    Example:

    >>> layer = LinearAttention(num_heads=4, key_dim=16, causal=True)
    >>> inputs = keras.random.normal((2, 100, 32))
    >>> outputs = layer(inputs)
    >>> tuple(outputs.shape)
    (2, 100, 32)

    In two parts, the second of which goes on from the state of the first:

    >>> first, state = layer(inputs[:, :60], return_state=True)
    >>> second, state = layer(inputs[:, 60:], initial_state=state, return_state=True)

    References:
        Katharopoulos et al., Transformers are RNNs, 2020, https://arxiv.org/abs/2006.16236
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        output_shape: int | tuple[int] | None = None,
        feature_map: str | Callable[[Tensor], Tensor] = "elu_plus_one",
        use_normalizer: bool = True,
        normalization_epsilon: float = 1e-6,
        causal: bool = False,
        dropout: float = 0.0,
        use_bias: bool = True,
        execution_mode: str = "auto",
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        seed: int | None = None,
        native: bool | None = None,
        **kwargs: Any,
    ) -> None:
        check_constructor(
            num_heads=num_heads,
            key_dim=key_dim,
            value_dim=value_dim,
            output_shape=output_shape,
            feature_map=feature_map,
            use_normalizer=use_normalizer,
            normalization_epsilon=normalization_epsilon,
            causal=causal,
            dropout=dropout,
            use_bias=use_bias,
            execution_mode=execution_mode,
            seed=seed,
            native=native,
        )
        super().__init__(**kwargs)
        self.supports_masking = True
        # Casting the arguments to a half precision would round the state too.
        self.autocast = False
        self.num_heads = num_heads
        self.key_dim = key_dim
        self.value_dim = key_dim if value_dim is None else value_dim
        # Not `output_shape`: that is what a model calls the shape of a layer's output.
        has_axes = isinstance(output_shape, (tuple, list))
        self._output_dim = output_shape[0] if has_axes else output_shape
        self.feature_map = feature_map
        self.use_normalizer = use_normalizer
        self.normalization_epsilon = normalization_epsilon
        self.causal = causal
        self.dropout = dropout
        self.use_bias = use_bias
        self.execution_mode = execution_mode
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.kernel_regularizer = keras.regularizers.get(kernel_regularizer)
        self.bias_regularizer = keras.regularizers.get(bias_regularizer)
        # For the projections: the layer's own would be applied to the states as well.
        self._activity_regularizer = keras.regularizers.get(activity_regularizer)
        self.kernel_constraint = keras.constraints.get(kernel_constraint)
        self.bias_constraint = keras.constraints.get(bias_constraint)
        self.seed = seed
        self.native = native
        # Not to be wrapped by an outer scope: what recomputes a call cannot return None.
        with keras.RematScope(mode=None):
            self._attached_mask = AttachedMask(name="attached_mask")
        self._input_dim = None
        self._mapped_dim = key_dim if isinstance(feature_map, str) else None

    def build(self, inputs_shape: tuple[int | None, ...]) -> None:
        check_inputs_shape(inputs_shape)
        implementation(self.native)  # raises if it must be native and cannot
        self._find_mapped_dim()  # builds a map that is a layer
        heads, input_dim = self.num_heads, inputs_shape[-1]
        output_dim = self._output_dim or input_dim
        self._query_dense = self._projection("query", "btd,dhk->bthk", (heads, self.key_dim))
        self._key_dense = self._projection("key", "btd,dhk->bthk", (heads, self.key_dim))
        self._value_dense = self._projection("value", "btd,dhv->bthv", (heads, self.value_dim))
        self._output_dense = self._projection("attention_output", "bthv,hvo->bto", (output_dim,))
        for projection in (self._query_dense, self._key_dense, self._value_dense):
            projection.build(inputs_shape)
        self._output_dense.build((*inputs_shape[:-1], heads, self.value_dim))
        self._dropout_layer = None
        if self.dropout > 0:
            self._dropout_layer = keras.layers.Dropout(
                self.dropout, seed=self.seed, dtype=self.dtype_policy
            )
        self._input_dim = input_dim
        self.built = True

    def _projection(
        self, name: str, equation: str, sizes: tuple[int, ...]
    ) -> keras.layers.EinsumDense:
        return keras.layers.EinsumDense(
            equation,
            output_shape=(None, *sizes),
            bias_axes=equation.partition("->")[2][2:] if self.use_bias else None,
            # An initializer without a seed gives the same values each time it is used.
            kernel_initializer=_clone(self.kernel_initializer),
            bias_initializer=_clone(self.bias_initializer),
            kernel_regularizer=self.kernel_regularizer,
            bias_regularizer=self.bias_regularizer,
            activity_regularizer=self._activity_regularizer,
            kernel_constraint=self.kernel_constraint,
            bias_constraint=self.bias_constraint,
            dtype=self.dtype_policy,
            name=name,
        )

    def call(
        self,
        inputs: Tensor,
        mask: Tensor | None = None,
        initial_state: State | None = None,
        return_state: bool = False,
        training: bool | None = None,
    ) -> Tensor | tuple[Tensor, State]:
        if mask is None and initial_state is not None:
            # Keras looks for the mask only when the inputs are the only tensor of a call.
            _, mask = self._attached_mask(inputs)
        self._check_call(inputs, mask, initial_state, return_state)
        inputs = keras.ops.cast(inputs, self.compute_dtype)
        if mask is not None:
            mask = _full(mask, inputs)
            # Also for the weights' gradients: 0 * NaN would be NaN there.
            inputs = _keep(mask, inputs)
        outputs, state = ops.kernelized_attention(
            _project(self._query_dense, inputs),
            _project(self._key_dense, inputs),
            _project(self._value_dense, inputs),
            feature_map=self.feature_map,
            causal=self.causal,
            use_normalizer=self.use_normalizer,
            epsilon=self.normalization_epsilon,
            mask=mask,
            initial_state=None if initial_state is None else tuple(initial_state),
            execution_mode=self.execution_mode,
            native=self.native,
        )
        if self._dropout_layer is not None:
            outputs = self._dropout_layer(outputs, training=training)
        outputs = _project(self._output_dense, outputs)
        if mask is not None:
            outputs = _keep(mask, outputs)
        return (outputs, state) if return_state else outputs

    def get_initial_state(self, batch_size: int | None = None) -> State:
        """The state before the first token.

        Args:
            batch_size: An integer `>= 0`, for a state of zeros. `None` for `keras.Input`s of the
                state's shapes, through which a Functional model takes the state of an earlier call.

        Returns:
            `(key_value_state, key_state)`, or `(key_value_state,)` with `use_normalizer=False`.
            The layer need not be built.

        Raises:
            ValueError: the layer is not causal, or `batch_size` is something else.
        """
        check_causal(self.causal)
        if batch_size is None:
            return tuple(
                keras.Input(batch_shape=shape, dtype=self._state_dtype)
                for shape in self._state_shapes(None)
            )
        check_batch_size(batch_size)
        return tuple(
            keras.ops.zeros(shape, dtype=self._state_dtype)
            for shape in self._state_shapes(batch_size)
        )

    def compute_mask(self, inputs: Tensor, previous_mask: Tensor | None) -> Tensor | None:
        if previous_mask is None or is_symbolic([inputs, previous_mask]):
            return previous_mask
        return _full(previous_mask, inputs)

    def compute_output_shape(self, inputs_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        check_inputs_shape(inputs_shape, self._input_dim)
        return (*inputs_shape[:-1], self._output_dim or inputs_shape[-1])

    def compute_output_spec(
        self,
        inputs: Tensor,
        mask: Tensor | None = None,
        initial_state: State | None = None,
        return_state: bool = False,
        training: bool | None = None,
    ) -> KerasTensor | tuple[KerasTensor, tuple[KerasTensor, ...]]:
        self._check_call(inputs, mask, initial_state, return_state)
        outputs = KerasTensor(self.compute_output_shape(tuple(inputs.shape)), self.compute_dtype)
        if not return_state:
            return outputs
        shapes = self._state_shapes(inputs.shape[0])
        return outputs, tuple(KerasTensor(shape, self._state_dtype) for shape in shapes)

    def get_config(self) -> dict[str, Any]:
        feature_map = self.feature_map
        if not isinstance(feature_map, str):
            feature_map = keras.saving.serialize_keras_object(feature_map)
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "key_dim": self.key_dim,
            "value_dim": self.value_dim,
            "output_shape": self._output_dim,
            "feature_map": feature_map,
            "use_normalizer": self.use_normalizer,
            "normalization_epsilon": self.normalization_epsilon,
            "causal": self.causal,
            "dropout": self.dropout,
            "use_bias": self.use_bias,
            "execution_mode": self.execution_mode,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
            "kernel_regularizer": keras.regularizers.serialize(self.kernel_regularizer),
            "bias_regularizer": keras.regularizers.serialize(self.bias_regularizer),
            "activity_regularizer": keras.regularizers.serialize(self._activity_regularizer),
            "kernel_constraint": keras.constraints.serialize(self.kernel_constraint),
            "bias_constraint": keras.constraints.serialize(self.bias_constraint),
            "seed": self.seed,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "LinearAttention":
        feature_map = config.get("feature_map")
        if isinstance(feature_map, dict):
            feature_map = keras.saving.deserialize_keras_object(feature_map)
            config = {**config, "feature_map": feature_map}
        return super().from_config(config)

    def _check_call(
        self, inputs: Tensor, mask: Tensor | None, initial_state: State | None, return_state: bool
    ) -> None:
        check_call(
            inputs,
            mask,
            initial_state,
            return_state,
            input_dim=self._input_dim,
            causal=self.causal,
            state_shapes=self._state_shapes,
        )

    def _find_mapped_dim(self) -> int:
        """The size of mapped keys: a callable map may change it."""
        if self._mapped_dim is None:
            keys = keras.ops.zeros((1, 1, self.num_heads, self.key_dim), dtype=self._state_dtype)
            self._mapped_dim = check_mapped(keys, self.feature_map(keys))
        return self._mapped_dim

    @property
    def _state_dtype(self) -> str:
        return compute_dtype(self.compute_dtype)

    def _state_shapes(self, batch_size: Any) -> tuple[tuple[Any, ...], ...]:
        key_state = (batch_size, self.num_heads, self._find_mapped_dim())
        key_value_state = (*key_state, self.value_dim)
        return (key_value_state, key_state) if self.use_normalizer else (key_value_state,)


def _clone(initializer: Any) -> Any:
    if not isinstance(initializer, keras.initializers.Initializer):
        return initializer  # a function
    return initializer.__class__.from_config(initializer.get_config())


def _full(mask: Tensor, inputs: Tensor) -> Tensor:
    """A mask of any dtype that is broadcastable to the inputs' tokens, as bool `[B, T]`."""
    return keras.ops.broadcast_to(keras.ops.cast(mask, "bool"), keras.ops.shape(inputs)[:2])


def _project(projection: keras.layers.EinsumDense, x: Tensor) -> Tensor:
    projected = projection(x)
    (batch_size, length, *_), _ = describe(x)
    if batch_size == length == 0:
        # TensorFlow's einsum makes one sequence of none.
        projected = keras.ops.reshape(projected, (0, 0, *projected.shape[2:]))
    return projected


def _keep(mask: Tensor, x: Tensor) -> Tensor:
    """`x` where the mask is true, 0 elsewhere, whatever `x` holds there."""
    return keras.ops.where(keras.ops.expand_dims(mask, -1), x, keras.ops.zeros_like(x))
