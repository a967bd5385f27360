"""Base classes of layers, activation functions, and parameters as a second argument."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from itertools import chain
from typing import Any, ClassVar, TypeVar

import torch
from torch import nn

from vpintegrator.arguments import called, one_of, shown, whole
from vpintegrator.errors import InputError

Activation = Callable[[torch.Tensor], torch.Tensor]


def identity(x: torch.Tensor) -> torch.Tensor:
    """Return the activation of a linear layer."""
    return x


ACTIVATIONS: dict[str, Activation] = {
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "sin": torch.sin,
    "relu": torch.relu,
    "gelu": torch.nn.functional.gelu,
    "softplus": torch.nn.functional.softplus,
    "identity": identity,
}


def as_activation(function: str | Activation) -> Activation:
    """Return an activation by its name, or the function or module itself.

    Raises
    ------
    InputError
        If there is none of that name, or it cannot be called.
    """
    if isinstance(function, str):
        return ACTIVATIONS[one_of("activation", function, ACTIVATIONS)]
    return called("activation", function, f"a function, or one of {', '.join(ACTIVATIONS)}")


LARGEST_SEED = 2**63 - 1
Device = torch.device | str | int | None
Dtype = torch.dtype | None
Function = TypeVar("Function", bound=Callable[..., Any])
_DTYPE: ContextVar[torch.dtype | None] = ContextVar("dtype", default=None)
_DEVICE: ContextVar[torch.device | None] = ContextVar("device", default=None)


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """Let layers of this package be of a dtype where none is given, in this thread alone."""
    token = _DTYPE.set(dtype)
    try:
        yield
    finally:
        _DTYPE.reset(token)


@contextmanager
def drawing(seed: int | None) -> Iterator[None]:
    """Let torch draw from a seed and keep its random state; without a seed draw as torch does."""
    if seed is None:
        yield
        return
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(whole("seed", seed, 0, LARGEST_SEED))
        yield


def on_cpu(function: Function) -> Function:
    """Let a function compute indices on the CPU, also under ``with torch.device("meta")``.

    Tensors made with ``factory`` are on the device that torch has set.
    """

    @wraps(function)
    def construct(*arguments: Any, **options: Any) -> Any:
        device = torch.get_default_device()
        if device.type == "cpu":
            return function(*arguments, **options)
        token = _DEVICE.set(device)
        try:
            with torch.device("cpu"):
                return function(*arguments, **options)
        finally:
            _DEVICE.reset(token)

    return construct  # type: ignore[return-value]


def factory(device: Device = None, dtype: Dtype = None) -> dict[str, Any]:
    """Return keywords of functions that make tensors, for the device and dtype of a layer."""
    device = (_DEVICE.get() or torch.get_default_device()) if device is None else device
    return {
        "device": torch.device(device),
        "dtype": dtype or _DTYPE.get() or torch.get_default_dtype(),
    }


def factory_like(module: nn.Module) -> dict[str, Any]:
    """Return keywords of functions that make tensors, for the device and dtype of a module."""
    for tensor in chain(module.parameters(), module.buffers()):
        if tensor.is_floating_point():
            return {"device": tensor.device, "dtype": tensor.dtype}
    return factory()


class Layer(nn.Module):
    """Base of the layers of this package.

    Parameters
    ----------
    device, dtype
        As in layers of torch.nn: by default those that torch has set.

    Attributes
    ----------
    factory_kwargs : dict
        Keywords for functions that make the layer's tensors.
    volume_preserving, symplectic : bool
        Whether the layer preserves volume, or the form dq dp of states (q, p), exactly.
    shown : tuple of str
        Names of the attributes that ``print`` shows.
    parameter_count : int
        Number of parameters that the layer reads beside states: its second argument (..., m), which
        broadcasts with the axes of states (..., window, dim) before the window.
    """

    parameter_count: Any = 0
    volume_preserving: Any = False
    symplectic: Any = False
    shown: ClassVar[tuple[str, ...]] = ()

    def __init__(self, *, device: Device = None, dtype: Dtype = None) -> None:
        super().__init__()
        self.factory_kwargs = factory(device, dtype)

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> Any:
        """Convert all tensors as torch does, and keep the numbers of constants."""
        super()._apply(fn, recurse)
        for name, value in self.__dict__.get("_constants", {}).items():
            buffer = self._buffers.get(name)
            if buffer is None or buffer.is_meta:
                continue
            if not torch.equal(buffer.cpu(), value.to(buffer.dtype)):  # no numbers yet
                buffer.copy_(value)
        return self

    def constant(self, name: str, value: torch.Tensor | None) -> None:
        """Register a tensor that follows from the arguments, so that files need not hold it.

        A layer on ``meta`` holds it on the CPU, since no ``load_state_dict`` brings its numbers;
        ``to_empty``, which gives memory without numbers, leaves them as they are.
        """
        if value is None:  # torch.export counts buffers that are None, and finds none
            self.__dict__[name] = None
            return
        self.__dict__.setdefault("_constants", {})[name] = value.detach().cpu()
        device = self.factory_kwargs["device"]
        dtype = self.factory_kwargs["dtype"]
        value = value.to(
            "cpu" if device.type == "meta" else device,
            dtype if value.is_floating_point() else value.dtype,
        )
        self.register_buffer(name, value, persistent=False)

    @torch.no_grad()
    def prolong(self, smaller: Any) -> None:
        """Take the coefficients of a layer of the same kind and no higher degree."""
        coefficients = {
            name: value for name, value in smaller.state_dict().items() if "." not in name
        }
        self.load_state_dict(coefficients, strict=False)
        for part, other in zip(parts(self), parts(smaller), strict=False):
            if isinstance(part, Layer):
                part.prolong(other)
            else:
                part.load_state_dict(other.state_dict())

    def adapt_like(self, other: nn.Module) -> None:
        """Take the stored units of variables, such as boxes, of a layer of such states."""
        buffers = dict(self.named_buffers())
        units = {name: value for name, value in other.state_dict().items() if name in buffers}
        self.load_state_dict(units, strict=False)

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in self.shown)


class InvertibleLayer(Layer):
    """A volume-preserving layer whose inverse is the same computation with another sign.

    A derived class has a method ``transform(z, sign)``, or ``transform(z, sign, parameters)`` where
    it reads parameters. The method returns the image of z for sign 1, and the state whose image is
    z for sign -1.

    Attributes
    ----------
    axes : tuple of str
        Names of the sizes of the last axes of what the layer maps.
    """

    volume_preserving: Any = True
    axes: ClassVar[tuple[str, ...]] = ("dim",)

    transform: Callable[..., torch.Tensor]

    def _check_sizes(self, z: torch.Tensor) -> None:
        last_size("z", z, {name: getattr(self, name) for name in self.axes})

    def _transformed(
        self, z: torch.Tensor, sign: int, parameters: torch.Tensor | None
    ) -> torch.Tensor:
        self._check_sizes(z)
        if parameters is None and not self.parameter_count:
            return self.transform(z, sign)
        return self.transform(z, sign, check_parameters(parameters, self.parameter_count))

    def forward(self, z: torch.Tensor, parameters: torch.Tensor | None = None) -> torch.Tensor:
        return self._transformed(z, 1, parameters)

    def inverse(self, z: torch.Tensor, parameters: torch.Tensor | None = None) -> torch.Tensor:
        """Return the states, or windows, that ``forward`` maps to z."""
        return self._transformed(z, -1, parameters)


class AttentionLayer(nn.Module):
    """Base of layers that mix the time steps of a window by weights."""


def parts(layer: nn.Module) -> Iterator[nn.Module]:
    """Yield the layers that a layer is made of, also those in lists."""
    for part in layer.children():
        if isinstance(part, nn.ModuleList):
            yield from part
        else:
            yield part


def preserves(law: str, *layers: nn.Module) -> bool:
    """Whether all layers have a law, such as ``volume_preserving``."""
    return all(bool(getattr(layer, law, False)) for layer in layers)


def last_size(argument: str, x: torch.Tensor, sizes: dict[str, int]) -> None:
    """Raise InputError unless the last axes of ``x`` have the given sizes (by name, in order)."""
    if not isinstance(x, torch.Tensor) or x.is_complex():
        raise InputError(f"{argument} must be a tensor of real numbers, not {shown(x)}")
    expected = tuple(sizes.values())
    if x.ndim < len(expected) or tuple(x.shape[-len(expected) :]) != expected:
        axes = ", ".join(f"{name} {size}" for name, size in sizes.items())
        raise InputError(f"{argument} must end in axes ({axes}), but has shape {tuple(x.shape)}")


def check_parameters(parameters: torch.Tensor | None, count: int) -> torch.Tensor:
    """Return parameters (..., count), or raise InputError if they are missing or others."""
    if parameters is None or not count:
        number = f"{count} parameters" if count else "no parameters"
        raise InputError(f"this map reads {number} beside states")
    last_size("parameters", parameters, {"parameter": count})
    return parameters


def as_dtype(dtype: Any) -> torch.dtype:
    """Return the floating-point dtype that a torch dtype or its name ("float64") gives."""
    value = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    if not isinstance(value, torch.dtype) or not value.is_floating_point:
        raise InputError(f"dtype must be float32 or float64, not {dtype!r}")
    return value


def parameters_for(
    layer: nn.Module, parameters: torch.Tensor | None
) -> tuple[torch.Tensor | None, ...]:
    """Return the arguments of a layer after the states: the parameters, if it reads any."""
    return (parameters,) if getattr(layer, "parameter_count", 0) else ()


def beside(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return tensors (..., n) beside one another, whose leading axes broadcast."""
    if len(parts) < 2:
        return parts[0] if parts else torch.empty(0)
    shape = torch.broadcast_shapes(*(part.shape[:-1] for part in parts))
    return torch.cat([part.expand(*shape, -1) for part in parts], -1)


