"""Models of windows as a list of shears: attention over time steps, functions of each state.

A function of attention is followed once, and applied for every element of a symmetry group; a layer
of single states is followed once, and applied to every time step. Code that has all of these one
after another takes minutes to compile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from vpintegrator.compiled.bodies.shears import (
    NoShears,
    Permutation,
    Shear,
    parts_of,
    permutation,
)
from vpintegrator.nn.couplings import Coupling
from vpintegrator.nn.reversible import Reflection
from vpintegrator.nn.shears import is_prolongable

if TYPE_CHECKING:
    from vpintegrator.models import Integrator


class WindowFunction(nn.Module):
    """Increment of a shear as a traceable function of windows (window, dim).

    Attributes
    ----------
    owner
        Layer, or part of a layer, that owns the weights.
    image
        Shape of the result.
    """

    def __init__(
        self,
        owner: nn.Module,
        function: Callable[[torch.Tensor], torch.Tensor],
        shape: tuple[int, int],
        outputs: int,
    ) -> None:
        super().__init__()
        self.owner, self.window, self.dim = owner, *shape
        self.image = (shape[0], outputs)
        self._function = function
        self.shift, self.scale = torch.zeros(self.dim).double(), torch.ones(self.dim).double()

    def forward(self, window: torch.Tensor) -> torch.Tensor:
        return self._function(window)


def shears_of_windows(model: Integrator) -> list[Shear] | None:
    """Return the shears of windows of a model's core, or None if it has other layers.

    Only models of attention and of layers of single states are taken apart.
    """
    if not model.attention_mixes_alone or model.window == 1 or model.chart is not None:
        return None
    if model.scale.dtype != torch.float64:
        return None
    own = {id(parameter) for parameter in model.core.parameters()}
    if any(id(parameter) not in own for parameter in model.parameters()):
        return None
    try:
        taken = _Taken(model)
    except NoShears:
        return None
    return taken.shears if taken.now.trivial and taken.shears else None


class _Taken:
    """A model taken apart, with the permutation of components so far."""

    def __init__(self, model: Integrator) -> None:
        self.window, self.dim = model.window, model.dim
        size = self.window * self.dim
        self.now = Permutation(np.arange(size), np.ones(size))
        self.shears: list[Shear] = []
        self._functions: dict[tuple[int, bool], WindowFunction] = {}
        for step, inverse in _steps(model.core, False):
            if isinstance(step, Reflection):
                self.now = self._reflection(step).after(self.now)
            elif isinstance(step, Coupling):
                blocks = range(len(step.blocks))
                for a in reversed(blocks) if inverse else blocks:
                    self._coupling(step, a, -1.0 if inverse else 1.0)
            else:
                self._layer(step, inverse)

    def _reflection(self, reflection: Reflection) -> Permutation:
        own = permutation(reflection, self.dim)
        times = np.arange(self.window)[:: -1 if reflection.time_reversal else 1]
        source = (times[:, None] * self.dim + own.source).ravel()
        return Permutation(source, np.tile(own.sign, self.window))

    def _function(
        self,
        owner: nn.Module,
        function: Callable[[torch.Tensor], torch.Tensor],
        shape: tuple[int, int],
        outputs: int,
        inverse: bool = False,
    ) -> WindowFunction:
        """Return the function of a layer in one direction, made once."""
        key = id(owner), inverse
        if key not in self._functions:
            self._functions[key] = WindowFunction(owner, function, shape, outputs)
        return self._functions[key]

    def _coupling(self, layer: Coupling, a: int, factor: float) -> None:
        """A shear whose clusters are the elements of the group that it is averaged over."""
        part, rest = layer.functions[a], layer.get_buffer(f"others_{a}").numpy()
        block = np.array(layer.blocks[a])
        there = layer.get_buffer(f"there_{a}").numpy().swapaxes(-1, -2)
        back = layer.get_buffer(f"back_{a}").numpy()
        source, sign = _signed(there)
        target, weight = _signed(back)
        function = self._function(part, part.forward, (self.window, len(rest)), len(block))
        times = self.dim * np.arange(self.window)[:, None]
        ones = np.ones((self.window, 1))
        read = (times + rest[source][:, None]).reshape(len(there), -1)
        moved = (times + block[target][:, None]).reshape(len(back), -1)
        signs = (ones * sign[:, None]).reshape(read.shape)
        weights = (ones * factor * weight[:, None]).reshape(moved.shape)
        self.shears.append(self._shear(function, read, signs, moved, weights))

    def _layer(self, layer: nn.Module, inverse: bool) -> None:
        """Append the shear of a layer: of the whole window for attention, else of each state."""
        mixes = getattr(layer, "identity_at_zero", False) and not is_prolongable(layer)
        times = self.window if mixes else 1
        image: Any = layer.inverse if inverse else layer
        function = self._function(
            layer, lambda z: image(z) - z, (times, self.dim), self.dim, inverse
        )
        components = np.arange(self.window * self.dim).reshape(-1, times * self.dim)
        ones = np.ones(components.shape)
        self.shears.append(self._shear(function, components, ones, components, ones))

    def _shear(
        self,
        function: WindowFunction,
        read: np.ndarray,
        sign: np.ndarray,
        moved: np.ndarray,
        factor: np.ndarray,
    ) -> Shear:
        """Return a shear of windows that are permuted, as one of windows as they were."""
        source, signs = self.now.source, self.now.sign
        return Shear(
            function, source[read], sign * signs[read], source[moved], factor * signs[moved]
        )


def _steps(layer: nn.Module, inverse: bool) -> Iterator[tuple[nn.Module, bool]]:
    """Yield reflections and layers in order, each with whether its inverse is taken."""
    parts = parts_of(layer, inverse)
    if parts is None:
        yield layer, inverse
    for part, turned in parts or []:
        yield from _steps(part, turned)


def _signed(matrices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Place and value of the only number in each row of matrices (element, size, size)."""
    place = np.abs(matrices).argmax(-1)
    if ((matrices != 0).sum(-1) != 1).any():
        raise NoShears
    return place, np.take_along_axis(matrices, place[..., None], -1)[..., 0]
