"""Members of a family of models: models of single steps and parameters."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, TypeVar

import torch
from torch import nn

from vpintegrator.arguments import is_number
from vpintegrator.errors import InputError, nearest
from vpintegrator.models.arguments import Stored
from vpintegrator.models.coordinates import Coordinates
from vpintegrator.nn import AdditiveCoupling, NeuronPotential
from vpintegrator.nn.folding import at
from vpintegrator.nn.formulas import Formulas, with_values
from vpintegrator.nn.layer import Layer
from vpintegrator.nn.reversible import psi_of
from vpintegrator.storage.reading import read_json


class Stepping(Stored):
    """Base of ``Model``, which imports this module, with the attributes that are read here."""

    name: str = ""
    dim: int
    window: int
    core: nn.Module
    coordinates: Coordinates
    metadata: dict[str, str]
    choices: list[str]
    reversing_symmetries: torch.Tensor


AnyModel = TypeVar("AnyModel", bound=Stepping)

STEP = "step"
KEY = "family"  # key of the metadata
MEMBER = "member_of"  # the same of a member: what else is told of its training is the family's
_OF_EXTENDED = ("conserved", "scaling", "cyclic")
_OF_NEURONS = (AdditiveCoupling, NeuronPotential)
_CHECKED, _ROUNDING = 16, 1e-10


class OutsideTraining(UserWarning):
    """A parameter or step lies outside the range that a family was trained in."""


@dataclass(frozen=True)
class FamilyConditions:
    """Parameters and step of a family of models, with their ranges and coefficients.

    Attributes
    ----------
    ranges
        Training range of each parameter, and of the step, by name.
    coefficients
        The components k of an extended state (z, k) as expressions of step and parameters,
        ``z[0]``, ``z[1]``, ...
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
        found: dict[str, Any] = {
            "conditions": self.ranges,
            "coefficients": self.coefficients,
            "nominal": self.nominal,
        }
        return json.dumps(found | ({} if self.step is None else {"step": self.step}))

    @classmethod
    def from_text(cls, text: str, where: str) -> FamilyConditions:
        """Read the text that :attr:`text` returns.

        Raises
        ------
        InputError
            If it is no such text; says ``where`` it stands.
        """
        stored = read_json(text, where)
        ranges, coefficients = stored.get("conditions"), stored.get("coefficients")
        step = stored.get("step")
        if not isinstance(ranges, dict) or not ranges or not all(map(_is_range, ranges.values())):
            raise InputError(f"{where}: conditions must have a least and a largest value each")
        if not isinstance(coefficients, list) or (STEP in ranges) == is_number(step):
            raise InputError(f"{where} must hold coefficients, and a step that varies or is given")
        nominal = stored.get("nominal")
        if not isinstance(nominal, dict) or not all(map(is_number, nominal.values())):
            raise InputError(f"{where}: nominal values of parameters must be numbers")
        found = {name: (float(low), float(high)) for name, (low, high) in ranges.items()}
        conditions = cls(found, coefficients, nominal, None if step is None else float(step))
        _ = conditions.formulas  # a mistake in them is told now
        return conditions

    @cached_property
    def formulas(self) -> Formulas:
        """The components k as functions of step and parameters."""
        return Formulas(self.coefficients, len(self.ranges), name="coefficients")

    def components(self, values: Mapping[str, Any]) -> torch.Tensor:
        """Return the components k (..., m) at values of step and parameters, which broadcast.

        Raises
        ------
        InputError
            If a name is unknown or missing, or a value is not finite.
        """
        for name in values:
            if name not in self.ranges:
                raise InputError(
                    f"{name} is no condition of this family"
                    f"{nearest(name, self.ranges) or '; they are ' + ', '.join(self.ranges)}"
                )
        values = self.nominal | dict(values)
        if missing := [name for name in self.ranges if name not in values]:
            given = ", ".join(f"{name}=..." for name in missing)
            raise InputError(f"this family needs a value of {', '.join(missing)}: give {given}")
        columns = []
        for name, (low, high) in self.ranges.items():
            try:
                column = torch.as_tensor(values[name], dtype=torch.float64)
            except (TypeError, ValueError, RuntimeError):
                raise InputError(f"{name} must be a number, not {values[name]!r}") from None
            if not torch.isfinite(column).all():
                raise InputError(f"{name} must be finite")
            room = _ROUNDING * max(abs(low), abs(high))
            inside = (column >= low - room) & (column <= high + room)
            if name == STEP:  # back in time, and not at all
                inside = column.abs() <= high + room
            if not inside.all():
                worst = column[~inside].flatten()[0].item()
                warnings.warn(
                    f"{name} = {worst:g} lies outside of [{low:g}, {high:g}], in which the model "
                    "was trained",
                    OutsideTraining,
                    stacklevel=4,
                )
            columns.append(column)
        broadcast = torch.stack(torch.broadcast_tensors(*columns), -1)
        found = torch.stack(self.formulas(broadcast), -1)
        if not torch.isfinite(found).all():
            raise InputError("the coefficients of the equations are not finite for these values")
        return found


