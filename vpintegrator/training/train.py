"""Training a neural integrator on a dataset: one loop for all optimizers."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import numpy as np
import torch

from vpintegrator.data import Dataset, open_dataset, windows
from vpintegrator.errors import InputError
from vpintegrator.models import Integrator
from vpintegrator.threads import torch_threads
from vpintegrator.training.errors import relative_error
from vpintegrator.training.first_order import Adam
from vpintegrator.training.levenberg_marquardt import LevenbergMarquardt

OPTIMIZERS = ("auto", "levenberg-marquardt", "adam")
DEFAULT_SECONDS = 150.0
LARGEST_SECOND_ORDER = 10_000  # parameters for which auto takes Levenberg-Marquardt
_CURVE_POINTS = 200
_VALIDATION_WINDOWS = 1000  # judged every epoch, which must stay cheap beside the epoch itself


class Optimizer(Protocol):
    """What the loop asks of an optimizer."""

    def epoch(self, progress: float) -> float:
        """Improve the model once; ``progress`` is the share of the budget used so far."""
        ...

    def observe(self, training_error: float, validation_error: float) -> None:
        """Learn how well the last epoch generalises."""
        ...


@dataclass
class History:
    """How a training went. Errors are relative, one window ahead.

    Attributes
    ----------
    epoch, seconds, training_error, validation_error
        One entry an epoch (for Levenberg-Marquardt an epoch is an iteration).
    best_epoch, best_validation_error
        Of the weights that were kept.
    test_error
        Of the kept weights on the dataset's test group; nan if that is empty.
    stopped_by
        ``epochs``, ``seconds``, ``interrupt`` or ``divergence``.
    optimizer, seed, parameters
        What was run: the optimizer's name, the seed, and the number of parameters.
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
    stopped_by: str = ""

    def summary(self) -> dict[str, Any]:
        """The same for a model file, the curves thinned to a few hundred points."""
        every = max(len(self.epoch) // _CURVE_POINTS, 1)
        values = asdict(self)
        for name in ("epoch", "seconds", "training_error", "validation_error"):
            values[name] = values[name][::every]
        return values


def train(
    model: Integrator,
    dataset: Dataset | str | os.PathLike[str],
    *,
    optimizer: str = "auto",
    seconds: float | None = None,
    epochs: int | None = None,
    batch: int | None = None,
    learning_rate: float | None = None,
    seed: int = 0,
    normalise: bool = True,
    device: str | torch.device = "cpu",
    threads: int = 1,
    progress: Callable[[History], None] | None = None,
) -> History:
    """Train ``model`` in place; it ends with the weights of least validation error.

    Parameters
    ----------
    model
        A neural integrator for states of the dataset's dimension.
    dataset
        A dataset or the path of one. All windows of its group ``train`` are used.
    optimizer
        ``levenberg-marquardt``, ``adam``, or ``auto``: the first up to 10,000 parameters in double
        precision, else the second.
    seconds, epochs
        The budget; training ends with whichever is used up first. 150 seconds if neither is given.
    batch
        Windows in a step; each optimizer has a default.
    learning_rate
        Of Adam, at the start.
    seed
        Of the choice and order of windows.
    normalise
        Set the model's normalisation to mean and standard deviation of the training states.
    device
        Where to train; the model stays there.
    threads
        Of torch on the CPU. One is the fastest for models as small as these, see
        :func:`vpintegrator.threads.torch_threads`.
    progress
        Called after every epoch.

    Returns
    -------
    History
        An interrupt (Ctrl-C) ends training early, and is noted there.

    Raises
    ------
    InputError
        If model and dataset do not fit, or an argument is wrong.
    """
    dataset = dataset if isinstance(dataset, Dataset) else open_dataset(dataset)
    if dataset.dim != model.dim:
        raise InputError(
            f"the model is for states of {model.dim} components, but {dataset.path} holds states "
            f"of {dataset.dim}; make the model with dim={dataset.dim}"
        )
    _require_budget(seconds, epochs)
    if seconds is None and epochs is None:
        seconds = DEFAULT_SECONDS
    start = time.perf_counter()
    name = _choose(optimizer, model)
    states = dataset.states("train")
    if normalise:
        shift, scale = states.mean((0, 1)), states.std((0, 1))
        model.set_normalisation(shift, np.where(scale > 0, scale, 1.0))
    model.to(device)
    inputs, targets = _pairs(model, states)
    held_out = _held_out(model, dataset)
    generator = torch.Generator().manual_seed(seed)
    options: dict[str, Any] = {} if batch is None else {"batch": batch}
    if learning_rate is not None:
        if name != "adam":
            raise InputError(f"learning_rate is an option of adam; {name} has none")
        options["learning_rate"] = learning_rate
    history = History(name, seed, sum(p.numel() for p in model.parameters()))
    with torch_threads(threads):
        make = Adam if name == "adam" else LevenbergMarquardt
        improve = make(model, inputs, targets, generator=generator, **options)
        model.load_state_dict(
            _best_weights(model, improve, held_out, history, start, seconds, epochs, progress)
        )
    if dataset.shapes.get("test", (0,))[0]:
        history.test_error = relative_error(model, *_pairs(model, dataset.states("test")))
    model.metadata.update(
        {
            "system": dataset.system.text,
            "system_name": dataset.system.name,
            "parameters": json.dumps(dataset.parameters),
            "step": repr(dataset.step),
            "dataset_fingerprint": dataset.fingerprint,
            "training": json.dumps(history.summary()),
        }
    )
    return history


def _best_weights(
    model: Integrator,
    optimizer: Optimizer,
    held_out: tuple[torch.Tensor, torch.Tensor],
    history: History,
    start: float,
    seconds: float | None,
    epochs: int | None,
    progress: Callable[[History], None] | None,
) -> dict[str, torch.Tensor]:
    """Train until the budget is used up or the user interrupts; fills the history on the way."""
    best = _weights(model)
    epoch = 0
    try:
        while not history.stopped_by:
            shares = [(time.perf_counter() - start) / seconds] if seconds else []
            shares += [epoch / epochs] if epochs else []
            training_error = optimizer.epoch(max(shares))
            epoch += 1
            error = relative_error(model, *held_out)
            optimizer.observe(training_error, error)
            used = time.perf_counter() - start
            history.epoch.append(epoch)
            history.seconds.append(used)
            history.training_error.append(training_error)
            history.validation_error.append(error)
            if error < history.best_validation_error:
                history.best_epoch, history.best_validation_error = epoch, error
                best = _weights(model)
            if epochs and epoch >= epochs:
                history.stopped_by = "epochs"
            elif seconds and used >= seconds:
                history.stopped_by = "seconds"
            elif not np.isfinite(error):
                history.stopped_by = "divergence"
            if progress:
                progress(history)
    except KeyboardInterrupt:
        history.stopped_by = "interrupt"
    return best


def _require_budget(seconds: float | None, epochs: int | None) -> None:
    if seconds is not None and not 0 < seconds < float("inf"):
        raise InputError(f"seconds = {seconds} must be positive")
    if epochs is not None and epochs < 1:
        raise InputError(f"epochs = {epochs} must be at least 1")


def _choose(optimizer: str, model: Integrator) -> str:
    if optimizer not in OPTIMIZERS:
        raise InputError(f"optimizer = '{optimizer}' is none of {', '.join(OPTIMIZERS)}")
    if optimizer != "auto":
        return optimizer
    count = sum(p.numel() for p in model.parameters())
    double = all(p.dtype == torch.float64 for p in model.parameters())
    return "levenberg-marquardt" if double and count <= LARGEST_SECOND_ORDER else "adam"


def _pairs(model: Integrator, states: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    """Windows as tensors of the model's dtype on its device."""
    inputs, targets = windows(states, model.window, model.prediction_window)
    return torch.from_numpy(inputs).to(model.scale), torch.from_numpy(targets).to(model.scale)


def _held_out(model: Integrator, dataset: Dataset) -> tuple[torch.Tensor, torch.Tensor]:
    if not dataset.shapes.get("validation", (0,))[0]:
        raise InputError(
            f"{dataset.path} has no validation trajectories, by which the best weights are chosen; "
            "generate it with some in [trajectories]"
        )
    inputs, targets = _pairs(model, dataset.states("validation"))
    chosen = torch.linspace(0, len(inputs) - 1, min(len(inputs), _VALIDATION_WINDOWS)).long()
    return inputs[chosen], targets[chosen]


def _weights(model: Integrator) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}
