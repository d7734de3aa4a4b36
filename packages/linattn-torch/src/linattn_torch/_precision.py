"""Float32 products in float32, also under autocast.

TensorFloat-32 on GPUs is off unless the caller turned it on for the whole process, and torch has no
switch for a single product.
"""

import contextlib

import torch


def full_precision(tensor: torch.Tensor) -> contextlib.AbstractContextManager:
    """Autocast off: it would run every matmul of the float32 computation in half precision."""
    device = tensor.device.type
    if torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
        return torch.autocast(device, enabled=False)
    return contextlib.nullcontext()
