"""A second implementation of the operators, around the recurrence of recurrence.py."""

import numpy as np

from linattn_spec import feature_maps
from linattn_spec.linear_attention import wide
from linattn_spec.mutants.recurrence import Recurrence


def split(x, heads):
    """`[B, T, H * D]` as `[B, T, H, D]`."""
    return x.reshape(*x.shape[:2], heads, x.shape[2] // heads)


class Dissected(Recurrence):
    """A correct adapter (conformance.py). Nothing is checked and nothing is fast."""

    operators = ("linear_attention", "linear_attention_step", "onnx_linear_attention")
    """What a mutant is tried on: where its fault can show."""
    every_rule = (*operators, "kernelized_attention")
    in_gradients = False
    """Whether the fault is one of gradients. If not, only outputs count as caught."""

    def __call__(self, operator, inputs, arguments, cotangents=None):
        arguments = {n: x for n, x in arguments.items() if n != "execution_mode"}
        with np.errstate(all="ignore"):
            return getattr(self, operator)(inputs, cotangents, **arguments)

    def linear_attention(
        self, given, cotangents, *, update_rule="linear", scale=None, chunk_size=64
    ):
        scale = self.scale(scale, given["query"].shape[-1])
        rows = self.rows(given, scale, chunk_size, delta=update_rule in ("delta", "gated_delta"))
        output, state = self.forward(rows)
        results = {
            "output": rows.live(output).swapaxes(1, 2),
            "final_state": self.leave(state[:, rows.first]),
        }
        if cotangents is not None:
            gradient = self.gradients(
                rows, given, cotangents.get("output"), cotangents.get("final_state")
            )
            results |= {f"gradient.{n}": x for n, x in gradient.items()}
        return results

    def linear_attention_step(self, given, cotangents, **arguments):
        tokens = {n: x[:, None] for n, x in given.items() if n != "state"}
        tokens["initial_state"] = given["state"]
        if cotangents is not None:
            cotangents = cotangents | {"output": cotangents["output"][:, None]}
        results = self.linear_attention(tokens, cotangents, **arguments)
        return {
            n.replace("initial_state", "state"): x if n.endswith("state") else x[:, 0]
            for n, x in results.items()
        }

    def onnx_linear_attention(
        self,
        given,
        cotangents,
        *,
        q_num_heads,
        kv_num_heads,
        update_rule="gated_delta",
        scale=0.0,
        chunk_size=64,
    ):
        names = {"decay": "log_decay", "past_state": "initial_state"}
        heads = {"query": q_num_heads, "key": kv_num_heads, "value": kv_num_heads}
        tokens = {names.get(n, n): x for n, x in given.items()}
        tokens |= {n: split(x, heads[n]) for n, x in given.items() if n in heads}
        if "decay" in given and given["decay"].shape[2] != kv_num_heads:
            tokens["log_decay"] = self.unpack_decay(given["decay"], kv_num_heads)
        if cotangents is not None:
            cotangents = {
                "output": split(cotangents["output"], q_num_heads),
                "final_state": cotangents.get("present_state"),
            }
        results = self.linear_attention(
            tokens, cotangents, update_rule=update_rule, scale=scale or None, chunk_size=chunk_size
        )
        B, T, H, Dv = results["output"].shape
        packed = {
            "output": results["output"].reshape(B, T, H * Dv),
            "present_state": results["final_state"],
        }
        if cotangents is not None:
            packed |= {
                f"gradient.{n}": results[f"gradient.{names.get(n, n)}"].reshape(x.shape)
                for n, x in given.items()
            }
        return packed

    def kernelized_attention(
        self,
        given,
        cotangents,
        *,
        feature_map="elu_plus_one",
        causal=False,
        use_normalizer=True,
        epsilon=1e-6,
        chunk_size=64,
    ):
        phi, slope = self.feature_map(feature_map, epsilon)
        tokens = dict(given)
        tokens["query"] = phi(given["query"])
        tokens["key"] = self.mapped_key(phi, given["key"], given.get("mask"))
        if "initial_state" in given:
            tokens["initial_state"] = self.with_column(*given["initial_state"])
        columns = given["value"].shape[-1]
        if use_normalizer:
            ones = np.ones_like(given["value"][..., :1])
            tokens["value"] = np.concatenate([given["value"], ones], axis=-1)
        rows = self.rows(tokens, 1.0, chunk_size, delta=False)
        if use_normalizer:
            rows.v[..., -1] = self.counted(rows.keep)
        reading, state = self.forward(rows) if causal else (self.whole_segment(rows), None)
        output, denominator = reading, np.ones_like(reading[..., :1])
        if use_normalizer:
            denominator = np.where(rows.keep[..., None], self.denominator(reading, epsilon), 1)
            output = reading[..., :-1] / denominator
        results = {"output": rows.live(output).swapaxes(1, 2)}
        if causal:
            parts = self.without_column(state[:, rows.first], use_normalizer)
            results |= {f"final_state.{i}": x for i, x in enumerate(parts)}
        if cotangents is None:
            return results

        d_output = rows.live(wide(cotangents["output"]).swapaxes(1, 2)) / denominator
        if use_normalizer:
            d_output = np.concatenate([d_output, self.quotient(d_output, output)], axis=-1)
        d_parts = [cotangents[n] for n in sorted(cotangents) if n.startswith("final_state")]
        d_state = self.with_column(*d_parts) if d_parts else None
        gradient = self.gradients(rows, tokens, d_output.swapaxes(1, 2), d_state, causal)
        for name in ("query", "key"):
            gradient[name] = rows.live_tokens(gradient[name] * slope(wide(given[name])))
        gradient["value"] = gradient["value"][..., :columns]
        d_state = gradient.pop("initial_state")
        results |= {f"gradient.{n}": x for n, x in gradient.items()}
        if causal:
            parts = self.without_column(d_state, use_normalizer)
            results |= {f"gradient.initial_state.{i}": x for i, x in enumerate(parts)}
        return results

    def elu_plus_one(self, given, cotangents):
        return self.map_alone("elu_plus_one", given["x"], cotangents, 0.0)

    def relu(self, given, cotangents, *, epsilon=1e-6):
        return self.map_alone("relu", given["x"], cotangents, epsilon)

    def map_alone(self, name, x, cotangents, epsilon):
        phi, slope = self.feature_map(name, epsilon)
        results = {"output": phi(x)}
        if cotangents is not None:
            results["gradient.x"] = slope(wide(x)) * cotangents["output"]
        return results

    def l2_normalize(self, given, cotangents, *, epsilon=1e-6):
        x = wide(given["x"])
        results = {"output": self.normalized(x, epsilon)}
        if cotangents is not None:
            results["gradient.x"] = self.l2_gradient(x, wide(cotangents["output"]), epsilon)
        return results

    # The pieces that are the operators' own.

    def scale(self, scale, Dk):
        return Dk**-0.5 if scale is None else scale

    def unpack_decay(self, decay, heads):
        return split(decay, heads)

    def feature_map(self, name, epsilon):
        """The map of an input, and its derivative."""
        phi, slope = feature_maps.feature_map(name, epsilon)
        return lambda x: phi(wide(x)), slope

    def mapped_key(self, phi, key, mask):
        return phi(key)

    def denominator(self, reading, epsilon):
        return reading[..., -1:] + epsilon

    def quotient(self, d_output, output):
        return -np.sum(d_output * output, axis=-1, keepdims=True)

    def normalized(self, x, epsilon):
        return feature_maps.l2_normalize(x, epsilon)

    def l2_gradient(self, x, d, epsilon):
        return feature_maps.l2_normalize_vjp(x, d, epsilon)

    def with_column(self, key_value_state, key_state=None):
        """The state [S, Z] of the rule "linear" that kernel attention is."""
        if key_state is None:
            return wide(key_value_state)
        return np.concatenate([wide(key_value_state), wide(key_state)[..., None]], axis=-1)

    def without_column(self, state, use_normalizer):
        return (state[..., :-1], state[..., -1]) if use_normalizer else (state,)

    def leave(self, state):
        return state

    def counted(self, keep):
        """The column of ones that sums the keys into the denominator."""
        return keep
