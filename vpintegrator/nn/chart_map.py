"""Other coordinates of states, Z = chart(z), as formulas that are parsed, not executed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import torch

from vpintegrator.errors import InputError
from vpintegrator.nn.formulas import Formulas, as_expressions
from vpintegrator.nn.symmetry import canonical_form

_POINTS = 64
_FEWEST = 3  # states that must have values
_ROUNDING = 1e-8


class ChartMap:
    """The new components of states, and states of new components.

    Parameters
    ----------
    texts, inverse : sequence of str
        The new components as expressions of ``z[0]``, ``z[1]``, ..., and the old ones as
        expressions of the new ones, also written ``z[0]``, ``z[1]``, ...
    dim : int

    Attributes
    ----------
    angles : set of int
        New components made of ``atan2``, which jump by a period.

    Raises
    ------
    InputError
        If they are not understood, or not inverse to each other at random points.

    Examples
    --------
    >>> chart = ChartMap(["log(z[0])"], ["exp(z[0])"], 1)
    >>> chart.inverse(chart(torch.tensor([2.0])))
    tensor([2.])
    """

    def __init__(self, texts: Sequence[str], inverse: Sequence[str], dim: int) -> None:
        self.texts, self.inverse_texts = (
            as_expressions(given, name, dim)
            for given, name in ((texts, "chart"), (inverse, "inverse_chart"))
        )
        self.dim = dim
        for name, given in (("chart", self.texts), ("inverse_chart", self.inverse_texts)):
            if len(given) != dim:
                raise InputError(
                    f"{name} must be {dim} expressions (dim = {dim}), not {len(given)}"
                )
        self._map = Formulas(self.texts, dim, name="chart")
        self._inverse = Formulas(self.inverse_texts, dim, name="inverse_chart")
        self.angles = {n for n, text in enumerate(self.texts) if "atan2" in text}
        points = self._points
        errors = (self.inverse(self(points)) - points).abs().amax(-1)
        known = errors.isfinite()
        if known.sum() < _FEWEST or not bool((errors[known] < _ROUNDING).all()):
            raise InputError(
                "inverse_chart is not the inverse of chart: at random states it gives others back"
            )

    def __call__(self, z: torch.Tensor) -> torch.Tensor:
        """Return the new components (..., dim) of states (..., dim)."""
        return torch.stack(self._map(z), -1)  # (..., dim)

    def inverse(self, Z: torch.Tensor) -> torch.Tensor:
        """Return the states (..., dim) that have new components (..., dim)."""
        return torch.stack(self._inverse(Z), -1)  # (..., dim)

    @cached_property
    def keeps_volume(self) -> bool:
        """Whether the volume of the new components is that of the old ones, up to a factor."""
        return self._same(lambda D: torch.linalg.slogdet(D)[1])

    @cached_property
    def is_canonical(self) -> bool:
        """Whether the chart preserves the form dq dp of states (q, p), up to a factor."""
        if self.dim % 2:
            return False
        J = canonical_form(self.dim)
        entries = J != 0
        forms = self._slopes.mT @ J @ self._slopes  # (point, dim, dim)
        outside = torch.where(entries, 0.0, forms).abs().amax((1, 2))
        size = forms.abs().amax((1, 2))
        return bool((outside < _ROUNDING * size).all()) and self._same(
            lambda D: (D.mT @ J @ D * J)[:, entries]
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return ChartMap, (self.texts, self.inverse_texts, self.dim)

    @property
    def _points(self) -> torch.Tensor:
        """Random points; half of them have positive components."""
        generator = torch.Generator().manual_seed(0)
        points = torch.randn(_POINTS, self.dim, generator=generator, dtype=torch.float64)
        return torch.cat([points, points.abs()])

    @cached_property
    def _slopes(self) -> torch.Tensor:
        """Derivatives (point, dim, dim) at the points where the chart has one."""
        slopes = torch.func.vmap(torch.func.jacrev(self.__call__))(self._points)
        return slopes[slopes.isfinite().all(-1).all(-1)]

    def _same(self, value: Callable[[torch.Tensor], torch.Tensor]) -> bool:
        """Whether all components of a value are equal at all points."""
        values = value(self._slopes)
        spread = values.max() - values.min()
        return bool(spread < _ROUNDING * values.abs().max().clamp_min(1))
