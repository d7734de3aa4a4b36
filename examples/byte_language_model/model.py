"""The model: a Functional one that is trained, and one on the same layers that streams."""

import keras

from byte_language_model.text import VOCABULARY
from linattn_keras import LinearAttention

EMBEDDING = 64
# Attention that sums over the past does not know what stood next to what: each byte is first
# seen together with the ones just before it.
NEIGHBOURS = 6


def language_model(width, blocks, heads):
    """bytes [B, T] -> the logits [B, T, 256] of the bytes that follow."""
    # Keras' small default would leave the bytes unheard beside what the first blocks add to them.
    spread = keras.initializers.RandomNormal(stddev=1.0)
    layers = [
        keras.layers.Embedding(
            VOCABULARY, EMBEDDING, embeddings_initializer=spread, name="embedding"
        ),
        keras.layers.Conv1D(width, NEIGHBOURS, name="neighbours"),
        keras.layers.LayerNormalization(name="norm"),
        keras.layers.Dense(VOCABULARY, name="logits"),
    ]
    for i in range(blocks):
        layers += [
            keras.layers.LayerNormalization(name=f"norm_attention_{i}"),
            LinearAttention(heads, width // heads, causal=True, name=f"attention_{i}"),
            keras.layers.LayerNormalization(name=f"norm_mlp_{i}"),
            keras.layers.Dense(4 * width, activation="gelu", name=f"expand_{i}"),
            keras.layers.Dense(width, name=f"contract_{i}"),
        ]
    tokens = keras.Input((None,), dtype="int32")
    logits, _ = _connect(_named(layers), tokens)
    return keras.Model(tokens, logits)


def streaming_model(model):
    """(bytes [B, T], *state) -> (logits [B, T, 256], *state), with the layers of `model`."""
    tokens = keras.Input((None,), dtype="int32")
    state = [keras.Input((NEIGHBOURS - 1, EMBEDDING))]
    for layer in model.layers:
        if isinstance(layer, LinearAttention):
            state += layer.get_initial_state()
    logits, final_state = _connect(_named(model.layers), tokens, state)
    return keras.Model([tokens, *state], [logits, *final_state])


def _named(layers):
    return {layer.name: layer for layer in layers}


def _connect(layers, tokens, state=None):
    """The logits of `tokens` that follow on `state`, and the state after them."""
    history, *sums = state or [None]
    x = layers["embedding"](tokens)
    if history is None:
        x = keras.ops.pad(x, ((0, 0), (NEIGHBOURS - 1, 0), (0, 0)))
    else:
        x = keras.ops.concatenate([history, x], axis=1)
    final_state = [x[:, 1 - NEIGHBOURS :]]
    x = layers["neighbours"](x)
    for i in range(sum(name.startswith("attention_") for name in layers)):
        y, final_sums = layers[f"attention_{i}"](
            layers[f"norm_attention_{i}"](x),
            initial_state=sums[2 * i : 2 * i + 2] or None,
            return_state=True,
        )
        final_state += final_sums
        x = x + y
        y = layers[f"expand_{i}"](layers[f"norm_mlp_{i}"](x))
        x = x + layers[f"contract_{i}"](y)
    return layers["logits"](layers["norm"](x)), final_state
