"""How many threads torch uses on the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def torch_threads(count: int = 1) -> Iterator[None]:
    """Let torch use ``count`` threads inside the block.

    The tensors of neural integrators are small: waking a second thread costs more than it saves,
    and on a machine whose cores are busy with something else it makes every operation 10 to 20
    times slower, because threads wait for one another in a loop.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
