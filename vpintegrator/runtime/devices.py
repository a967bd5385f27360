"""Devices that models run on: the CPU or a GPU."""

from __future__ import annotations

from vpintegrator.errors import InputError


def check_device(name: str, what: str = "device =") -> str:
    """Return the name of a device that exists here.

    Parameters
    ----------
    name
        ``cpu``, ``cuda``, ``cuda:1``, ``mps``, ...
    what
        Option that named the device, for the error message.

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

    names = ["cpu"]
    if torch.cuda.is_available():
        names += [f"cuda:{number}" for number in range(torch.cuda.device_count())]
    return names + (["mps"] if torch.backends.mps.is_available() else [])


def wanted_on(device: str, compiled: bool | None) -> bool | None:
    """Return whether machine code is wanted on a device: True, False, or None where it pays.

    Parameters
    ----------
    device
        Type of the device of a model, such as ``cpu`` or ``cuda``.
    compiled
        True, False or None, as users give it.

    Raises
    ------
    InputError
        If another value is given, or True for another device than the CPU.
    """
    if compiled not in (True, False, None):
        raise InputError(f"compiled must be True, False or None, not {compiled!r}")
    if device == "cpu":
        return compiled
    if compiled:
        raise InputError(f"on {device} models run in PyTorch; machine code is for the CPU")
    return False
