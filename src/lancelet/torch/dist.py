"""Which process this is, among those of ``torch.distributed`` and the workers of a ``DataLoader``.

Every process of a distributed job may have several workers: worker ``w`` of ``n`` in process ``p`` has the global rank
``p * n + w``.
"""

from __future__ import annotations

import torch
import torch.distributed

__all__ = [
    "get_dist_rank",
    "get_dist_world_size",
    "get_global_rank",
    "get_global_world_size",
    "get_mp_rank",
    "get_mp_world_size",
]


def _is_distributed() -> bool:
    return bool(torch.distributed.is_available() and torch.distributed.is_initialized())


def get_dist_rank() -> int:
    """The rank in ``torch.distributed``; 0 when there is none."""
    return int(torch.distributed.get_rank()) if _is_distributed() else 0


def get_dist_world_size() -> int:
    """The number of processes in ``torch.distributed``; 1 when there is none."""
    return int(torch.distributed.get_world_size()) if _is_distributed() else 1


def get_mp_rank() -> int:
    """Which worker of a ``DataLoader`` this is; 0 outside of one."""
    worker = torch.utils.data.get_worker_info()
    return 0 if worker is None else int(worker.id)


def get_mp_world_size() -> int:
    """How many workers the ``DataLoader`` has; 1 outside of one."""
    worker = torch.utils.data.get_worker_info()
    return 1 if worker is None else int(worker.num_workers)


def get_global_rank() -> int:
    """The rank among all workers of all processes."""
    return get_dist_rank() * get_mp_world_size() + get_mp_rank()


def get_global_world_size() -> int:
    """How many workers all processes have."""
    return get_dist_world_size() * get_mp_world_size()