def _is_range(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(map(is_number, value))
        and value[0] <= value[1]
    )


def conditions_of(model: Stepping) -> FamilyConditions | None:
    """Return step and parameters of a family of models, or None for a single model."""
    if KEY not in model.metadata:
        return None
    return _read(model.metadata[KEY], f"the family of {model.name}")


# solvers ask at every step
_read = lru_cache(maxsize=32)(FamilyConditions.from_text)


def member(model: AnyModel, values: Mapping[str, Any]) -> AnyModel:
    """Return the model at one step and one set of parameters, see ``Model.at``."""
    conditions = conditions_of(model)
    if conditions is None:
        raise InputError(
            f"the model {model.name} is no family: it has one step and one set of parameters"
        )
    given = {name: _single(name, value) for name, value in values.items()}
    values = conditions.nominal | given
    k = conditions.components(values).to(model.coordinates.scale)
    shift, scale = model.coordinates.shift[-len(k) :], model.coordinates.scale[-len(k) :]
    fixed = at(model.core, (k - shift) / scale)
    plain = _plain(model, k, fixed)
    _take(plain, fixed)
    _check(model, plain, k)
    metadata = dict(model.metadata)
    metadata[MEMBER] = metadata.pop(KEY)
    parameters = read_json(metadata.get("parameters", "{}"), "the parameters of the model")
    parameters |= {name: value for name, value in values.items() if name != STEP}
    step = values.get(STEP, conditions.step)
    plain.metadata = metadata | {"parameters": json.dumps(parameters)}
    if step is not None and step > 0:
        plain.metadata["step"] = repr(float(step))
    plain.choices = list(model.choices)
    return plain.eval()


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
    conditions = conditions_of(model)
    if conditions is None:
        return model
    given = {**(parameters or {}), **({} if step is None else {STEP: step})}
    return member(model, {name: given[name] for name in conditions.ranges if name in given})


def extended(model: Stepping, states: Any, values: Mapping[str, Any]) -> torch.Tensor:
    """Return states with the components k of a family, see ``Model.extended``."""
    conditions = conditions_of(model)
    if conditions is None:
        raise InputError(f"the model {model.name} is no family; give it states as they are")
    z = torch.as_tensor(states).to(model.coordinates.scale)
    k = conditions.components(values).to(z)
    if z.shape[-1] + k.shape[-1] != model.dim:
        raise InputError(
            f"states of this family have {model.dim - k.shape[-1]} components in their last axis, "
            f"but the shape given is {tuple(z.shape)}"
        )
    try:
        shape = torch.broadcast_shapes(z.shape[:-1], k.shape[:-1])
    except RuntimeError:
        raise InputError(
            f"parameters of shape {tuple(k.shape[:-1])} do not fit states of shape {tuple(z.shape)}"
        ) from None
    return torch.cat([z.expand(*shape, -1), k.expand(*shape, -1)], -1)