def joined(z: torch.Tensor, parameters: torch.Tensor | None) -> torch.Tensor:
    """Return the variables (..., window, dim + m) of functions of states and parameters."""
    if parameters is None:
        return z
    return beside([z, parameters.unsqueeze(-2).to(z)])  # (..., window, dim + m)


def check_vanishing(vanishing: Sequence[int], parameters: int) -> None:
    """Raise InputError unless ``vanishing`` names some of so many parameters."""
    if not {*vanishing}.issubset(range(parameters)):
        raise InputError(
            f"vanishing must name parameters, of which there are {parameters}, not {[*vanishing]}"
        )


def factors_at_zero(vanishing: Sequence[int], dim: int, parameters: int) -> torch.Tensor | None:
    """Return factors (dim + m,): 0 of the vanishing parameters, 1 of others; None if all are 1."""
    check_vanishing(vanishing, parameters)
    if not len(vanishing):
        return None
    factors = torch.ones(dim + parameters, dtype=torch.float64)
    factors[[dim + i for i in vanishing]] = 0
    return factors


def neurons_at(
    parameters: torch.Tensor,
    W: torch.Tensor,
    b: torch.Tensor,
    A: torch.Tensor,
    base: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return weights of neurons of states at parameters (m,), which join the biases.

    Parameters
    ----------
    W, b, A : (dim + m, hidden), (hidden,), (..., hidden)
        Inner weights, biases and outer weights.
    base : (dim + m,), optional
        Factors of the variables in neurons that are subtracted, which double the hidden units.
    """
    k = parameters.to(W)
    m = len(parameters)
    bias = b + k @ W[-m:]
    if base is None:
        return W[:-m], bias, A
    bias = torch.cat([bias, b + (k * base[-m:]) @ W[-m:]])
    return torch.cat([W[:-m], W[:-m]], 1), bias, torch.cat([A, -A], -1)


def uses_batch_statistics(module: nn.Module) -> bool:
    """Whether a module computes, in training mode, with the statistics of the batch it is given."""
    return any(isinstance(part, nn.modules.batchnorm._BatchNorm) for part in module.modules())
