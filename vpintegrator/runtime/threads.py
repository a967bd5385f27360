"""Threads that torch and the linear algebra of SciPy use on the CPU."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def torch_threads(count: int = 1) -> Iterator[None]:
    """Let torch use ``count`` threads inside the block.

    The tensors of neural integrators are small: waking a second thread costs more than it saves,
    and on a machine whose cores are busy with something else it makes every operation 10 to 20
    times slower, because threads wait for one another in a loop.

    Parameters
    ----------
    count
        Number of threads that torch uses within the block.
    """
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Let the linear algebra of NumPy and SciPy use one thread inside the block.

    A pivoted QR of 1,334 columns took 0.5 s with one thread and 5 to 18 s with two on two cores
    that were busy with something else. Results then do not depend on the number of cores.
    """
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, "blas"):
        yield


def usable_threads() -> int:
    """Return the number of threads that parallel code uses: the setting of torch, if there is one.

    Examples
    --------
    >>> vp.runtime.threads.usable_threads() >= 1
    True
    """
    if "torch" in sys.modules:  # nothing here needs it
        import torch

        return torch.get_num_threads()
    setting = os.environ.get("OMP_NUM_THREADS", "")
    if setting.isdigit() and int(setting) > 0:
        return int(setting)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
