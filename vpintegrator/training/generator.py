"""States of torch's random numbers that come from a file."""

from __future__ import annotations

import struct

import torch

from vpintegrator.errors import InputError
from vpintegrator.training.optimizers.state import check_tensor

_SIZE = 5056  # bytes of torch's state, in which the numbers below are known
_WORDS = 624  # words of the Mersenne twister


def check_generator_state(what: str, state: torch.Tensor) -> None:
    """Refuse what is no state of a generator on the CPU.

    Raises
    ------
    InputError
        Naming ``what``.
    """
    like = torch.Generator().get_state()
    check_tensor(what, state, like.dtype, like.shape)
    if len(state) == _SIZE:
        # torch checks each of these, but not that they agree: it would read beyond the state
        left, _, at = struct.unpack_from("<QiiQ", state.numpy().tobytes())[1:]
        if (left, at) != (1, 0) and not (1 <= left <= _WORDS and left + at == _WORDS + 1):
            raise InputError(f"{what} makes no sense")
    try:
        torch.Generator().set_state(state)
    except RuntimeError:
        raise InputError(f"{what} makes no sense") from None
