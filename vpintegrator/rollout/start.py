"""Start of a comparison: its system, its initial states, and states to compare with."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vpintegrator.arguments import check_integrator, of_kind, whole_number
from vpintegrator.dynamics import System, load_system
from vpintegrator.errors import InputError
from vpintegrator.rollout.arguments import Start
from vpintegrator.rollout.classical.integrate import check_initial
from vpintegrator.rollout.flow import trained_step
from vpintegrator.rollout.memory import check_memory
from vpintegrator.storage.reading import read_json

if TYPE_CHECKING:
    from vpintegrator.data import Dataset
    from vpintegrator.models import Integrator


@dataclass(frozen=True)
class Origin:
    """Initial states of the methods, and given states to compare with.

    Attributes
    ----------
    initial
        Initial states, (trajectory, dim).
    reference
        States to compare with, (trajectory, time, dim), beginning with the initial states; None if
        they are to be solved for.
    seed
        Seed of the initial states, None if they were given.
    """

    initial: np.ndarray
    reference: np.ndarray | None = None
    seed: int | None = None


def find_origin(
    start: Start, models: Mapping[str, Integrator], system: System, window: int
) -> Origin:
    """Return the origin for ``start``; ``window`` is the longest window of the models.

    Raises
    ------
    InputError
        If ``start`` contradicts itself, does not fit the models and the system, or a dataset cannot
        be read.
    """
    initial, reference = start.initial, start.reference
    if isinstance(reference, str) and reference == "solution":
        system.require_equations("--reference solution")
        reference = None
    recorded = isinstance(reference, str) and reference == "dataset"
    if recorded or start.dataset is not None:
        if initial is not None or not (recorded or reference is None):
            raise InputError("a dataset holds the first states; leave out others")
        dataset = recorded_dataset(models) if start.dataset is None else start.dataset
        whole_states = recorded or system.is_measured
        count = whole_number("trajectories", start.trajectories, 1)
        found = states_of_dataset(dataset, models, count, whole_states)
        initial, reference = (None, found) if whole_states else (found, None)
    if reference is not None:
        if initial is not None or start.first_window != "reference":
            raise InputError("a reference that is given holds the first states; leave out initial")
        reference = given_reference(system, reference, window)
        return Origin(reference[:, 0], reference)
    if system.is_measured:
        return Origin(initial_of_measured(system, initial, window))
    initial, seed = initial_states(system, initial, start.trajectories, start.seed)
    return Origin(initial, seed=seed)


def find_system(models: Mapping[str, Integrator], system: System | str | None) -> System:
    if isinstance(system, System):
        return system
    if system is not None:
        return load_system(system)
    found: dict[str, tuple[str, str]] = {}
    for name, model in models.items():
        text = model.metadata.get("system")
        if text is None:
            raise InputError(
                f"the model {name} does not say which system it was trained on; give system"
            )
        found[name] = (text, model.metadata.get("parameters", "{}"))
    if not found:
        raise InputError("without a model, give the system")
    first, (text, parameters) = next(iter(found.items()))
    for other, origin in found.items():
        if origin != (text, parameters):
            raise InputError(
                f"the models {first} and {other} were trained on different systems or parameters; "
                "compare them one at a time, or give the system"
            )
    system_name = models[first].metadata.get("system_name")
    source = f"system of the model {first}"
    return System(text, system_name, read_json(parameters, f"{source}, parameters"), source=source)


def check_agreement(models: Mapping[str, Integrator], system: System) -> None:
    """Raise InputError if a model was trained on another system, or with other parameters.

    A model without metadata, imported or trained in code of one's own, agrees with any system.
    """
    for name, model in models.items():
        if "system" not in model.metadata:
            continue
        own = find_system({name: model}, None)
        if own.text != system.text or own.definitions != system.definitions:
            what = "parameters" if own.text == system.text else "system"
            raise InputError(
                f"the model {name} was trained on {own.name} and holds it, with other {what} than "
                f"those of the {system.name} given; leave out the system and its parameters, or "
                "give only what sets the number of bodies (-p n=64)"
            )


def initial_states(
    system: System, initial: Any, trajectories: int, seed: int
) -> tuple[np.ndarray, int | None]:
    """Return initial states (trajectory, dim), and the seed if they are drawn."""
    if initial is not None:
        return check_initial(system, initial), None
    count = whole_number("trajectories", trajectories, 1)
    check_memory(f"{count:,} initial states", count * system.dim, "take fewer trajectories")
    return system.sample_initial(count, np.random.default_rng(seed)), seed


def given_reference(system: System, reference: Any, window: int) -> np.ndarray:
    """Return given states to compare with, (trajectory, time, dim), with known first windows.

    Raises
    ------
    InputError
        If they have another shape, or no trajectory begins with a whole window.
    """
    try:
        states = np.asarray(reference, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("reference is not an array of numbers") from None
    if states.ndim != 3 or states.shape[2] != system.dim or 0 in states.shape:
        raise InputError(
            f"reference has shape {states.shape}, but states of {system.name} have shape "
            f"(trajectory, time, {system.dim})"
        )
    if states.shape[1] < window + 1:
        raise InputError(
            f"reference has {states.shape[1]} times, but a model reads {window} states and "
            f"predicts the next; give {window + 1} times or more"
        )
    states = states[np.isfinite(states[:, :window]).all(axis=(1, 2))]
    if not len(states):
        raise InputError(
            f"no trajectory of the reference begins with {window} states that are all observed"
        )
    seen = np.flatnonzero(np.isfinite(states).any(axis=(0, 2)))
    return states[:, : seen[-1] + 1]


def initial_of_measured(system: System, initial: Any, window: int) -> np.ndarray:
    """Return initial states for a system without equations and without a reference."""
    if initial is None:
        raise InputError(
            f"{system.name} was measured, so there are no random initial states; start from the "
            "measured ones with --dataset (reference=... in Python)"
        )
    if window > 1:
        raise InputError(
            f"a model reads {window} states, and no equations of {system.name} are known that "
            "make them from the first; start from measured ones with --dataset (reference=... in "
            "Python)"
        )
    return check_initial(system, initial)


def states_of_dataset(
    dataset: Dataset | str | os.PathLike[str],
    models: Mapping[str, Integrator],
    trajectories: int,
    whole: bool,
) -> np.ndarray:
    """Return the first test trajectories of a dataset, (trajectory, time, dim).

    If ``whole`` is false, return their initial states, (trajectory, dim), where these were
    observed.

    Raises
    ------
    InputError
        If the dataset cannot be read, or does not fit the models.
    """
    from vpintegrator.data import Dataset, open_dataset

    data = dataset if isinstance(dataset, Dataset) else open_dataset(dataset)
    for name, model in models.items():
        if model.dim != data.dim:
            raise InputError(
                f"{name} is for states of {model.dim} components, but {data.path} holds states of "
                f"{data.dim}"
            )
    if not data.shapes.get("test", (0,))[0]:
        raise InputError(f"{data.path} has no test trajectories to start from")
    if whole and data.is_family:
        raise InputError(
            f"trajectories of {data.path} have steps or parameters of their own, so a model of one "
            "condition is not compared with them; give initial states (--initial), or data of one "
            "step and one set of parameters"
        )
    if whole:
        for name, model in models.items():
            step = trained_step(model, name) or data.step
            if not math.isclose(step, data.step, rel_tol=1e-12):
                raise InputError(
                    f"{name} was trained for the step {step:g}, but that of {data.path} is "
                    f"{data.step:g}; a learned map has one step"
                )
        return data.states("test", slice(trajectories))
    initial = data.states("test", slice(None), 0)
    known = initial[np.isfinite(initial).all(axis=1)]
    if not len(known):
        raise InputError(f"{data.path}: no test trajectory has an observed initial state")
    return known[:trajectories]


def recorded_dataset(models: Mapping[str, Integrator]) -> Path:
    """Return the dataset of the first model's training, if it is still at its path.

    Parameters
    ----------
    models
        Models by their names.

    Raises
    ------
    InputError
        If it is not, is another one now, or there is no model.

    Examples
    --------
    >>> vp.rollout.recorded_dataset({"mine": vp.models.ResidualNetwork(dim=2)})
    Traceback (most recent call last):
    vpintegrator.errors.InputError: ...
    """
    from vpintegrator.data import open_dataset

    of_kind("models", models, Mapping, "a dictionary of models by name")
    if not models:
        raise InputError("without a model, give the dataset to compare with by --dataset")
    name, model = next(iter(models.items()))
    check_integrator(model)
    recorded = model.metadata.get("dataset")
    # the model may be a stranger's: no device or pipe, which never ends, and no other machine,
    # which would be told who asks
    network = recorded is not None and recorded.startswith(("//", r"\\"))
    if recorded is None or network or not os.path.isfile(recorded):
        at = "" if recorded is None else f" at {recorded}"
        raise InputError(
            f"the dataset that {name} was trained on is not found{at}; give it, or another of "
            "the same kind, with --dataset"
        )
    if open_dataset(recorded).fingerprint != model.metadata.get("dataset_fingerprint"):
        raise InputError(
            f"{recorded} has changed since {name} was trained on it; if that is meant, give it "
            "with --dataset"
        )
    return Path(recorded)