def _single(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError):
        raise InputError(f"{name} must be one number, not {value!r}") from None


def _plain(model: AnyModel, k: torch.Tensor, fixed: torch.nn.Module) -> AnyModel:
    """Return a model of the same architecture for states without the last components.

    Its hidden layers are as wide as those that the family was reduced to, which may be wider.
    """
    more, dim = len(k), model.dim - len(k)
    scale, spread = model.coordinates.scale, model.coordinates.state_scale
    arguments = {n: value for n, value in model.arguments.items() if n not in _OF_EXTENDED}
    arguments["dim"] = dim
    cyclic = [i for i in model.arguments.get("cyclic", ()) if i < dim]
    if cyclic:
        arguments["cyclic"] = cyclic
    if isinstance(split := arguments.get("split"), list):
        arguments["split"] = [block for block in split if max(block) < dim]
    layers = [each for each in fixed.modules() if isinstance(each, _OF_NEURONS)]
    if layers:
        arguments["width"] = layers[0].width
    if texts := arguments.get("expressions"):
        known = dict(enumerate(k.tolist(), dim))
        pairs = zip(texts, Formulas(texts, model.dim).depends, strict=True)
        left = [with_values(text, known) for text, of in pairs if not of.issubset(known)]
        arguments["expressions"] = left
    if text := arguments.get("hamiltonian"):
        arguments["hamiltonian"] = with_values(text, dict(enumerate(k.tolist(), dim)))
    rhos = model.reversing_symmetries.double()
    still = torch.eye(more, dtype=torch.float64)
    kept = [rho[:dim, :dim].tolist() for rho in rhos if torch.equal(rho[dim:, dim:], still)]
    arguments.pop("reversing_symmetries", None)
    if kept:
        arguments["reversing_symmetries"] = kept
    with torch.random.fork_rng(devices=[]):
        plain: Any = type(model)(**arguments, dtype=scale.dtype).to(scale.device)
    if order := model.coordinates.order:
        plain.set_coordinates(order=[i for i in order if i < dim])
    plain.set_normalisation(model.coordinates.shift[:dim], scale[:dim], spread[:dim])
    return plain


@torch.no_grad()
def _take(plain: Stepping, core: torch.nn.Module) -> None:
    """Copy the weights of the folded layers of a family to a model."""
    layer, folded = (psi_of(each) for each in (plain.core, core))
    assert isinstance(layer, Layer)
    try:
        layer.prolong(folded)  # a layer with the remaining symmetries
    except RuntimeError:  # tensors of other symmetries
        raise InputError(
            f"what {type(folded).__name__} reads of the parameters cannot be multiplied out; run "
            "the family itself, on states that its method extended makes"
        ) from None


@torch.no_grad()
def _check(model: Stepping, plain: Stepping, k: torch.Tensor) -> None:
    """Raise InputError if a member differs from its family at random states."""
    generator = torch.Generator().manual_seed(0)
    size = (_CHECKED, model.window, plain.dim)
    scale = plain.coordinates.scale
    z = 3 * torch.rand(size, generator=generator, dtype=torch.float64).to(scale) - 1.5
    states = plain.coordinates.inverse(z)
    extended = torch.cat([states, k.expand(*states.shape[:-1], len(k))], -1)
    expected, found = model(extended)[..., : plain.dim], plain(states)
    unit = scale + expected.abs()
    known = torch.isfinite(expected)
    defect = ((found - expected).abs() / unit)[known].max() if known.any() else 0.0
    if defect > _ROUNDING * torch.finfo(scale.dtype).eps / torch.finfo(torch.float64).eps:
        raise InputError(
            f"the model {model.name} of these parameters differs by {float(defect):.1g} from the "
            "family; this is a mistake of vpintegrator, please report it"
        )
