"""On JAX nearly every test compiles a program to run it once: compiled fast instead of well."""

import os

if os.environ.get("KERAS_BACKEND") == "jax":
    os.environ["XLA_FLAGS"] = (  # read when JAX starts
        "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
    )
