"""What the reproductions of published studies share: train, roll out, compare, draw, tabulate.

A study's script says which data, networks and orbits are its own; :func:`reproduce` does the rest
with the public Python API.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from matplotlib.figure import Figure
from study_table import Row, comma_separated, latex, markdown, terminal

import vpintegrator as vp
from vpintegrator.cli.common import console, overwrite_option, progress_bar
from vpintegrator.data import Dataset
from vpintegrator.dynamics import System
from vpintegrator.errors import InputError
from vpintegrator.models import Integrator
from vpintegrator.plotting.scene import Scene
from vpintegrator.rollout import Report
from vpintegrator.storage.files import check_output, replacing

SECONDS, QUICK_SECONDS = 120.0, 2.0
FIGURE = ("png", "pdf")
TABLE = ("md", "tex", "csv")

# Adam as published: first rate and loss, on states as they are. The published rate falls
# exponentially, to 1e-6, over thousands of epochs; here it falls along half a cosine over the same
# seconds that every network gets.
PUBLISHED_TRAINING: dict[str, Any] = {
    "optimizer": "adam",
    "learning_rate": 1e-2,
    "loss": "relative",
    "normalise": False,
}


@dataclass(frozen=True)
class Network:
    """A network of the study, and whether it was published or is ours."""

    make: Callable[[System], Integrator]
    published: bool
    note: str  # sizes and source


@dataclass(frozen=True)
class Literature:
    """What is known of a network as its authors trained it."""

    name: str
    parameters: int
    error: float
    rmse: tuple[float, ...]  # of each orbit


@dataclass(frozen=True)
class Study:
    """A published study, as far as it differs from others.

    Attributes
    ----------
    title, source
        For the table.
    recipe, changes
        Dataset recipe, and what replaces its values: arguments of :func:`vpintegrator.generate`.
    networks
        By the name they have in tables, figures and files.
    against
        Names of classical methods.
    beside
        The one of them that has a panel in the study's figure.
    orbits
        Initial states by the name they have in the table.
    time
        How long to run.
    batch
        Windows in a batch of the published training.
    draw
        Makes the study's own figure.
    literature, notes
        Published values, and what else the reader of the table should know.
    """

    title: str
    source: str
    recipe: str
    networks: Mapping[str, Network]
    against: Sequence[str]
    beside: str
    orbits: Mapping[str, Sequence[float]]
    time: float
    batch: int
    draw: Callable[[Scene], Figure]
    changes: Mapping[str, Any] = field(default_factory=dict)
    literature: Sequence[Literature] = ()
    notes: Sequence[str] = ()


def options(folder: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The options that every reproduction has."""
    decorators = [
        click.option(
            "--seconds",
            type=click.FloatRange(min=0, min_open=True),
            help=f"Training of each network.  [default: {SECONDS:g}]",
        ),
        click.option("--quick", is_flag=True, help=f"A try-out: --seconds {QUICK_SECONDS:g}."),
        click.option(
            "--published-training",
            is_flag=True,
            help="Train the published networks with Adam as published, not with our optimizer.",
        ),
        click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True),
        click.option(
            *("-o", "--output"),
            default=folder,
            show_default=True,
            type=click.Path(path_type=Path, file_okay=False),
            help="Folder to write to. Networks that it holds already are used again.",
        ),
        overwrite_option,
    ]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        for option in reversed(decorators):
            command = option(command)
        return command

    return decorate


