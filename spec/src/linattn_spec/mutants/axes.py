"""The axes of every argument, and the sizes on which the arguments of a call must agree."""

from dataclasses import dataclass, field

_LINEAR = {
    "query": ("B T Hq Dk",),
    "key": ("B T Hk Dk",),
    "value": ("B T Hv Dv",),
    "log_decay": ("B T Hv", "B T Hv Dk"),
    "beta": ("B T Hv", "B T 1"),
    "initial_state": ("B Hv Dk Dv",),
    "mask": ("B T",),
    "segment_ids": ("B T",),
}
_STEP = {name: tuple(form.replace("T ", "") for form in forms) for name, forms in _LINEAR.items()}
STATE = {"key_value_state": ("B Hv Dk Dv",), "key_state": ("B Hv Dk",)}

FORMS: dict[str, dict[str, tuple[str, ...]]] = {
    "linear_attention": _LINEAR,
    "linear_attention_step": _STEP | {"state": _STEP["initial_state"]},
    "kernelized_attention": _LINEAR | STATE,
    "onnx_linear_attention": {
        "query": ("B T q_num_heads*Dk",),
        "key": ("B T kv_num_heads*Dk",),
        "value": ("B T kv_num_heads*Dv",),
        "decay": ("B T kv_num_heads", "B T kv_num_heads*Dk"),
        "beta": ("B T kv_num_heads", "B T 1"),
        "past_state": ("B kv_num_heads Dk Dv",),
    },
}
"""operator -> argument -> the forms that it may have; `N*D` packs N heads of size D in one axis"""


def spelled(*forms: str) -> str:
    """As an error spells the forms."""
    return " or ".join(f"[{', '.join(form.split())}]" for form in forms).replace("*", " * ")


@dataclass
class Sizes:
    """The sizes that are known so far, by axis, and where they come from."""

    size: dict[str, int]
    source: dict[str, str] = field(default_factory=dict)

    def learn(self, name: str, shape: list[int], form: str) -> None:
        """The axes of `shape` that no argument before had."""
        for axis, size in zip(form.split(), shape, strict=True):
            heads, _, axis = axis.rpartition("*")
            if axis not in self.size:
                self.size[axis] = size // self.size.get(heads, 1)
                self.source[axis] = f"{name} {shape}"

    def at(self, axis: str) -> str:
        return f"{self.size[axis]} in {self.source.get(axis, 'the arguments')}"
