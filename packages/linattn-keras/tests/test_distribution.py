"""Weights and batches split over devices give what one device gives.

keras.distribution.ModelParallel exists on JAX alone, so there is nothing to test elsewhere.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import keras
import pytest

# Devices are fixed when JAX starts, hence processes of their own.
SCRIPT = Path(__file__).with_name("distributed.py")


def run(devices: int, native: bool) -> dict[str, list]:
    environment = {
        **os.environ,
        "KERAS_BACKEND": "jax",
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}",
    }
    finished = subprocess.run(
        [sys.executable, str(SCRIPT), str(devices), str(native)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout.splitlines()[-1])


if keras.backend.backend() == "jax":

    @pytest.mark.parametrize("native", [True, False], ids=["native", "portable"])
    def test_model_parallel_equals_one_device(native):
        one, four = run(1, native), run(4, native)
        assert (one.pop("devices"), four.pop("devices")) == (1, 4)
        held = "query kernel of one device"
        assert (one.pop(held), four.pop(held)) == ([6, 4, 8], [6, 2, 8])
        assert four.keys() == one.keys()
        for name, values in one.items():
            # Sums over the heads are made in another order.
            assert four[name] == pytest.approx(values, rel=1e-5, abs=1e-6), name
