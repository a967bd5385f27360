"""Studies: trainings of all combinations of some quantities and of several seeds."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vpintegrator.arguments import as_path, not_negative, one_of, positive, whole
from vpintegrator.compiled import machine_code
from vpintegrator.data import Dataset, DatasetPart, open_dataset
from vpintegrator.errors import InputError, nearest, printable
from vpintegrator.measure import repeat_states, seconds_per_step
from vpintegrator.models import ARCHITECTURES, Model, load
from vpintegrator.models.saving import save_somewhere
from vpintegrator.models.stored import arguments_of, as_json
from vpintegrator.names import OPTIMIZERS
from vpintegrator.runtime import pool
from vpintegrator.storage.files import check_output, disk_errors, locked, safe_name
from vpintegrator.storage.studies import (
    RECORD,
    StudyRecord,
    is_study,
    read_study,
    thinned,
    write_study,
)
from vpintegrator.training.fit import fit
from vpintegrator.training.kinds import Network
from vpintegrator.training.options import Budget, TrainingOptions
from vpintegrator.training.training_data import TrainingData

if TYPE_CHECKING:
    import pandas as pd
    from distributed import Client

LIMITS = ("seconds", "epochs")
TRAINING = ("optimizer", "batch", "learning_rate")
GIVEN = ("dim", "dtype", "parameters", "reversing_symmetries", "periodic")  # by the data
DATA = ("count", "noise")  # training trajectories; deviation of noise relative to the spread
_COSTS = 0.04  # of the seconds of all trainings: what measuring the costs of a step may take
_LEAST = 5.0  # seconds for that


def study(
    dataset: Dataset | str | os.PathLike[str],
    model: str | None = None,
    *,
    vary: Mapping[str, Sequence[Any]],
    folder: str | os.PathLike[str],
    arguments: Mapping[str, Any] | None = None,
    seeds: int = 1,
    seed: int = 0,
    seconds: float | None = None,
    epochs: int | None = None,
    optimizer: str = "auto",
    batch: int | None = None,
    learning_rate: float | None = None,
    reversible: bool | None = None,
    equations: bool = False,
    workers: int = 1,
    scheduler: str | os.PathLike[str] | Client | None = None,
    overwrite: bool = False,
    progress: Callable[[dict[str, Any], int, int], object] | None = None,
) -> tuple[pd.DataFrame, list[Model | None]]:
    """Train all combinations of some quantities, each with several seeds.

    The folder has a file of each model, ``study.csv`` with a row for each training, and
    ``study.json``. A study that was interrupted goes on when it is called again with the same
    arguments; more values and more seeds may be given then.

    Parameters
    ----------
    dataset
        A dataset or its path.
    model
        Name of an architecture; None where ``vary`` has ``model``.
    vary
        Values by name: of arguments of the models, ``model``, ``count`` (training trajectories),
        ``noise`` (Gaussian, on training and validation states, relative to their spread),
        ``seconds``, ``epochs``, ``optimizer``, ``batch`` and ``learning_rate``.
    folder
        Folder of the study; it is made if need be.
    arguments
        Other arguments of the models.
    seeds, seed
        Number of seeds for each combination, and the first one.
    seconds, epochs
        Limits of each training; 150 seconds if none is given.
    optimizer, batch, learning_rate
        Arguments of :func:`vpintegrator.train`.
    reversible
        Argument of :func:`vpintegrator.models.build`.
    equations
        Whether the equations of the dataset's system may be used.
    workers, scheduler
        Processes on this machine, each of one thread; or a dask scheduler, as for
        :func:`vpintegrator.generate`.
    overwrite
        Whether a study in the folder is begun anew.
    progress
        Called with the row of each training that ends, the number of those done, and of all.

    Returns
    -------
    pandas.DataFrame
        A row for each training: the varied quantities and ``seed``, ``error`` on the test group
        (or the validation group where there is none) and its ``deviation``, ``validation_error``,
        ``seconds``, ``epochs``, ``parameters``, ``cost`` (seconds of a step), ``file``.
    list of Model or None
        The trained models in this order; None where a training has learned nothing.

    Raises
    ------
    InputError
        If a name is unknown or given twice, a combination cannot be trained, or the folder holds
        another study.

    Examples
    --------
    >>> dataset = vp.generate("pendulum", "pendulum.h5", count=20, steps=5, overwrite=True)
    >>> vary = {"width": [2, 4], "count": [5, 10]}
    >>> frame, models = vp.study(dataset, "hnn", vary=vary, folder="study", epochs=3)
    >>> list(frame[["width", "count"]].itertuples(index=False, name=None)), len(models)
    ([(2, 5), (2, 10), (4, 5), (4, 10)], 4)
    """
    workers = pool.check_workers(workers, scheduler)
    path = dataset.path if isinstance(dataset, Dataset) else as_path("dataset", dataset)
    data = open_dataset(path)
    shared = {
        "model": model,
        "arguments": {name: as_json(value) for name, value in (arguments or {}).items()},
        "reversible": reversible,
        "equations": equations,
        "seconds": seconds,
        "epochs": epochs,
        "optimizer": optimizer,
        "batch": batch,
        "learning_rate": learning_rate,
    }
    varied = check_varied(shared, vary)
    first = whole("seed", seed, 0)
    record = StudyRecord(
        shared | {"dataset": os.fspath(path), "fingerprint": data.fingerprint},
        varied,
        [*range(first, first + whole("seeds", seeds))],
    )
    folder = as_path("folder", folder)
    tasks = [*_tasks(record, folder)]
    record.rows = [] if overwrite else _known_rows(folder, record, tasks)
    _check(tasks, data)
    with disk_errors(folder):
        folder.mkdir(exist_ok=True)
    with locked(folder / RECORD):
        _run(record, tasks, folder, workers, scheduler, progress)
    rows = {record.key(row): row for row in record.rows}
    ordered = [rows[record.key(task.row)] for task in tasks]
    import pandas as pd

    models = [load(folder / row["file"]) if row["file"] else None for row in ordered]
    return pd.DataFrame(ordered, columns=record.columns), models


def check_varied(
    settings: Mapping[str, Any], vary: Mapping[str, Sequence[Any]]
) -> dict[str, list[Any]]:
    """Return the values of each varied quantity by name.

    Raises
    ------
    InputError
        If a name is unknown or given otherwise, too, or there are no values, or one twice.
    """
    model = settings["model"]
    if not isinstance(vary, Mapping) or not vary:
        raise InputError("a study varies something: give a name and its values")
    if (model is None) != ("model" in vary):
        raise InputError("a study needs a model, or varies it: give one of both")
    names = [model] if model is not None else [*vary["model"]]
    declared = {name: arguments_of(ARCHITECTURES.find(name)) for name in names}
    arguments = set[str]().union(*declared.values()) - {*GIVEN}
    known = {*DATA, *LIMITS, *TRAINING, "model"} | arguments
    result = {}
    for name, given in vary.items():
        if name not in known:
            words = f"; it may be {', '.join(sorted(known))}"
            raise InputError(f"a study cannot vary '{name}'{nearest(name, known) or words}")
        for each in declared if name in arguments else ():
            if name not in declared[each]:
                raise InputError(f"a study cannot vary {name}: {each} has no such argument")
        default = "auto" if name == "optimizer" else None
        if name in settings["arguments"] or settings.get(name, default) != default:
            raise InputError(f"a study varies {name}: do not give it a value, too")
        values = [given] if isinstance(given, str) else [*given]
        if not values or len({*map(repr, values)}) < len(values):
            raise InputError(f"a study needs values of {name}, each of them once")
        for value in values:
            _check_value(name, value)
        result[name] = values
    return result


def _check_value(name: str, value: Any) -> None:
    """Raise InputError for a value that cannot be one; those of models are checked by them."""
    if value is not None and not isinstance(value, bool | int | float | str):
        raise InputError(f"a study varies numbers and words, but {name} has the value {value!r}")
    if name == "noise":
        not_negative(name, value)
    elif name in ("seconds", "learning_rate"):
        positive(name, value)
    elif name in ("count", "epochs", "batch"):
        whole(name, value)
    elif name == "optimizer":
        one_of(name, str(value), OPTIMIZERS)


@dataclass(frozen=True)
class StudyTask:
    """A training of a study.

    Attributes
    ----------
    path
        File of its model.
    settings
        Dataset, model, arguments, budget and optimizer.
    row
        Values of the varied quantities, and the seed.
    """

    path: Path
    settings: dict[str, Any]
    row: dict[str, Any]

    def kind(self) -> Network:
        """Return the kind of maps that trains the one model."""
        names = ("optimizer", "batch", "learning_rate")
        training = {name: value for name in names if (value := self.settings[name]) is not None}
        return Network(
            self.settings["arguments"],
            self.settings["reversible"],
            architecture=self.settings["model"],
            training=TrainingOptions(**training),
        )

    def data(self, dataset: Dataset) -> Dataset:
        """Return the part of a dataset that it is trained on."""
        count = self.settings.get("count")
        noise = self.settings.get("noise", 0.0)
        if count is None and not noise:
            return dataset
        return DatasetPart(dataset, count, noise, self.row["seed"])


def _tasks(record: StudyRecord, folder: Path) -> Iterator[StudyTask]:
    """Yield the trainings of a study, in order."""
    outer = {*DATA, *LIMITS, *TRAINING, "model"}
    for values in itertools.product(*record.varied.values()):
        point = dict(zip(record.varied, values, strict=True))
        settings = record.settings | {k: v for k, v in point.items() if k in outer}
        arguments = {k: v for k, v in point.items() if k not in outer}
        settings["arguments"] = record.settings["arguments"] | arguments
        for seed in record.seeds:
            row = point | {"seed": seed}
            stem = "_".join(f"{name}-{safe_name(str(value))}" for name, value in row.items())
            yield StudyTask(folder / f"{stem}.safetensors", settings, row)


def _known_rows(
    folder: Path, record: StudyRecord, tasks: Sequence[StudyTask]
) -> list[dict[str, Any]]:
    """Return the rows of the trainings that a folder has already.

    Raises
    ------
    InputError
        If the folder holds another study, or files of the same names.
    """
    if not is_study(folder):
        for task in tasks if folder.is_dir() else ():
            check_output(task.path, False)
        return []
    known = read_study(folder)
    differences = [
        name
        for name in record.settings
        if name != "dataset" and known.settings.get(name) != record.settings[name]
    ]
    if {*known.varied} != {*record.varied}:
        differences.append("what varies")
    if differences:
        raise InputError(
            f"{folder} holds another study, which differs in {differences[0]}; choose another "
            "folder, or allow replacing it with --overwrite (overwrite=True in Python)"
        )
    for name, values in record.varied.items():
        more = [value for value in values if value not in known.varied[name]]
        record.varied[name] = known.varied[name] + more
    record.seeds = sorted({*known.seeds, *record.seeds})
    return [row for row in known.rows if not row["file"] or (folder / row["file"]).is_file()]


def _check(tasks: Sequence[StudyTask], dataset: Dataset) -> None:
    """Raise InputError if a model cannot be built, or the data do not suffice for it."""
    for task in tasks:
        if task.row["seed"] != tasks[0].row["seed"]:
            continue
        Budget(task.settings["seconds"], task.settings["epochs"])
        part = task.data(dataset)
        known = TrainingData(part, task.settings["equations"])
        kind = task.kind()
        model = kind.build(known, kind.architecture, 0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # each training says it
            known.check(model)
        for group, (count, times, _) in part.shapes.items():
            if group == "train" and count and times < model.window + model.prediction_window:
                raise InputError(
                    f"{dataset.path} has trajectories of {times} states, too few for windows of "
                    f"{model.window} states and the next {model.prediction_window}"
                )


def _run(
    record: StudyRecord,
    tasks: Sequence[StudyTask],
    folder: Path,
    workers: int,
    scheduler: str | os.PathLike[str] | Client | None,
    progress: Callable[[dict[str, Any], int, int], object] | None,
) -> None:
    """Train what is missing, and keep the record after each training."""
    finished = {record.key(row) for row in record.rows}
    missing = [task for task in tasks if record.key(task.row) not in finished]
    done = len(tasks) - len(missing)
    write_study(folder, record)
    start = time.perf_counter()
    results = pool.map(_train, missing, workers=workers, scheduler=scheduler)
    with contextlib.closing(results):
        for row in results:
            record.rows.append(row)
            write_study(folder, record)
            done += 1
            if progress:
                progress(row, done, len(tasks))
    spent = time.perf_counter() - start
    limit = max(_COSTS * spent, _LEAST) if missing else math.inf
    if _measure_costs(record, folder, open_dataset(tasks[0].settings["dataset"]), limit):
        write_study(folder, record)


@lru_cache(maxsize=1)
def _opened(path: str) -> Dataset:
    """Return a dataset that all trainings of a process read."""
    return open_dataset(path)


def _train(task: StudyTask) -> dict[str, Any]:
    """Train and write one model, and return its row."""
    settings = task.settings
    row: dict[str, Any] = task.row | {"model": settings["model"], "cost": math.nan}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they are in the history
            result = fit(
                task.data(_opened(settings["dataset"])),
                [task.kind()],
                seconds=settings["seconds"],
                epochs=settings["epochs"],
                equations=settings["equations"],
                seed=task.row["seed"],
                progress=False,
            )
    except InputError as error:  # a training that learns nothing ends no study
        return row | _NOTHING | {"note": printable(str(error))}
    if result.stopped_by == "interrupt":
        raise KeyboardInterrupt
    history = result.history
    is_tested = math.isfinite(history.test_error)
    save_somewhere(result.model, task.path, True)
    return row | {
        "error": history.test_error if is_tested else result.error,
        "deviation": history.test_deviation if is_tested else result.deviation,
        "validation_error": result.error,
        "seconds": result.seconds,
        "epochs": history.epochs,
        "parameters": result.parameters,
        "stopped_by": result.stopped_by,
        "note": history.warning,
        "file": task.path.name,
        "curve": thinned(history.seconds, history.validation_error),
    }


_NOTHING = {
    **dict.fromkeys(("error", "deviation", "validation_error"), math.inf),
    **dict.fromkeys(("seconds", "epochs", "parameters"), 0),
    **dict.fromkeys(("stopped_by", "note", "file"), ""),
    "curve": [],
}


def _measure_costs(record: StudyRecord, folder: Path, dataset: Dataset, limit: float) -> int:
    """Measure the cost of a step of each architecture once, within a limit; return how many."""
    inner = [name for name in record.varied if name not in {*DATA, *LIMITS, *TRAINING}]
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in record.rows:
        if row["file"]:
            groups.setdefault(repr([row[name] for name in inner]), []).append(row)
    start = time.perf_counter()
    longest = 0.0
    count = 0
    for rows in groups.values():
        known = [row["cost"] for row in rows if math.isfinite(row["cost"])]
        begun = time.perf_counter()
        if not known and begun - start + longest < limit:
            known = [_cost(load(folder / rows[0]["file"]), dataset)]
            longest = max(longest, time.perf_counter() - begun)
        for row in rows if known else ():
            count += row["cost"] != known[0]
            row["cost"] = known[0]
    return count


def _cost(model: Model, dataset: Dataset) -> float:
    """Return the processor seconds of a step of one state, as machine code if possible."""
    group = "test" if dataset.shapes.get("test", (0, 0))[0] else "train"
    states = dataset.states(group, slice(64), slice(model.window))  # (trajectory, window, dim)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a model that stays in PyTorch
        machine = machine_code(model, states)
    batch = repeat_states(states)
    runs = {model.name: lambda steps: next(machine.advance(batch, steps))}
    return seconds_per_step(runs)[model.name]
