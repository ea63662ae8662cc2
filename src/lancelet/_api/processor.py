"""What the processor can do, and what of it the compiled kernels use."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any, Final

from lancelet.index.vector.nearest import cpu_level

_TIERS: Final = ("none", "avx2", "avx512", "avx512_vnni")
"""Those of ``cpu.h``; processors without them have what the compiler makes of plain C."""
_FEATURES: Final = (
    *("sse2", "sse3", "ssse3", "sse4_1", "sse4_2", "popcnt", "avx", "avx2", "fma", "f16c", "bmi1", "bmi2"),
    *("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx512vbmi", "avx512_vnni", "avx512_vpopcntdq"),
    *("avx512_fp16", "asimd", "asimdhp", "asimddp", "sve"),
)
_NAMES: Final = {"sse4_1": "sse4.1", "sse4_2": "sse4.2", "avx512_fp16": "avx512fp16", "asimd": "neon"}
_PROCESSORS: Final = Path("/proc/cpuinfo")


def simd_info() -> dict[str, Any]:
    """Which instructions searches and builds of vector indices use.

    ``tier`` is what the kernels use (``LANCELET_SIMD=0`` to ``3`` in the environment lowers it), ``host_features`` is what the system tells
    of the processor; it is empty where the system tells nothing.

    Examples
    --------
    >>> sorted(simd_info())
    ['host_features', 'target_arch', 'tier']
    """
    return {"tier": _TIERS[cpu_level()], "target_arch": platform.machine(), "host_features": _host_features()}


def _host_features() -> list[str]:
    try:
        text = _PROCESSORS.read_text()
    except OSError:
        return []
    lines = (line.partition(":") for line in text.splitlines())
    flags = next((set(told.split()) for name, _, told in lines if name.strip() in ("flags", "Features")), set())
    # The system has a name of its own for one of them.
    flags |= {"sse3"} if "pni" in flags else set()
    return [_NAMES.get(flag, flag) for flag in _FEATURES if flag in flags]
