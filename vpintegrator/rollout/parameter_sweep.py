"""Parameter sweep: a family of models beside classical methods, over steps and parameters."""

from __future__ import annotations

import itertools
import json
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from vpintegrator.arguments import as_path, check_integrator, of_kind, whole_number
from vpintegrator.errors import InputError, printable
from vpintegrator.renamed import former_arguments, warn_of_former_name
from vpintegrator.rollout.classical import ClassicalMethod
from vpintegrator.rollout.compare import compare, prepare_comparison
from vpintegrator.rollout.report import Report, frame_of
from vpintegrator.rollout.variables import Variable, read_variables
from vpintegrator.storage.hdf5 import create_hdf5, write_words
from vpintegrator.storage.reading import open_hdf5

if TYPE_CHECKING:
    import pandas

    from vpintegrator.models import Integrator

FORMAT, FORMAT_VERSION = "vpintegrator-survey", 1
MOST = 1_000  # combinations
_DIMS = ("combination", "method")
QUANTITIES = tuple(
    Variable(name, title, _DIMS, required=True)
    for name, title in (
        ("first_error", "error one step ahead, median over orbits"),
        ("median_error", "root mean square error of a component, median over orbits"),
        ("worst_error", "root mean square error of a component, worst orbit"),
        ("volume_error", "largest |log|det|| of the derivative of one step"),
        ("seconds", "seconds per step and orbit"),
    )
)


