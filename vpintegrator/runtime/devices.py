"""Devices that models run on: the CPU, a GPU, or the faster of the two for a given task."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from vpintegrator.errors import InputError

AUTO = "auto"
_TIMED = 3  # times that work is timed, after once that is not
_WORTH = 2.0  # least speedup for which a GPU is chosen
_LONG = 0.5  # seconds after which once is enough


@dataclass(frozen=True)
class Choice:
    """The device on which some work is done, and why.

    Attributes
    ----------
    device
        Its name, as PyTorch has it.
    reason
        Measurement behind the choice; empty if there was no choice.
    """

    device: str
    reason: str = ""


def check_device(name: str, what: str = "device =", auto: bool = True) -> str:
    """Return the name of a device that exists here, or ``auto``.

    Parameters
    ----------
    name
        ``cpu``, ``cuda``, ``cuda:1``, ``mps``, ..., or ``auto``.
    what
        Option that named the device, for the error message.
    auto
        Whether ``auto`` is a choice here.

    Raises
    ------
    InputError
        If PyTorch knows no such device, or has none here.

    Examples
    --------
    >>> vp.runtime.devices.check_device("cpu")
    'cpu'
    """
    import torch

    if name == AUTO and auto:
        return name
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError, NotImplementedError):
        raise InputError(
            f"{what} {name}: PyTorch has no such device here; there is {', '.join(devices())}"
        ) from None
    return name


def devices() -> list[str]:
    """Return the devices of this machine, the CPU first.

    Examples
    --------
    >>> vp.runtime.devices.devices()[0]
    'cpu'
    """
    import torch

    found = ["cpu"]
    if torch.cuda.is_available():
        found += [f"cuda:{number}" for number in range(torch.cuda.device_count())]
    return found + (["mps"] if torch.backends.mps.is_available() else [])


def faster_device(work: Callable[[str], Callable[[], object]], what: str) -> Choice:
    """Return the CPU, or the first GPU if some work takes less than half of the time there.

    Double precision is what these models are trained in, so that a GPU is one of CUDA's.

    Parameters
    ----------
    work
        Prepares the work on a device; what it gives does it, and waits until it is done.
    what
        The work in words, such as "a gradient".

    Examples
    --------
    >>> def work(device):
    ...     numbers = torch.zeros(1000, device=device)
    ...     return lambda: numbers.sin().sum().item()
    >>> vp.runtime.devices.faster_device(work, "a sum").device in ("cpu", "cuda:0")
    True
    """
    gpu = next((name for name in devices() if name.startswith("cuda")), None)
    if gpu is None:
        return Choice("cpu")
    import torch

    try:
        there = _seconds(work(gpu))
    except torch.OutOfMemoryError:
        return Choice("cpu", f"{gpu} has not enough memory")
    here = _seconds(work("cpu"))
    name = torch.cuda.get_device_name(gpu)
    return Choice(
        gpu if here > _WORTH * there else "cpu",
        f"{what} takes {_short(there)} on {gpu} ({name}), {_short(here)} on the CPU",
    )


def _seconds(work: Callable[[], object]) -> float:
    """Return the least time of several repetitions of the work."""
    work()
    found: list[float] = []
    while len(found) < _TIMED and sum(found) < _LONG:
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return min(found)


def _short(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.2g} {unit}"
    return f"{seconds / 1e-6:.2g} us"
