"""Models built from files are in proportion to what the files hold."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.overrides import TorchFunctionMode

from vpintegrator.errors import InputError

# memory besides the parameters: symmetries, masks, places (dim^2 numbers and more)
_LARGEST_TENSOR = 1 << 24
_ALL_TENSORS = 1 << 28
_CALLS, _CALLS_PER_TENSOR, _NUMBERS_PER_CALL = 5_000, 250, 8

_FACTORIES = {
    torch.randn,
    torch.rand,
    torch.zeros,
    torch.ones,
    torch.empty,
    torch.eye,
    torch.arange,
    torch.tril_indices,
    torch.Tensor.new_zeros,
    torch.Tensor.new_empty,
}


class OutOfProportion(Exception):
    """A model is larger than the file that it is built from."""


class _Bounded(TorchFunctionMode):
    """Torch mode that limits calls and tensor sizes in proportion to a number of parameters."""

    def __init__(self, parameters: Sequence[int], symmetries: int) -> None:
        super().__init__()
        group = 1 << min(symmetries, 7)
        count = sum(parameters)
        self.largest = _LARGEST_TENSOR + 4 * count
        self.numbers = _ALL_TENSORS + 64 * count
        self.calls = _CALLS + count // _NUMBERS_PER_CALL
        # polynomials look at each component for each element of a small group
        of_group = 20 * group + 100 * min(group, 16)
        self.calls += (_CALLS_PER_TENSOR + of_group) * len(parameters)
        self.parameters = 3 * len(parameters) + 10  # on a manifold they are registered again

    def registered(self, *_: Any) -> None:
        """Count a parameter that a module registers."""
        self.parameters -= 1
        if self.parameters < 0:
            raise OutOfProportion

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.calls -= 1
        if self.calls < 0 or (func in _FACTORIES and _size(func, args) > self.largest):
            raise OutOfProportion
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor):
            self.numbers -= torch.Tensor.numel(result)
            if self.numbers < 0:
                raise OutOfProportion
        return result


def _size(func: Any, args: Sequence[Any]) -> int:
    """Return the number of elements that a tensor factory is asked for."""
    if args and isinstance(args[0], torch.Tensor):
        args = args[1:]
    if args and isinstance(args[0], Sequence):
        args = args[0]
    sizes = [size for size in args if isinstance(size, int)]
    if func is torch.eye:
        sizes = sizes * 2
    if func is torch.tril_indices:
        sizes = sizes[:2]
    return math.prod(sizes)


@contextmanager
def bounded_by(parameters: Sequence[int], symmetries: int, where: str) -> Iterator[None]:
    """Build a model from what a file says, in time and memory in proportion to the file.

    Parameters
    ----------
    parameters
        Number of elements of each tensor in the file.
    symmetries
        Number of reversing symmetries in the file.
    where
        Object that the file describes, for messages.

    Raises
    ------
    InputError
        If more is made than these can be the parameters of, or the arguments make no model.
    """
    bounds = _Bounded(parameters, symmetries)
    hook = register_module_parameter_registration_hook(bounds.registered)
    try:
        with bounds:
            yield
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    except (OutOfProportion, MemoryError, RecursionError):
        raise InputError(
            f"{where}: it would be out of proportion to the {sum(parameters)} numbers that the "
            "file holds"
        ) from None
    except (TypeError, ValueError, ArithmeticError, RuntimeError) as error:
        detail = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{where}: {detail}") from None
    finally:
        hook.remove()
