"""The usual call of linear_attention: its sizes, its random inputs, its scenario."""

from dataclasses import dataclass
from typing import Any

from linattn_spec.fixtures import Arrays
from linattn_spec.generate.decays import decay
from linattn_spec.generate.draw import Draw
from linattn_spec.generate.scenario import Scenario


@dataclass(frozen=True)
class Sizes:
    """The axes of a call, all different. Scenarios share a few: compiled code meets few shapes."""

    B: int
    T: int
    Hq: int
    Hk: int
    Hv: int
    Dk: int
    Dv: int
    chunk: int


USUAL = Sizes(B=2, T=11, Hq=1, Hk=1, Hv=3, Dk=4, Dv=5, chunk=4)
TWO_QUERIES = Sizes(B=2, T=11, Hq=6, Hk=1, Hv=3, Dk=4, Dv=5, chunk=4)
SINGLE = Sizes(B=1, T=11, Hq=6, Hk=3, Hv=3, Dk=4, Dv=5, chunk=4)
MEDIUM = Sizes(B=1, T=35, Hq=4, Hk=2, Hv=2, Dk=3, Dv=5, chunk=16)
LONG = Sizes(B=1, T=65, Hq=4, Hk=2, Hv=2, Dk=3, Dv=5, chunk=64)
WHOLE = Sizes(B=1, T=64, Hq=4, Hk=2, Hv=2, Dk=3, Dv=5, chunk=64)
LONGEST = Sizes(B=1, T=131, Hq=4, Hk=2, Hv=2, Dk=3, Dv=5, chunk=64)
GROUPED_QUERIES = Sizes(B=3, T=7, Hq=8, Hk=1, Hv=2, Dk=4, Dv=5, chunk=4)
GROUPED_BY_8 = Sizes(B=3, T=7, Hq=16, Hk=1, Hv=2, Dk=4, Dv=5, chunk=4)
MULTI_QUERY = Sizes(B=2, T=7, Hq=8, Hk=1, Hv=1, Dk=4, Dv=5, chunk=4)
GROUPED_KEYS = Sizes(B=3, T=7, Hq=6, Hk=2, Hv=6, Dk=4, Dv=5, chunk=4)
GROUPED_VALUES = Sizes(B=3, T=7, Hq=2, Hk=2, Hv=6, Dk=4, Dv=5, chunk=4)


def inputs(
    id: str,
    rule: str,
    sizes: Sizes = USUAL,
    *,
    pattern: str = "one",
    per_key: bool = False,
    state: bool = True,
    beta: tuple[float, float] = (0.0, 1.0),
) -> Arrays:
    """The usual random inputs of a rule, from the scenario's id."""
    draw, n = Draw(id), sizes
    delta = rule in ("delta", "gated_delta")
    gate = (n.B, n.T, n.Hv, n.Dk) if per_key else (n.B, n.T, n.Hv)
    key = (n.B, n.T, n.Hk, n.Dk)
    arrays = {
        "query": draw.uniform(-1.5, 1.5, (n.B, n.T, n.Hq, n.Dk)),
        "key": draw.normalized(key) if delta else draw.uniform(-1.0, 1.0, key),
        "value": draw.uniform(-2.0, 2.0, (n.B, n.T, n.Hv, n.Dv)),
    }
    if rule in ("gated", "gated_delta"):
        arrays["log_decay"] = decay(pattern, draw, gate)
    if delta:
        arrays["beta"] = draw.uniform(*beta, (n.B, n.T, n.Hv))
    if state:
        arrays["initial_state"] = draw.uniform(-1.0, 1.0, (n.B, n.Hv, n.Dk, n.Dv))
    return arrays


def scenario(
    id: str,
    summary: str,
    flags: tuple[str, ...],
    rule: str,
    arrays: Arrays,
    *,
    sizes: Sizes = USUAL,
    clause: str = "equations (1)-(4)",
    **more: Any,
) -> Scenario:
    arguments = {"update_rule": rule, "chunk_size": sizes.chunk} | more.pop("arguments", {})
    return Scenario(
        id=id, summary=summary, flags=flags, clause=clause, operator="linear_attention",
        arguments=arguments, inputs=arrays, **more,
    )  # fmt: skip


def kebab(rule: str) -> str:
    return rule.replace("_", "-")