def reproduce(
    study: Study,
    output: Path,
    seconds: float | None = None,
    quick: bool = False,
    published_training: bool = False,
    seed: int = 0,
    overwrite: bool = False,
) -> Report:
    """Repeat a study: dataset, networks, rollout, figures and table, all written to a folder.

    A network that the folder holds already is used again if it is what would be trained now:
    the same architecture, data, seconds, seed and way of training.

    Raises
    ------
    InputError
        If the folder holds something else and ``overwrite`` is false.
    """
    if quick and seconds is not None:
        raise InputError("give --quick or --seconds, not both")
    seconds = seconds or (QUICK_SECONDS if quick else SECONDS)
    out = console()
    check_folder(output, overwrite)
    data = dataset(study, output, overwrite)
    again = "" if data.fresh else " (used again)"
    out.print(f"data: {output / 'dataset.h5'}{again}", soft_wrap=True)
    batch = study.batch if published_training else None
    jobs = [
        Job(name, network, output, data.opened, seconds, seed, batch)
        for name, network in study.networks.items()
    ]
    models = {} if overwrite else {job.name: model for job in jobs if (model := job.stored())}
    with progress_bar() as bar:
        for job in jobs:
            found = job.name in models
            model = models[job.name] if found else job.train(bar)
            models[job.name] = model
            bar.console.print(describe(job, model, found), soft_wrap=True)
        tasks: dict[str, Any] = {}

        def show(method: str, done: int, total: int) -> None:
            if method not in tasks:
                tasks[method] = bar.add_task(method, total=total)
            bar.update(tasks[method], completed=done, total=total)

        report = vp.compare(
            {name: models[name] for name in study.networks},
            against=study.against,
            initial=np.array(list(study.orbits.values())),
            time=study.time,
            progress=show,
        )
    report.save(output / "rollout.h5", overwrite=True)
    title, rows = f"{study.title}, to t = {study.time:g}", table(study, report, models)
    notes = remarks(study, models)
    text = {
        "md": markdown(title, rows, notes),
        "tex": latex(rows),
        "csv": comma_separated(rows),
    }
    scene = Scene(report)
    with scene.style.applied():
        figure = study.draw(scene)
        way = "as published" if published_training else "our way"
        trained = f"published networks trained {way}, {seconds:g} s each"
        figure.suptitle(f"{study.title}: {trained}", fontsize="medium", fontweight="bold")
        for suffix in FIGURE:
            with replacing(output / f"study.{suffix}", overwrite=True) as temporary:
                figure.savefig(temporary, format=suffix)
    for suffix in TABLE:
        with replacing(output / f"table.{suffix}", overwrite=True) as temporary:
            temporary.write_text(text[suffix], encoding="utf-8")
    vp.draw(report, output / "figures", overwrite=True)
    ours = [name for name, network in study.networks.items() if not network.published]
    out.print(terminal(title, rows, ours, out.width))
    out.print(*notes, sep="\n", soft_wrap=True)
    out.print(f"table, figures and networks are in {output}", soft_wrap=True)
    return report


def check_folder(folder: Path, overwrite: bool) -> None:
    """Make the folder, and see that results there are a study's, whose replacement is meant."""
    if not folder.parent.is_dir():
        raise InputError(f"cannot make {folder}: the folder {folder.parent} does not exist")
    folder.mkdir(exist_ok=True)
    ours = overwrite or (folder / "dataset.h5").exists()
    names = ["rollout.h5", *(f"study.{x}" for x in FIGURE), *(f"table.{x}" for x in TABLE)]
    for name in names:
        check_output(folder / name, ours)


@dataclass(frozen=True)
class Data:
    """The study's data, and whether they were generated just now."""

    opened: Dataset
    fresh: bool


def dataset(study: Study, folder: Path, overwrite: bool) -> Data:
    """The study's data: those in the folder, or generated anew."""
    path = folder / "dataset.h5"
    recipe = vp.load_recipe(study.recipe, **study.changes)
    if path.exists() and not overwrite:
        found = vp.open_dataset(path)
        if found.recipe != recipe.text:
            raise InputError(
                f"{path} holds other data than those of this study; name another folder, or allow "
                "replacing all of it with --overwrite"
            )
        return Data(found, fresh=False)
    return Data(vp.generate(recipe, path, overwrite=overwrite), fresh=True)


