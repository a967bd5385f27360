"""Step and parameters of families, which are models of every step and parameters of a system."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from vpintegrator.errors import InputError, nearest
from vpintegrator.nn.formulas import Formulas

STEP = "step"
UNITS = ("parameter_shift", "parameter_scale")  # buffers of a family
ROUNDING = 1e-10


class OutsideTraining(UserWarning):
    """A parameter or step lies outside the range that a family was trained in."""


@dataclass(frozen=True)
class FamilyParameters:
    """Step and parameters of a family of models, with their ranges and coefficients.

    Attributes
    ----------
    ranges
        Training range of each parameter, and of the step, by name.
    coefficients
        The coefficients k of the vector field as expressions of step and parameters, ``z[0]``,
        ``z[1]``, ... in the order of ``ranges``.
    nominal
        Nominal values of the parameters, from the system; defaults of the members.
    step
        Step of the family, if the step does not vary.
    """

    ranges: dict[str, tuple[float, float]]
    coefficients: list[str]
    nominal: dict[str, float]
    step: float | None = None

    @cached_property
    def formulas(self) -> Formulas:
        """The coefficients as functions of step and parameters."""
        return Formulas(self.coefficients, len(self.ranges), name="coefficients")

    def values(self, given: Mapping[str, Any]) -> torch.Tensor:
        """Return step and parameters (..., p) of numbers or arrays by name, which broadcast.

        Those that are not given are the system's. A value outside the training range gives a
        warning; a step back in time, or none, does not.

        Raises
        ------
        InputError
            If a name is unknown or missing, or a value is no finite number.
        """
        values = self.nominal | dict(given)
        if unknown := given.keys() - self.ranges.keys():
            name = min(unknown)
            hint = nearest(name, self.ranges) or "; they are " + ", ".join(self.ranges)
            raise InputError(f"{name} is no parameter of this family{hint}")
        if missing := [f"{name}=..." for name in self.ranges if name not in values]:
            raise InputError(f"this family needs a value of {', '.join(missing)}")
        columns = []
        for name, (low, high) in self.ranges.items():
            try:
                column = torch.as_tensor(values[name], dtype=torch.float64)
            except (TypeError, ValueError, RuntimeError):
                column = torch.tensor(torch.nan)
            if not torch.isfinite(column).all():
                raise InputError(f"{name} must be a finite number, not {values[name]!r}")
            room = ROUNDING * max(abs(low), abs(high))
            outside = (column < (-high if name == STEP else low) - room) | (column > high + room)
            if outside.any():
                warnings.warn(
                    f"{name} = {column[outside].flatten()[0]:g} lies outside of [{low:g}, "
                    f"{high:g}], in which the model was trained",
                    OutsideTraining,
                    stacklevel=4,
                )
            columns.append(column)
        return torch.stack(torch.broadcast_tensors(*columns), -1)
