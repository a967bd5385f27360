"""Values that a model stores beside its tensors: arguments of its class, origin, and record."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from inspect import Parameter
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    NamedTuple,
    Self,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np
import torch

from vpintegrator.arguments import one_of, plain, positive
from vpintegrator.dynamics.training_domain import Domain
from vpintegrator.models.family import FamilyParameters

if TYPE_CHECKING:
    from vpintegrator.dynamics import System

CURVES = ("epoch", "seconds", "training_error", "validation_error")


@dataclass(frozen=True)
class Member:
    """Family that a model was taken from, with the values of step and parameters.

    Attributes
    ----------
    family
        Step and parameters of the family.
    values
        Values of the member by name.
    """

    family: FamilyParameters
    values: dict[str, float]


@dataclass(frozen=True)
class Origin:
    """System, step and data that a model is for.

    Attributes
    ----------
    system
        The system with its parameters; None where it is not known.
    step
        Time step; None for a family, and where it is not known.
    dataset, fingerprint
        Path and fingerprint of the dataset of the training, or empty.
    domain
        Ranges of components and invariants on the training states.
    member
        The family of a model that :meth:`vpintegrator.models.Model.at` returned.

    Raises
    ------
    InputError
        If the step is not positive.

    Examples
    --------
    >>> model = vp.models.ResidualNetwork(dim=2)
    >>> model.origin = vp.models.Origin(vp.load_system("pendulum"), step=0.1)
    >>> model.step
    0.1
    """

    system: System | None = None
    step: float | None = None
    dataset: str = ""
    fingerprint: str = ""
    domain: Domain | None = None
    member: Member | None = None

    def __post_init__(self) -> None:
        if self.step is not None:
            positive("the step of a model", self.step)

    def __deepcopy__(self, memo: dict[int, Any]) -> Origin:
        return self  # nothing of it changes, and a system takes long to read


@dataclass
class History:
    r"""Errors of a training, epoch by epoch, and its outcome.

    Errors are root mean squares of the first new state after each window, relative to the spread of
    the training states, see :func:`vpintegrator.training.relative_error`. The time and constants of
    motion do not count.

    Validation and test errors are one window ahead, from exact windows. The training error is the
    optimizer's: over all new states of its windows, with the horizon and the noise of the loss; for
    Adam, while the weights change.

    Attributes
    ----------
    optimizer, seed, parameters
        Name of the optimizer, seed, and number of parameters.
    epoch, seconds, training_error, validation_error
        Values of each epoch (for second-order methods an epoch is an iteration).
    best_epoch, best_validation_error
        Epoch and error of the kept weights.
    test_error, test_deviation
        Error of the kept weights on the dataset's test group, and its standard error; nan if the
        group is empty.
    windows
        Number of windows that a second-order method used at the end, see ``LevenbergMarquardt``;
        else 0.
    rollbacks
        Number of times that the error exploded and training returned to the best weights.
    stopped_by
        ``epochs``, ``seconds``, ``target``, ``patience``, ``interrupt``, ``divergence``, or
        ``solved`` for a linear solve.
    compiled
        Whether residuals and their derivatives were computed as machine code.
    not_compiled
        Reason why they were not, if machine code was not refused by the user.
    compiler_seconds
        Seconds that tracing and compilation took.
    share
        Fraction of the budget that is used up, 0 to 1.
    device
        Device of the training.
    warning
        Reason why the model is unreliable, or empty. Its error is larger than without any change of
        state, or far larger on the test group than on the validation group.
    """

    optimizer: str
    seed: int
    parameters: int
    epoch: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    training_error: list[float] = field(default_factory=list)
    validation_error: list[float] = field(default_factory=list)
    best_epoch: int = 0
    best_validation_error: float = float("inf")
    test_error: float = float("nan")
    test_deviation: float = float("nan")
    windows: int = 0
    rollbacks: int = 0
    stopped_by: str = ""
    compiled: bool = False
    not_compiled: str = ""
    compiler_seconds: float = 0.0
    share: float = 0.0
    device: str = "cpu"
    warning: str = ""

    def __repr__(self) -> str:
        ending = f", stopped by {self.stopped_by}" if self.stopped_by else ""
        return (
            f"<History {self.optimizer}: {self.epochs} epochs in {self.used:.3g} s{ending}; "
            f"validation error {self.best_validation_error:.2e} (epoch {self.best_epoch}), "
            f"test error {self.test_error:.2e}>"
        )

    @property
    def epochs(self) -> int:
        """Number of epochs done."""
        return self.epoch[-1] if self.epoch else 0

    @property
    def used(self) -> float:
        """Seconds used."""
        return self.seconds[-1] if self.seconds else 0.0

    def add(self, seconds: float, training_error: float, validation_error: float) -> bool:
        """Note an epoch; return whether its weights are the best so far."""
        values = (self.epochs + 1, seconds, training_error, validation_error)
        for name, value in zip(CURVES, values, strict=True):
            getattr(self, name).append(value)
        if validation_error < self.best_validation_error:  # false for nan
            self.best_epoch = self.epochs
            self.best_validation_error = validation_error
            return True
        return False

    def summary(self) -> dict[str, Any]:
        """Return the history for a model file, with curves thinned to a few hundred points."""
        values = asdict(self)
        every = max(len(self.epoch) // 200, 1)
        # from the end, so that the last epoch is kept
        return values | {name: values[name][::-every][::-1] for name in CURVES}


@dataclass(frozen=True)
class Record:
    """Training of a model, and measurements after it.

    Attributes
    ----------
    history
        Errors of the last training, epoch by epoch; None before the first.
    provenance
        Source of the map in words: states or equations.
    data
        Trajectories and steps of the dataset in words.
    versions
        Python and the packages that trained, such as ``torch 2.7.0``.
    initial_scheme
        Splitting scheme that the training began with, ``none`` if another start replaced it; empty
        if none was tried.
    start
        Name of the file of the model that the training went on from.
    attention
        Sentence on the distance of attention from the identity.
    lead_time_errors
        Relative errors of the new states of a call, if there are several.
    search, search_seconds
        Lines on the models that a search tried, and its seconds.
    one_step
        Rows of the table of one step, see :class:`vpintegrator.training.OneStepTable`.
    """

    history: History | None = None
    provenance: str = ""
    data: str = ""
    versions: tuple[str, ...] = ()
    initial_scheme: str = ""
    start: str = ""
    attention: str = ""
    lead_time_errors: tuple[float, ...] = ()
    search: tuple[str, ...] = ()
    search_seconds: float | None = None
    one_step: tuple[Mapping[str, Any], ...] = ()


Blocks = str | Sequence[Sequence[int]]  # "coordinates", "halves" or blocks of indices
Matrices = Sequence[Any] | np.ndarray | torch.Tensor  # (count, dim, dim)
Periods = Mapping[int, float] | Sequence[Sequence[float]]  # of pairs (component, period)

_PLAIN = {bool, int, float, str, NoneType}


class Argument(NamedTuple):
    """Alternatives of an argument's annotation, the texts that it may be, and its default."""

    kinds: tuple[Any, ...]
    choices: tuple[str, ...]
    default: Any  # Parameter.empty: the argument is required

    def check(self, name: str, value: Any) -> None:
        """Raise InputError for a value of another plain kind, or a text that is no choice."""
        if {*self.kinds} <= _PLAIN:
            plain(name, value, self.kinds)
        if self.choices and not (value is None and NoneType in self.kinds):
            one_of(name, value, self.choices)