@dataclass(frozen=True)
class ParameterSweep:
    """Errors of methods over steps and parameters, all combinations of the values given.

    Made by :func:`vpintegrator.rollout.parameter_sweep` or read by
    :func:`vpintegrator.rollout.open_parameter_sweep`.

    Attributes
    ----------
    title
        Title of the system.
    time
        Time that the methods ran for.
    parameters
        Values of the step and of each parameter that is set, (combination,), by name.
    methods
        Titles of the methods by name.
    learned
        Names of those that are models.
    values
        Measurements by name, (combination, method): ``first_error``, ``median_error``,
        ``worst_error``, ``volume_error`` and ``seconds``.

    Examples
    --------
    >>> sweep = vp.rollout.open_parameter_sweep("rigid-body-sweep.h5")  # doctest: +SKIP
    >>> sweep.table()[0]  # doctest: +SKIP
    """

    title: str
    time: float
    parameters: dict[str, np.ndarray]
    methods: dict[str, str]
    learned: list[str]
    values: dict[str, np.ndarray]

    @property
    def conditions(self) -> dict[str, np.ndarray]:
        """Former name of ``parameters``."""
        warn_of_former_name("conditions", "parameters")
        return self.parameters

    def __repr__(self) -> str:
        count = len(next(iter(self.parameters.values())))
        return (
            f"<ParameterSweep {self.title}: {', '.join(self.methods)} at {count:,} combinations of "
            f"{', '.join(self.parameters)}, to t = {self.time:g}>"
        )

    def table(self) -> list[dict[str, Any]]:
        """Return a row for each combination and method; numbers at full precision."""
        rows = []
        for n in range(len(next(iter(self.parameters.values())))):
            given = {name: float(values[n]) for name, values in self.parameters.items()}
            for m, title in enumerate(self.methods.values()):
                measured = {key: float(values[n, m]) for key, values in self.values.items()}
                rows.append({**given, "method": title, **measured})
        return rows

    def to_frame(self) -> pandas.DataFrame:
        """Return the table as a pandas DataFrame: a row for each combination and method.

        Raises
        ------
        InputError
            If pandas is not installed.

        Examples
        --------
        >>> sweep = vp.rollout.open_parameter_sweep("rigid-body-sweep.h5")  # doctest: +SKIP
        >>> sweep.to_frame().pivot(  # doctest: +SKIP
        ...     index="method", columns="step", values="median_error"
        ... )
        """
        return frame_of(self.table())

    def save(self, path: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Write a file from which it can be drawn.

        Raises
        ------
        InputError
            If the file exists and ``overwrite`` is false, or cannot be written.
        """
        with create_hdf5(path, overwrite) as f:
            f.attrs["format"], f.attrs["format_version"] = FORMAT, FORMAT_VERSION
            f.attrs["title"], f.attrs["time"] = printable(self.title), self.time
            f.attrs["methods"] = json.dumps(self.methods)
            f.attrs["learned"] = json.dumps(self.learned)
            f.attrs["conditions"] = json.dumps(list(self.parameters))
            write_words(f, "method", list(self.methods), "method")
            numbers = np.arange(len(next(iter(self.parameters.values()))))
            Variable("combination", "number of the combination", _DIMS[:1], values=numbers).write(f)
            for n, (name, values) in enumerate(self.parameters.items()):
                Variable(f"condition_{n}", name, _DIMS[:1], values=values).write(f)
            for quantity in QUANTITIES:
                replace(quantity, values=self.values[quantity.name]).write(f)


@former_arguments(conditions="parameters")
def parameter_sweep(
    model: Integrator,
    against: str | Sequence[str | ClassicalMethod] | None = None,
    *,
    parameters: Mapping[str, float | Sequence[float]],
    time: float = 120.0,
    trajectories: int = 8,
    seed: int = 0,
    compiled: bool | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> ParameterSweep:
    """Compare the models that a family holds with classical methods, over steps and parameters.

    Parameters
    ----------
    model
        A trained family.
    against
        Names of classical methods, or methods of one's own; by default the implicit
        midpoint rule and RK4.
    parameters
        Values of the step and of parameters of the system; all combinations of them are taken.
        Parameters that are not named have the values of the system.
    time
        Time of each run.
    trajectories, seed
        Random initial states of each combination.
    compiled
        Whether models and methods run as machine code; by default wherever that is possible.
    progress
        Called with the parameters in words, combinations done, and all.

    Raises
    ------
    InputError
        Errors of ``model.at`` and :func:`vpintegrator.compare`.

    Examples
    --------
    >>> found = vp.rollout.parameter_sweep(  # doctest: +SKIP
    ...     model, "rk4", parameters={"step": [0.1, 0.2, 0.4]}, time=120.0
    ... )
    """
    check_integrator(model)
    of_kind("parameters", parameters, Mapping, "a dictionary of values by name")
    options = {"time": time, "trajectories": trajectories, "seed": seed}
    combinations = check_sweep(model, against, parameters, **options)
    columns: list[np.ndarray] = []
    report = None
    for done, given in enumerate(combinations):
        if progress:
            words = ", ".join(f"{name} = {value:g}" for name, value in given.items())
            progress(words, done, len(combinations))
        single = {model.name: model.at(**given)}
        report = compare(single, against, compiled=compiled, **options)
        columns.append(_measured(report))
    assert report is not None
    if progress:
        progress("", len(combinations), len(combinations))
    stacked = np.stack(columns)  # (combination, quantity, method)
    return ParameterSweep(
        title=report.system.title,
        time=time,
        parameters={
            name: np.array([each[name] for each in combinations]) for name in combinations[0]
        },
        methods={name: run.title for name, run in report.runs.items()},
        learned=[name for name, run in report.runs.items() if run.kind == "learned"],
        values={quantity.name: stacked[:, n] for n, quantity in enumerate(QUANTITIES)},
    )


def check_sweep(
    model: Integrator,
    against: str | Sequence[str | ClassicalMethod] | None,
    parameters: Mapping[str, float | Sequence[float]],
    **options: Any,
) -> list[dict[str, float]]:
    """Return all combinations of the parameters.

    Raises
    ------
    InputError
        If the parameters are wrong, or one of the combinations cannot be compared.
    """
    values = {name: np.atleast_1d(np.asarray(v, dtype=float)) for name, v in parameters.items()}
    whole_number("trajectories", options.get("trajectories", 1), 1)
    count = int(np.prod([len(v) for v in values.values()]))
    if not values or any(v.ndim != 1 or not len(v) for v in values.values()):
        raise InputError("parameters must name at least one parameter, with a value or several")
    if count > MOST:
        raise InputError(f"{count:,} combinations of parameters are more than {MOST:,}; give fewer")
    combinations = [
        dict(zip(values, map(float, each), strict=True))
        for each in itertools.product(*values.values())
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they are given when the combination is compared
        for given in combinations:
            prepare_comparison({model.name: model.at(**given)}, against, **options)
    return combinations


def _measured(report: Report) -> np.ndarray:
    """Return the quantities (quantity, method) of a comparison."""
    found = []
    for name in report.runs:
        summary = report.summary(name)
        first = report.errors(name)[:, 1] if report.every == 1 else np.array([np.nan])
        found.append(
            [
                float(np.median(first)),
                summary.error,
                summary.worst_error,
                summary.volume.get("step", np.nan) if summary.volume else np.nan,
                summary.seconds_per_step,
            ]
        )
    return np.array([[np.nan if v is None else v for v in row] for row in found]).T


def open_parameter_sweep(path: str | os.PathLike[str]) -> ParameterSweep:
    """Read a file of a parameter sweep.

    Parameters
    ----------
    path
        The HDF5 file.

    Raises
    ------
    InputError
        If there is no such file, or it is no sweep, or damaged.

    Examples
    --------
    >>> sweep = vp.rollout.open_parameter_sweep("rigid-body-sweep.h5")  # doctest: +SKIP
    """
    path = as_path("path", path)
    with open_hdf5(path, FORMAT, FORMAT_VERSION) as root:
        methods, learned = root.json("methods"), root.json("learned", list)
        names = root.json("conditions", list)
        texts = [*methods, *methods.values(), *learned, *names]
        if not methods or not names or not all(isinstance(text, str) for text in texts):
            raise InputError(f"{path}: methods and parameters must be named by texts")
        if not {*learned} <= methods.keys() or len({*names}) < len(names):
            raise InputError(f"{path}: the names of methods or parameters do not fit together")
        first = root.array("condition_0", (None,))
        if not len(first):
            raise InputError(f"{path}: there are no parameters")
        sizes = {"combination": len(first), "method": len(methods)}
        return ParameterSweep(
            title=root.text("title"),
            time=root.number("time", positive=True),
            parameters={
                name: root.array(f"condition_{n}", first.shape) for n, name in enumerate(names)
            },
            methods=methods,
            learned=learned,
            values=read_variables(root, QUANTITIES, sizes),
        )
