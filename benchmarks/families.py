"""Which families of contenders there are, and what each needs to take part."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Family:
    """Contenders that share a process.

    Attributes:
        module: in benchmarks.contenders, or a full name with a dot.
        distributions: what must be installed, and whose versions a report states.
        environment: variables of its process.
    """

    name: str
    module: str
    distributions: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)


def _keras(name, module, backend, *distributions):
    installed = ("keras", backend, *distributions)
    return Family(name, module, installed, {"KERAS_BACKEND": backend})


FAMILIES = (
    Family("numpy", "numpy", ("numpy",)),
    # What a first call takes includes compiling: not what an earlier run has compiled.
    Family("torch", "torch", ("torch",), {"TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}),
    Family("jax", "jax", ("jax", "jaxlib")),
    Family("tensorflow", "tensorflow", ("tensorflow",)),
    Family("transformers", "transformers", ("transformers", "torch")),
    Family("onnxruntime", "onnxruntime", ("onnxruntime", "onnx")),
    _keras("keras-hub-tensorflow", "keras_hub", "tensorflow", "keras-hub"),
    _keras("keras-hub-jax", "keras_hub", "jax", "keras-hub"),
    _keras("keras-torch", "keras_attention", "torch"),
    _keras("keras-jax", "keras_attention", "jax"),
    _keras("keras-tensorflow", "keras_attention", "tensorflow"),
)
