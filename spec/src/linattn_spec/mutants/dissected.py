"""A second implementation of the operators, around the recurrence of recurrence.py."""

from typing import Any

import numpy as np

from linattn_spec import feature_maps
from linattn_spec.arrays import Array, Arrays, wide
from linattn_spec.feature_maps import Map
from linattn_spec.mutants.recurrence import Recurrence
from linattn_spec.tolerances import ACCUMULATION

Inputs = dict[str, Any]


def split(x: Array, heads: int) -> Array:
    """`[B, T, H * D]` as `[B, T, H, D]`."""
    return x.reshape(*x.shape[:2], heads, x.shape[2] // heads)


class Dissected(Recurrence):
    """A correct adapter (conformance.py). Nothing is checked and nothing is fast."""

    operators: tuple[str, ...] = (
        "linear_attention",
        "linear_attention_step",
        "onnx_linear_attention",
    )
    """What a mutant is tried on: where its fault can show."""
    every_rule = (*operators, "kernelized_attention")
    dtypes: tuple[str, ...] = ("float64", "float32", "float16", "bfloat16")
    """The dtypes of a case in which the fault can show."""
    shows_with: tuple[str, ...] = ()
    """Inputs without any of which the fault cannot show; if empty, it always can."""
    decays_in = ("log_decay", "decay", "segment_ids")
    longest = 40
    """The most tokens of a case that it is tried on: most faults show within a few."""
    in_gradients = False
    """Whether the fault is one of gradients. If not, only outputs count as caught."""
    in_checks = False
    """Whether the fault is one of checks. If so, it is tried on the calls to be refused."""
    raises: tuple[type[Exception], ...] = ()
    """How the fault may fail a call that it should take."""

    def __call__(
        self,
        operator: str,
        inputs: Inputs,
        arguments: dict[str, Any],
        cotangents: Arrays | None = None,
    ) -> Arrays:
        arguments = {n: x for n, x in arguments.items() if n != "execution_mode"}
        with np.errstate(all="ignore"):
            results: Arrays = getattr(self, operator)(inputs, cotangents, **arguments)
            for name in results:
                if name.startswith(("final_state", "present_state")):
                    results[name] = results[name].astype(self.state_dtype(operator, inputs))
        return results

    def state_dtype(self, operator: str, inputs: Inputs) -> str:
        """In which a state is returned, for the next call to take."""
        if operator == "onnx_linear_attention":
            return str(inputs["past_state" if "past_state" in inputs else "query"].dtype)
        return ACCUMULATION[str(inputs["value"].dtype)]

    def linear_attention(
        self,
        given: Inputs,
        cotangents: Arrays | None,
        *,
        update_rule: str = "linear",
        scale: float | None = None,
        chunk_size: int = 64,
    ) -> Arrays:
        scale = self.scale(scale, given["query"].shape[-1])
        rows = self.rows(given, scale, chunk_size, delta=update_rule in ("delta", "gated_delta"))
        output, state = self.forward(rows)
        results = {
            "output": self.kept(output, rows).swapaxes(1, 2),
            "final_state": self.leave(state[:, rows.first], rows),
        }
        if cotangents is not None:
            gradient = self.gradients(rows, given, cotangents["output"], cotangents["final_state"])
            results |= {f"gradient.{n}": x for n, x in gradient.items()}
        return results

    def linear_attention_step(
        self, given: Inputs, cotangents: Arrays | None, **arguments: Any
    ) -> Arrays:
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
        given: Inputs,
        cotangents: Arrays | None,
        *,
        q_num_heads: int,
        kv_num_heads: int,
        update_rule: str = "gated_delta",
        scale: float = 0.0,
        chunk_size: int = 64,
    ) -> Arrays:
        names = {"decay": "log_decay", "past_state": "initial_state"}
        heads = {"query": q_num_heads, "key": kv_num_heads, "value": kv_num_heads}
        tokens = {names.get(n, n): x for n, x in given.items()}
        tokens |= {n: split(x, heads[n]) for n, x in given.items() if n in heads}
        if "decay" in given and given["decay"].shape[2] != kv_num_heads:
            tokens["log_decay"] = self.unpack_decay(given["decay"], kv_num_heads)
        if cotangents is not None:
            cotangents = {
                "output": split(cotangents["output"], q_num_heads),
                "final_state": cotangents["present_state"],
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
        given: Inputs,
        cotangents: Arrays | None,
        *,
        feature_map: str = "elu_plus_one",
        causal: bool = False,
        use_normalizer: bool = True,
        epsilon: float = 1e-6,
        chunk_size: int = 64,
    ) -> Arrays:
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
        rows.normalized = use_normalizer
        if use_normalizer:
            rows.v[..., -1] = self.counted(rows.keep)
        if causal:
            reading, state = self.forward(rows)
        else:
            reading, state = self.whole_segment(rows), rows.state
        output, denominator = reading, np.ones_like(reading[..., :1])
        if use_normalizer:
            denominator = np.where(rows.keep[..., None], self.denominator(reading, epsilon), 1)
            output = reading[..., :-1] / denominator
        results = {"output": self.kept(output, rows).swapaxes(1, 2)}
        if causal:
            parts = self.without_column(self.leave(state[:, rows.first], rows), use_normalizer)
            results |= {f"final_state.{i}": x for i, x in enumerate(parts)}
        if cotangents is None:
            return results

        d_output = rows.live(wide(cotangents["output"]).swapaxes(1, 2)) / denominator
        if use_normalizer:
            d_output = np.concatenate([d_output, self.quotient(d_output, output)], axis=-1)
        d_parts = [cotangents[n] for n in sorted(cotangents) if n.startswith("final_state")]
        d_state = self.with_column(*d_parts) if d_parts else None
        gradient = self.gradients(rows, tokens, d_output.swapaxes(1, 2), d_state, causal)
        keep = rows.keep.swapaxes(1, 2)[..., None]
        for name in ("query", "key"):
            d = gradient[name] * slope(wide(given[name]))
            gradient[name] = np.where(keep, d, 0)
        gradient["value"] = gradient["value"][..., :columns]
        d_initial_state = gradient.pop("initial_state")
        results |= {f"gradient.{n}": x for n, x in gradient.items()}
        if causal:
            parts = self.without_column(d_initial_state, use_normalizer)
            results |= {f"gradient.initial_state.{i}": x for i, x in enumerate(parts)}
        return results

    def elu_plus_one(self, given: Inputs, cotangents: Arrays | None) -> Arrays:
        return self.map_alone("elu_plus_one", given["x"], cotangents, 0.0)

    def relu(self, given: Inputs, cotangents: Arrays | None, *, epsilon: float = 1e-6) -> Arrays:
        return self.map_alone("relu", given["x"], cotangents, epsilon)

    def map_alone(self, name: str, x: Array, cotangents: Arrays | None, epsilon: float) -> Arrays:
        phi, slope = self.feature_map(name, epsilon)
        results = {"output": phi(x)}
        if cotangents is not None:
            results["gradient.x"] = slope(wide(x)) * cotangents["output"]
        return results

    def l2_normalize(
        self, given: Inputs, cotangents: Arrays | None, *, epsilon: float = 1e-6
    ) -> Arrays:
        results = {"output": self.unit(given["x"], epsilon)}
        if cotangents is not None:
            x, d = wide(given["x"]), wide(cotangents["output"])
            results["gradient.x"] = self.l2_gradient(x, d, epsilon)
        return results

    # The pieces that are the operators' own.

    def scale(self, scale: float | None, Dk: int) -> float:
        return float(Dk**-0.5) if scale is None else scale

    def unpack_decay(self, decay: Array, heads: int) -> Array:
        return split(decay, heads)

    def feature_map(self, name: str, epsilon: float) -> tuple[Map, Map]:
        """The map of an input, and its derivative."""
        phi, slope = feature_maps.feature_map(name, epsilon)
        return lambda x: phi(wide(x)), slope

    def mapped_key(self, phi: Map, key: Array, mask: Array | None) -> Array:
        return phi(key)

    def denominator(self, reading: Array, epsilon: float) -> Array:
        return reading[..., -1:] + epsilon

    def quotient(self, d_output: Array, output: Array) -> Array:
        total: Array = np.sum(d_output * output, axis=-1, keepdims=True)
        return -total

    def unit(self, x: Array, epsilon: float) -> Array:
        return feature_maps.l2_normalize(wide(x), epsilon)

    def l2_gradient(self, x: Array, d: Array, epsilon: float) -> Array:
        return feature_maps.l2_normalize_vjp(x, d, epsilon)

    def with_column(self, key_value_state: Array, key_state: Array | None = None) -> Array:
        """The state [S, Z] of the rule "linear" that kernel attention is."""
        if key_state is None:
            return wide(key_value_state)
        return np.concatenate([wide(key_value_state), wide(key_state)[..., None]], axis=-1)

    def without_column(self, state: Array, use_normalizer: bool) -> tuple[Array, ...]:
        return (state[..., :-1], state[..., -1]) if use_normalizer else (state,)

    def counted(self, keep: Array) -> Array:
        """The column of ones that sums the keys into the denominator."""
        return keep
