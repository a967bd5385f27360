"""Training on several processes started by torchrun; with one process these functions do nothing.

Every process holds the whole model and takes every n-th window; sums over windows are added up
across processes, after which all of them take the same step.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist

from vpintegrator.errors import InputError


class LostProcess(RuntimeError):
    """Error: one of the processes ended, so that the others cannot continue."""


def start(device: str) -> str:
    """Join the processes that torchrun started, and return this one's device."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or dist.is_initialized():
        return device
    if device == "mps":
        raise InputError("device = mps: several processes run on cpu or cuda")
    if device == "cuda":
        local = int(os.environ.get("LOCAL_RANK", "0"))
        if local >= torch.cuda.device_count():
            raise InputError(
                f"process {local} has no GPU of its own: there are {torch.cuda.device_count()}"
            )
        torch.cuda.set_device(local)
        device = f"cuda:{local}"
    dist.init_process_group("nccl" if device.startswith("cuda") else "gloo")
    return device


def stop() -> None:
    """Leave the group."""
    if dist.is_initialized():
        dist.destroy_process_group()


def count() -> int:
    """Return the number of processes."""
    return dist.get_world_size() if dist.is_initialized() else 1


def rank() -> int:
    """Return the number of this process, from 0."""
    return dist.get_rank() if dist.is_initialized() else 0


def share(tensor: torch.Tensor) -> torch.Tensor:
    """Return the rows of this process."""
    return tensor[rank() :: count()] if count() > 1 else tensor


def total(tensor: torch.Tensor) -> torch.Tensor:
    """Return the sum over all processes, in place."""
    if count() > 1:
        with _together():
            dist.all_reduce(tensor)
    return tensor


def first_says(value: float, like: torch.Tensor) -> float:
    """Return the value that the first process has, for decisions that all must take alike."""
    if count() == 1:
        return value
    message = torch.tensor([value], dtype=torch.float64, device=like.device)
    with _together():
        dist.broadcast(message, 0)
    return float(message.item())


def agree(value: float, flag: bool, like: torch.Tensor) -> tuple[float, bool]:
    """Return the value that the first process has, and whether the flag is set in any of them."""
    if count() == 1:
        return value, flag
    first = value if rank() == 0 else 0.0
    message = torch.tensor([first, float(flag)], dtype=torch.float64, device=like.device)
    first, flags = total(message).tolist()
    return first, flags > 0


@contextmanager
def _together() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:  # whatever the backend calls it
        raise LostProcess(str(error).partition("\n")[0]) from None