@dataclass(frozen=True)
class Job:
    """One network to train."""

    name: str
    network: Network
    folder: Path
    data: Dataset
    seconds: float
    seed: int
    batch: int | None  # of the published training, if that is asked for

    @property
    def path(self) -> Path:
        return self.folder / f"{self.name.replace(' ', '-').lower()}.safetensors"

    @property
    def as_published(self) -> bool:
        return self.batch is not None and self.network.published

    @property
    def settings(self) -> dict[str, Any]:
        """What decides how good the network gets, stored beside it."""
        training = "as published" if self.as_published else "ours"
        return {"seconds": self.seconds, "seed": self.seed, "training": training}

    def make(self) -> Integrator:
        torch.manual_seed(self.seed)
        return self.network.make(self.data.system)

    def train(self, bar: Any) -> Integrator:
        """Train the network and write it to its file."""
        model = self.make()
        task = bar.add_task(self.name, total=self.seconds)

        def show(h: Any) -> None:
            error = f"{self.name}: error {h.best_validation_error:.1e}"
            bar.update(task, completed=min(h.used, self.seconds), description=error)

        extra = PUBLISHED_TRAINING | {"batch": self.batch} if self.as_published else {}
        history = vp.train(
            model, self.data, seconds=self.seconds, seed=self.seed, progress=show, **extra
        )
        bar.remove_task(task)
        if history.stopped_by == "interrupt":
            raise KeyboardInterrupt  # half a training makes no line of the table
        model.metadata["study"] = json.dumps(self.settings)
        vp.save(model, self.path, overwrite=True)
        return model

    def stored(self) -> Integrator | None:
        """The network that the folder holds, if it holds one.

        Raises
        ------
        InputError
            If it is not the one that would be trained now.
        """
        if not self.path.exists():
            return None
        model = vp.load(self.path)
        settings = json.loads(model.metadata.get("study", "{}"))
        differs = [
            f"{k} = {settings.get(k)}" for k, v in self.settings.items() if settings.get(k) != v
        ]
        if json.dumps(model.arguments) != json.dumps(self.make().arguments):
            differs.append("other sizes")
        if model.metadata.get("dataset_fingerprint") != self.data.fingerprint:
            differs.append("other data")
        if differs:
            raise InputError(
                f"{self.path} was trained otherwise ({', '.join(differs)}); name another folder, "
                "or allow training anew with --overwrite"
            )
        return model


def history(model: Integrator) -> dict[str, Any]:
    """How the training of a model went."""
    return json.loads(model.metadata["training"])


def describe(job: Job, model: Integrator, found: bool) -> str:
    """A line for the terminal."""
    line = f"{job.name}: relative error {history(model)['test_error']:.1e}"
    return f"{line} (used again: {job.path})" if found else line


def table(study: Study, report: Report, models: Mapping[str, Integrator]) -> list[Row]:
    """The networks, what is published of them, and the classical methods, in numbers."""
    rows = []
    for name, run in report.runs.items():
        summary, model = report.summary(name), models.get(name)
        row: Row = {"method": run.title, "parameters": None, "training": None, "error": None}
        if model is not None:
            trained = history(model)
            row["parameters"] = trained["parameters"]
            row["training"] = json.loads(model.metadata["study"])["training"]
            row["error"] = trained["test_error"]
        for orbit, error in zip(study.orbits, run.root_mean_square_error, strict=True):
            row[f"RMSE {orbit}"] = float(error)
        for key, value in summary.invariants.items():
            row[key.replace("_", " ")] = value
        row["volume"] = summary.volume.get("step")
        row["time per step"] = summary.seconds_per_step
        rows.append(row)
        rows += [
            dict.fromkeys(row)
            | {"method": f"{known.name}, published", "training": "authors"}
            | {"parameters": known.parameters, "error": known.error}
            | {f"RMSE {k}": v for k, v in zip(study.orbits, known.rmse, strict=True)}
            for known in study.literature
            if known.name == name
        ]
    return rows


def remarks(study: Study, models: Mapping[str, Integrator]) -> list[str]:
    """What the reader of the table should know."""
    settings = [json.loads(model.metadata["study"]) for model in models.values()]
    seconds, seed = settings[0]["seconds"], settings[0]["seed"]
    optimizers = {
        history(model)["optimizer"]
        for model, s in zip(models.values(), settings, strict=True)
        if s["training"] == "ours"
    }
    lines = [
        f"training ours: {' or '.join(sorted(optimizers))}, {seconds:g} s on one thread in double "
        f"precision, seed {seed}",
    ]
    if any(s["training"] == "as published" for s in settings):
        lines.append(
            "training as published: Adam on the relative error, rate 1e-2, batches of "
            f"{study.batch}, no normalisation; but for the same {seconds:g} s, in double "
            "precision, and with a rate that falls along half a cosine"
        )
    lines += [
        "error: relative, of the new states one window ahead, test group",
        "RMSE: over all components and times to the end, against an accurate solution; "
        + "; ".join(f"{name} starts from {_state(z)}" for name, z in study.orbits.items()),
        "invariants: largest change, relative to the start; volume: largest |log|det|| of one "
        "step, or of one window",
    ]
    lines += [f"{name}: {network.note}" for name, network in study.networks.items()]
    return [*lines, *study.notes, f"Source: {study.source}"]


def _state(components: Sequence[float]) -> str:
    return "(" + ", ".join(f"{x:.4g}" for x in components) + ")"
