"""Model that vp-train is asked for: untrained, by its options, or trained before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vpintegrator.cli.architecture import FLAGS, flag, given_names, read_options
from vpintegrator.cli.searching import Candidate, Make
from vpintegrator.errors import InputError
from vpintegrator.models.registry import ARCHITECTURES

if TYPE_CHECKING:
    from vpintegrator.data import Dataset
    from vpintegrator.dynamics import System
    from vpintegrator.models import Integrator
    from vpintegrator.training.search.options import SearchOptions

MOST_COMPONENTS = 5  # moving components; polynomials of more have too many terms
MOST_EXACT = 16  # the same beside exact terms; an iteration inverts a matrix of this size
_LOOKED_AT = 1_000_000  # states of which it is seen whether they have a place in a chart
_ABOUT_MODEL = ("model", "dtype", "reversible", "chart", *FLAGS)
# errors of an option that contradicts --fastest
_NOT_BESIDE_FASTEST = ("start", "target", "epochs")


@dataclass(frozen=True)
class ModelOptions:
    """Options about the model.

    Attributes
    ----------
    model, dtype, reversible, chart, fastest
        Options of the command.
    flags
        Arguments of architectures that are options of the command, None where not given.
    extra
        Entries of ``--option``.
    """

    model: str = "auto"
    dtype: str = "float64"
    reversible: bool | None = None
    chart: bool | None = None
    fastest: float | None = None
    flags: dict[str, Any] = field(default_factory=dict)
    extra: tuple[str, ...] = ()

    def check(self, start: Path | None, given: list[str]) -> None:
        """Refuse what is wrong whatever the dataset is.

        Parameters
        ----------
        start
            Trained model that is trained further.
        given
            Names of the options that were given.

        Raises
        ------
        InputError
            If options contradict one another, or the model has no such option.
        """
        refused = [flag(name) for name in _ABOUT_MODEL if name in given]
        refused += [f"--option {entry}" for entry in self.extra]
        if start is not None and refused:
            raise InputError(
                f"--start takes the model and its sizes from {start}; leave out "
                f"{', '.join(refused)}"
            )
        if self.model != "auto":
            read_options(ARCHITECTURES.find(self.model), self.flags, self.extra)
        if self.fastest is not None:
            self._check_fastest(self.fastest, given)

    def _check_fastest(self, fastest: float, given: list[str]) -> None:
        from vpintegrator.arguments import positive

        refused = [flag(name) for name in _NOT_BESIDE_FASTEST if name in given]
        refused += ["--model"] if self.model != "auto" else []
        if refused:
            raise InputError(
                "--fastest trains each model of --model auto until its error is small enough; "
                f"leave out {', '.join(refused)}"
            )
        positive("--fastest", fastest)


def untrained(data: Dataset, asked: ModelOptions, options: SearchOptions) -> Candidate:
    """Return the architecture asked for, and the models that may be taken instead."""
    given, chart = given_names(asked.flags, asked.extra), _usable_chart(data, asked.chart)
    of_neurons = {"width", "activation"} & given.keys() or asked.dtype != "float64"
    of_neurons = of_neurons or options.method.optimizer not in ("auto", "levenberg-marquardt")
    if not of_neurons:
        given = {"functions": "polynomial"} | given  # the functions to search for
    plain = _is_plain(data, options, asked.dtype)
    free = plain and asked.model == "auto" and not {*given} - {"functions"}

    def candidate(model: str) -> Candidate:
        return _candidate(data, asked, options, model, given, chart, free)

    if not (free and _is_unclaimed(data, asked, options)):
        return candidate(asked.model)
    # in two dimensions the symplectic form is the area
    even = data.dim > 2 and data.dim % 2 == 0
    first, *others = (["spff"] if even else []) + ["vpff", "resnet"]
    found = candidate(first)
    found.others = [candidate(name) for name in others]
    return found


def _candidate(
    data: Dataset,
    asked: ModelOptions,
    options: SearchOptions,
    model: str,
    given: dict[str, Any],
    chart: bool | None,
    free: bool,
) -> Candidate:
    """Return the candidate of an architecture.

    Parameters
    ----------
    model
        Name of the architecture, or "auto".
    given
        Arguments of the model that were given, and the functions that are searched for.
    chart
        Whether the system's chart is used.
    free
        Whether models of other architectures may be taken instead.
    """
    from vpintegrator.models.untrained import build, suited

    taken = suited(data.system, given, chart) if model == "auto" else model
    architecture = ARCHITECTURES.find(taken)
    fixed: dict[str, Any] = {"reversible": asked.reversible, "chart": chart}
    fixed |= {"seed": options.method.seed, "dtype": asked.dtype}

    def maker(name: str) -> Make:
        return lambda arguments: build(data.system, name, **fixed, **arguments)

    arguments = read_options(architecture, asked.flags, asked.extra)
    candidate = Candidate(architecture, maker(model), arguments, asked.dtype)
    candidate.fastest = asked.fastest
    plain = _is_plain(data, options, asked.dtype)
    candidate.is_plain = plain and options.budget.epochs is None
    if free and taken != "resnet":
        if data.system.is_measured and not (data.is_family or data.system.periods):
            candidate.linear = maker("linear")
        if data.system.has_formulas and not (data.system.is_discrete or data.is_family):
            candidate.composed = maker("split")
        if 2 <= _moving(data) <= _most(data.system, chart, candidate.composed):
            # polynomials, in which the angles of a chart are periodic
            couplings = taken
            if model == "auto":
                couplings = suited(data.system, {"functions": "polynomial"}, chart)
            candidate.solved = maker("sgf" if couplings == "spff" else "vpgf")
    return candidate


def _is_unclaimed(data: Dataset, asked: ModelOptions, options: SearchOptions) -> bool:
    """Whether states are measured, claim no structure, and any kind of map may suit them."""
    system = data.system
    claimed = system.is_canonical or system.divergence_free or not system.may_preserve_volume
    unasked = asked.flags.get("functions") in (None, "auto") and asked.fastest is None
    unasked = unasked and asked.reversible is not True and options.budget.epochs is None
    return system.is_measured and not claimed and unasked and not data.is_family and data.dim > 1


def _most(system: System, chart: bool | None, composed: Callable[..., Integrator] | None) -> int:
    """Return the largest number of components for which generating functions are tried.

    The number is small if no Hamiltonian is known, or if splittings, which cost less, are possible.
    """
    from vpintegrator.models.untrained import is_made

    known = system if system.chart is None or chart is False else system.chart.system
    if not known.is_canonical or not known.hamiltonian_formula:
        return MOST_COMPONENTS
    splits = composed is not None and is_made(composed, {"stages": 1})
    return MOST_COMPONENTS if splits else MOST_EXACT


def _moving(data: Dataset) -> int:
    """Return the number of components without those for the parameters of a family."""
    family = data.system.family
    return data.dim - (0 if family is None else len(family.coefficients))


def _is_plain(data: Dataset, options: SearchOptions, dtype: str) -> bool:
    """Whether what is asked for is a map of the states themselves, in double precision."""
    from vpintegrator.training import Objective

    system = data.system
    return (
        dtype == "float64"
        and (system.is_measured or not data.is_observed)
        and data.is_complete
        and system.may_preserve_volume
        and options.method.optimizer == "auto"
        and options.objective == Objective()
    )


def _usable_chart(data: Dataset, asked: bool | None) -> bool | None:
    """Whether to use the system's chart: not by default where some states have no place in it."""
    import numpy as np

    if data.system.chart is None or asked is not None:
        return asked
    _, length, _ = data.shapes["train"]
    states = data.states("train", slice(0, max(1, _LOOKED_AT // length)))
    states = states.reshape(-1, data.dim)
    with np.errstate(all="ignore"):
        known = np.isfinite(data.system.chart(states[np.isfinite(states).all(1)])).all()
    return None if known else False


def started(path: Path) -> Candidate:
    """Return a trained model to train further, with a record of its origin."""
    from vpintegrator.models import load
    from vpintegrator.models.growth import freeze_attention
    from vpintegrator.models.one_step import without_attention

    model = load(path)
    if without_attention(model) is not None:  # attention layers stay frozen
        freeze_attention(model)
    for name in ("verdict", "fastest"):  # results of the model before the training
        model.metadata.pop(name, None)
    model.metadata["start"] = path.name
    return Candidate(type(model), network=model, normalise=False)
