"""The recurrence and its reverse pass, cut into the pieces in which a fault can sit."""

from typing import Any

import numpy as np

from linattn_spec.arrays import Array, Arrays, wide
from linattn_spec.mutants.rows import Gradients, Rows


def neighbours(count: int, total: int) -> Array:
    """Which of `count` heads each of `total` heads shares: repeat."""
    return np.arange(total) * count // total


def read(x: Array, state: Array) -> Array:
    """x `[..., Dk]` @ state `[..., Dk, Dv]`."""
    read: Array = (x[..., None, :] @ state)[..., 0, :]
    return read


def outer(x: Array, y: Array) -> Array:
    return x[..., :, None] * y[..., None, :]


# The state before a token, decayed, what the token writes, and the state after it.
Step = tuple[Array, Array, Array, Array]


class Recurrence:
    """Token by token, (1)-(5) and (R1)-(R9).

    The rows are output heads: every head that is shared is copied to its rows.
    """

    query_sharing = staticmethod(neighbours)
    key_sharing = staticmethod(neighbours)

    def state_heads(self, Hq: int, Hk: int, Hv: int) -> Array:
        """The state that each output head reads."""
        return self.query_sharing(Hv, max(Hq, Hv))

    def gate(self, log_decay: Array) -> Array:
        return log_decay

    def rate(self, beta: Array) -> Array:
        return beta

    def masked(self, name: str, x: Array, keep: Array) -> Array:
        return np.where(keep, x, 0)

    def starts(self, segment_ids: Array, keep: Array) -> Array:
        """Where the id differs from the token before."""
        return np.not_equal(np.diff(segment_ids, axis=1, prepend=segment_ids[:, :1]), 0)

    def enter(self, state: Array) -> Array:
        return state

    def leave(self, state: Array, rows: Rows) -> Array:
        return state

    def carry(self, state: Array, t: int, rows: Rows) -> Array:
        """The state on its way from token t - 1 to token t."""
        return state

    def decay(self, state: Array, g: Array, rows: Rows) -> Array:
        return np.exp(g)[..., None] * state

    def correction(self, rows: Rows, t: int, decayed: Array, state: Array) -> Array:
        """What the delta rules write; the error is taken from the decayed state."""
        error: Array = rows.v[:, :, t] - read(rows.k[:, :, t], decayed)
        return rows.beta[:, :, t] * error

    def update(self, rows: Rows, t: int, decayed: Array, write: Array) -> Array:
        return decayed + outer(rows.k[:, :, t], write)

    def reading(self, rows: Rows, t: int, after: Array, decayed: Array) -> Array:
        return read(rows.q[:, :, t], after)

    def rows(self, given: dict[str, Any], scale: float, chunk_size: int, delta: bool) -> Rows:
        tokens = {n: wide(given[n]) for n in ("query", "key", "value")}
        B, T, Hq, Dk = tokens["query"].shape
        Hk, Hv, Dv = tokens["key"].shape[2], tokens["value"].shape[2], tokens["value"].shape[3]
        H = max(Hq, Hv)
        state_of = self.state_heads(Hq, Hk, Hv)
        tokens["log_decay"], tokens["beta"] = np.zeros((B, T, Hv)), np.ones((B, T, 1))
        if "log_decay" in given:
            tokens["log_decay"] = self.gate(wide(given["log_decay"]))
        if "beta" in given:
            tokens["beta"] = self.rate(wide(given["beta"]))
        if tokens["log_decay"].ndim == 3:
            tokens["log_decay"] = tokens["log_decay"][..., None]
        tokens["beta"] = tokens["beta"][..., None]
        keep = np.asarray(given.get("mask", np.ones((B, T), bool)))
        starts = self.starts(np.asarray(given.get("segment_ids", np.zeros((B, T), int))), keep)
        index = {
            "query": self.query_sharing(Hq, H),
            "key": self.key_sharing(Hk, Hv)[state_of],
            "value": state_of,
            "log_decay": state_of,
            "beta": state_of % tokens["beta"].shape[2],
        }
        q, k, v, g, beta = (
            self.masked(n, x, keep[..., None, None])[:, :, index[n]].swapaxes(1, 2)
            for n, x in tokens.items()
        )
        state = self.enter(wide(given.get("initial_state", np.zeros((B, Hv, Dk, Dv)))))
        return Rows(
            q=q,
            k=k,
            v=v,
            g=np.where(starts[:, None, :, None], -np.inf, g),
            beta=beta,
            state=state[:, state_of],
            scale=scale,
            chunk=chunk_size,
            dtype=given["value"].dtype,
            delta=delta,
            keep=keep[:, None],
            segment=np.cumsum(starts, axis=1),
            index=index,
            states=Hv,
        )

    def forward(self, rows: Rows) -> tuple[Array, Array]:
        output, state, _ = self.scan(rows)
        return output, state

    def scan(self, rows: Rows) -> tuple[Array, Array, list[Step]]:
        state, outputs = rows.state, np.zeros(rows.q.shape[:3] + rows.v.shape[3:])
        tape = []
        for t in range(rows.q.shape[2]):
            state = self.carry(state, t, rows)
            decayed = self.decay(state, rows.g[:, :, t], rows)
            write = rows.v[:, :, t]
            if rows.delta:
                write = self.correction(rows, t, decayed, state)
            after = self.update(rows, t, decayed, write)
            outputs[:, :, t] = rows.scale * self.reading(rows, t, after, decayed)
            tape.append((state, decayed, write, after))
            state = after
        return outputs, state, tape

    def whole_segment(self, rows: Rows) -> Array:
        return (rows.q @ rows.k.swapaxes(2, 3) * self.same_segment(rows)) @ rows.v

    def same_segment(self, rows: Rows) -> Array:
        return np.equal(rows.segment[:, None, :, None], rows.segment[:, None, None, :])

    # The reverse pass, from the gradients of the results to those of the inputs.

    def gradients(
        self,
        rows: Rows,
        given: Arrays,
        d_output: Array,
        d_state: Array | None,
        causal: bool = True,
    ) -> Arrays:
        ds = np.zeros_like(rows.state)
        if d_state is not None:
            ds[:, rows.first] = wide(d_state)
        do = self.kept(wide(d_output).swapaxes(1, 2), rows)
        d = self.backward(rows, do, ds) if causal else self.whole_segment_backward(rows, do)
        k = d.k_write + d.k_error
        by_name = dict(query=d.q, key=k, value=d.v, log_decay=d.g, beta=d.beta)
        gradient = {}
        for name, x in by_name.items():
            if name in given:
                shape = given[name].shape
                heads = self.shared(self.kept(x, rows), rows.index[name], shape[2], rows)
                gradient[name] = heads.swapaxes(1, 2).reshape(shape)
        gradient["initial_state"] = self.shared(d.state, rows.index["value"], rows.states, rows)
        return gradient

    def kept(self, x: Array, rows: Rows) -> Array:
        """An output or a gradient, 0 at masked tokens."""
        return rows.live(x)

    def shared(self, x: Array, index: Array, heads: int, rows: Rows) -> Array:
        """Sums the rows that share a head."""
        total = np.zeros((heads, x.shape[0]) + x.shape[2:])
        np.add.at(total, index, x.swapaxes(0, 1))
        return total.swapaxes(0, 1)

    def backward(self, rows: Rows, do: Array, ds: Array) -> Gradients:
        _, _, tape = Recurrence.scan(self, rows)
        d = Gradients(
            q=np.zeros_like(rows.q),
            k_write=np.zeros_like(rows.k),
            k_error=np.zeros_like(rows.k),
            v=np.zeros_like(rows.v),
            g=np.zeros_like(rows.g),
            beta=np.zeros_like(rows.beta),
            state=ds,
        )
        for t in reversed(range(len(tape))):
            _, decayed, write, _ = tape[t]
            q, k, v, g, beta = (x[:, :, t] for x in (rows.q, rows.k, rows.v, rows.g, rows.beta))
            d.q[:, :, t] = rows.scale * self.query_gradient(do[:, :, t], tape[t])
            ds = ds + rows.scale * outer(q, do[:, :, t])
            d.k_write[:, :, t] = read(write, ds.swapaxes(2, 3))
            d_write = read(k, ds)
            if rows.delta:
                error = v - read(k, decayed)
                d.beta[:, :, t] = np.sum(error * d_write, axis=-1, keepdims=True)
                d_write = beta * d_write
                d.k_error[:, :, t] = self.error_gradient(d_write, tape[t])
                ds = ds - outer(k, d_write)
            d.v[:, :, t] = d_write
            slope = self.gate_gradient(g, ds, tape[t])
            d.g[:, :, t] = slope if g.shape[-1] > 1 else slope.sum(-1, keepdims=True)
            ds = self.reverse(np.exp(g)[..., None] * ds, ds, t, rows)
        d.state = ds
        return d

    def query_gradient(self, do: Array, step: Step) -> Array:
        _, _, _, after = step
        return read(do, after.swapaxes(2, 3))

    def error_gradient(self, d_write: Array, step: Step) -> Array:
        """The gradient of the key as it reads the error."""
        _, decayed, _, _ = step
        return -read(d_write, decayed.swapaxes(2, 3))

    def gate_gradient(self, g: Array, ds: Array, step: Step) -> Array:
        """The gradient of the log decay, key by key."""
        state, _, _, _ = step
        slope: Array = np.exp(g) * np.sum(state * ds, axis=-1)
        return slope

    def reverse(self, before: Array, after: Array, t: int, rows: Rows) -> Array:
        """The state's gradient on its way from token t to token t - 1."""
        return before

    def whole_segment_backward(self, rows: Rows, do: Array) -> Gradients:
        same = self.same_segment(rows)
        scores = rows.q @ rows.k.swapaxes(2, 3) * same
        d_scores = do @ rows.v.swapaxes(2, 3) * same
        k_write = d_scores.swapaxes(2, 3) @ rows.q
        return Gradients(
            q=d_scores @ rows.k,
            k_write=k_write,
            k_error=np.zeros_like(k_write),
            v=scores.swapaxes(2, 3) @ do,
            g=np.zeros_like(rows.g),
            beta=np.zeros_like(rows.beta),
            state=np.zeros_like(rows.state),
        )