def arguments_of(function: type | Callable[..., Any]) -> dict[str, Argument]:
    """Return the arguments of a class or function by name."""
    called = function.__init__ if isinstance(function, type) else function  # type: ignore[misc]
    hints = get_type_hints(called)
    result = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD):
            continue
        hint = hints.get(name, Any)
        is_union = get_origin(hint) in (Union, UnionType) and hint != Blocks
        kinds = get_args(hint) if is_union else (hint,)
        choices = [text for k in kinds if get_origin(k) is Literal for text in get_args(k)]
        result[name] = Argument(kinds, (*choices,), parameter.default)
    return result


class Stored(torch.nn.Module):
    """A module whose attribute ``arguments`` holds what its class was called with, as JSON.

    Defaults are included, but those that are None or empty; modules and the dtype are left out. A
    call that does not fit the signature stores none: the constructor raises the TypeError.

    Raises
    ------
    InputError
        If an argument is of another plain kind than its annotation says.
    """

    arguments: dict[str, Any]

    def __new__(cls, *values: Any, **keywords: Any) -> Self:
        module = super().__new__(cls)
        stored = {}
        declared = arguments_of(cls)
        with suppress(TypeError):
            bound = inspect.signature(cls).bind(*values, **keywords).arguments
            for name in [name for name in bound if name in declared]:
                declared[name].check(name, bound[name])
            for name, (_, _, default) in declared.items():
                value = as_json(bound.get(name, default))
                default = as_json(default)
                is_plain = name != "dtype" and not isinstance(value, torch.nn.Module)
                if is_plain and (value not in (None, "", []) or value != default):
                    stored[name] = value
        module.__dict__["arguments"] = stored
        return module


def as_json(value: Any) -> Any:
    """Return arrays, mappings and sequences as the lists that JSON holds; other values as is."""
    if isinstance(value, np.ndarray | np.generic | torch.Tensor):
        return value.tolist()
    if isinstance(value, Mapping):
        return [[as_json(key), as_json(each)] for key, each in value.items()]
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [as_json(each) for each in value]
    return value
