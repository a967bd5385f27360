"""Families: models of every step and parameters of a system, and members at single values."""

from __future__ import annotations

import copy
import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import torch

from vpintegrator.arguments import is_number
from vpintegrator.errors import InputError, nearest
from vpintegrator.models.arguments import Stored
from vpintegrator.nn.formulas import Formulas
from vpintegrator.storage.reading import read_json

STEP = "step"
MEMBER = "member_of"  # key of the metadata of a member, whose training is that of the family
UNITS = ("parameter_shift", "parameter_scale")  # buffers of a family
_ROUNDING = 1e-10


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

    @property
    def text(self) -> str:
        """JSON text, stored in model files."""
        result: dict[str, Any] = {
            "ranges": self.ranges,
            "coefficients": self.coefficients,
            "nominal": self.nominal,
        }
        return json.dumps(result | ({} if self.step is None else {"step": self.step}))

    @classmethod
    def from_text(cls, text: str, where: str) -> FamilyParameters:
        """Read the text that :attr:`text` returns.

        Raises
        ------
        InputError
            If it is no such text; says ``where`` it stands.
        """
        stored = read_json(text, where)
        ranges, coefficients = stored.get("ranges"), stored.get("coefficients")
        step = stored.get("step")
        if not isinstance(ranges, dict) or not ranges or not all(map(_is_range, ranges.values())):
            raise InputError(f"{where}: ranges must have a least and a largest value each")
        if not isinstance(coefficients, list) or (STEP in ranges) == is_number(step):
            raise InputError(f"{where} must hold coefficients, and a step that varies or is given")
        nominal = stored.get("nominal")
        if not isinstance(nominal, dict) or not all(map(is_number, nominal.values())):
            raise InputError(f"{where}: nominal values of parameters must be numbers")
        known = {name: (float(low), float(high)) for name, (low, high) in ranges.items()}
        result = cls(known, coefficients, nominal, None if step is None else float(step))
        _ = result.formulas  # a mistake in them is told now
        return result

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
        for name in given:
            if name not in self.ranges:
                hint = nearest(name, self.ranges) or "; they are " + ", ".join(self.ranges)
                raise InputError(f"{name} is no parameter of this family{hint}")
        values = self.nominal | dict(given)
        if missing := [name for name in self.ranges if name not in values]:
            names = ", ".join(f"{name}=..." for name in missing)
            raise InputError(f"this family needs a value of {', '.join(missing)}: give {names}")
        columns = []
        for name, (low, high) in self.ranges.items():
            try:
                column = torch.as_tensor(values[name], dtype=torch.float64)
            except (TypeError, ValueError, RuntimeError):
                raise InputError(f"{name} must be a number, not {values[name]!r}") from None
            if not torch.isfinite(column).all():
                raise InputError(f"{name} must be finite")
            room = _ROUNDING * max(abs(low), abs(high))
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


class Parametrised(Stored):
    """Base of ``Model``, which imports this module, with the attributes that are read here."""

    name: str = ""
    dim: int
    core: Any
    metadata: dict[str, str]
    reversing_symmetries: torch.Tensor
    parameter_count: int
    family: FamilyParameters | None

    def coefficients(self, parameters: torch.Tensor | None) -> torch.Tensor | None:
        """Return the normalised coefficients (..., m) of parameters (..., p)."""
        raise NotImplementedError


AnyModel = TypeVar("AnyModel", bound=Parametrised)


def _is_range(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(map(is_number, value))
        and value[0] <= value[1]
    )


@torch.no_grad()
def member(model: AnyModel, given: Mapping[str, Any]) -> AnyModel:
    """Return the model at one step and one set of parameters, see ``Model.at``."""
    family = model.family
    if family is None:
        raise InputError(
            f"the model {model.name} is no family: it has one step and one set of parameters"
        )
    numbers = family.values(given)
    if numbers.ndim > 1:
        raise InputError("a model is taken at one number of each parameter")
    values = dict(zip(family.ranges, numbers.tolist(), strict=True))
    n, shift, scale = model.dim, *map(model.get_buffer, UNITS)
    k = model.coefficients(numbers.to(shift.device))
    assert k is not None
    if not torch.isfinite(k).all():
        raise InputError("the coefficients of the equations are not finite for these values")
    result = copy.deepcopy(model)
    rhos, turned = model.reversing_symmetries, model.reversing_symmetries[:, n:, n:].to(k)
    physical = k * scale + shift
    stays = (turned @ physical - physical).abs().amax(-1) <= _ROUNDING * physical.abs().max()
    result.reversing_symmetries = rhos[stays.cpu(), :n, :n]
    result.core = model.core.at(k)
    result.parameter_count, result.family = 0, None
    metadata = dict(model.metadata)
    metadata[MEMBER] = json.dumps({"family": json.loads(family.text), "values": values})
    parameters = read_json(metadata.get("parameters", "{}"), "the parameters of the model")
    parameters |= {name: value for name, value in values.items() if name != STEP}
    step = values.get(STEP, family.step)
    result.metadata = metadata | {"parameters": json.dumps(parameters)}
    if step is not None and step > 0:
        result.metadata["step"] = repr(float(step))
    return result.eval()


def member_for(
    model: AnyModel, step: float | None = None, parameters: Mapping[str, Any] | None = None
) -> AnyModel:
    """Return the member of a family at a step and parameters; other models as they are.

    Parameters
    ----------
    step
        Step; taken where the step of the family varies.
    parameters
        Parameters of a system; those that vary in the family are taken.
    """
    given = {**(parameters or {}), **({} if step is None else {STEP: step})}
    if model.family is None:
        return model
    return member(model, {name: given[name] for name in model.family.ranges if name in given})
