"""Lance tables for PyTorch: data sets for training, distances and k-means on any device.

Needs torch: ``pip install 'lancelet[torch]'``.
"""

from __future__ import annotations

from typing import Any

from lancelet._naming.extras import import_extra

torch = import_extra("torch", "torch", "lancelet.torch")

__all__ = ["preferred_device"]


def preferred_device(device: Any = None) -> Any:
    """The device that is asked for, or the fastest one that is there.

    Examples
    --------
    >>> preferred_device("cpu")
    device(type='cpu')
    """
    if device is not None:
        return torch.device(device)
    if torch.cuda.is_available():
        return torch.device("cuda")
    if torch.backends.mps.is_available():
        return torch.device("mps")
    return torch.device("cpu")
