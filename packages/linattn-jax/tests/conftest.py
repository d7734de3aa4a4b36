"""Every test runs on four virtual devices, with 64-bit types, under strict promotion.

Nearly every test compiles a program to run it once, so they compile fast instead of well;
without_x64.py has a process of its own and compiles as a user does.
"""

import os

os.environ["XLA_FLAGS"] = (  # read when JAX starts
    "--xla_force_host_platform_device_count=4"
    " --xla_backend_optimization_level=0"
    " --xla_cpu_use_fusion_emitters=false"
)

import jax

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")
