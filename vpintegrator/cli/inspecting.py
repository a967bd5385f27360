"""Inspection in vp-gen (--inspect): contents of a dataset, a rollout or a model file."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vpintegrator.cli.common import console, say, say_title
from vpintegrator.cli.output import width_of, write_json
from vpintegrator.cli.reporting import told_of_bodies, told_of_equations, told_of_import
from vpintegrator.cli.results import dataset_results, model_results, rollout_results
from vpintegrator.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vpintegrator.data import Dataset
    from vpintegrator.data.inspection import Group
    from vpintegrator.training.performance import Performance

_COMPONENTS = 12  # listed one by one


def inspect(path: Path, figure: Path | None, overwrite: bool) -> None:
    """Print what is in a file and, for a dataset, draw a preview beside it."""
    from vpintegrator.storage.reading import check_kind, kind_of

    check_kind(path, "dataset", "rollout", "model")
    kind = kind_of(path) or "model"
    if kind == "dataset":
        _inspect_dataset(path, figure, overwrite)
        return
    if figure is not None:
        raise InputError(f"a preview is drawn of a dataset, not of a {kind}; leave out --output")
    (_inspect_rollout if kind == "rollout" else _inspect_model)(path)


def _inspect_dataset(path: Path, figure: Path | None, overwrite: bool) -> None:
    from vpintegrator.data import open_dataset
    from vpintegrator.data.inspection import inspect_dataset
    from vpintegrator.plotting.preview import draw_preview
    from vpintegrator.storage.files import check_output

    target, left_out = figure or path.with_suffix(".png"), None
    try:
        check_output(target, overwrite)
    except InputError as error:
        if figure is not None:
            raise
        left_out = str(error)  # nobody asked for it by name, and all else can be said
    dataset = open_dataset(path)
    groups = inspect_dataset(dataset)
    say_title(dataset.title)
    say("system", _system(dataset.system))
    if returns := dataset.system.equations.returns:
        say("return map", returns.words)
    say("state", f"{dataset.dim} components: {_plain(', '.join(dataset.system.components))}")
    if bodies := dataset.system.bodies:
        say("symmetries", f"{told_of_bodies(bodies)}: {', '.join(bodies.symmetries) or 'none'}")
    say("step", dataset.step_text)
    _varied(dataset)
    unit = "t/step" if "step" in dataset.varied else "t"
    unit = "iteration" if dataset.system.is_discrete else unit
    for name, group in groups.items():
        count, length, _ = group.shape
        span = f"{unit} = {group.times[0]:g} to {group.times[1]:g}" if length else "no times"
        say(name, f"{_number(count, 'trajectory')}, {_number(length, 'time')}; {span}")
    _origin(dataset)
    say("states", ", ".join(_unusual(groups)) or "all observed and finite")
    _ranges(dataset, groups)
    _invariants(dataset, groups)
    _versions(dataset)
    if left_out is None:
        draw_preview(dataset, target, overwrite, groups=groups)
    say("preview", left_out or str(target))
    write_json(lambda: dataset_results(dataset))


def _varied(dataset: Dataset) -> None:
    """Print the ranges of the parameters that differ between trajectories, except the step."""
    ranges = [(name, bounds) for name, bounds in dataset.varied.items() if name != "step"]
    for k, (name, (low, high)) in enumerate(ranges):
        say("varies" if k == 0 else "", f"{_plain(name)} from {low:.6g} to {high:.6g}")
    if dataset.origins("train") is not None:
        say("pairs", "each trajectory is a pair of neighbouring measurements")


def _number(count: int, what: str) -> str:
    """Return ``1 trajectory``, ``2 trajectories``."""
    plural = what[:-1] + "ies" if what.endswith("y") else what + "s"
    return f"{count:,} {what if count == 1 else plural}"


def _system(system: Any) -> str:
    parameters = ", ".join(f"{key} = {value}" for key, value in system.parameters.items())
    known = "; its equations are not known" if system.is_measured else ""
    return f"{system.title} ({system.name}){'; ' + parameters if parameters else ''}{known}"


def _origin(dataset: Dataset) -> None:
    """Print the source of the states and their accuracy."""
    from vpintegrator.data.inspection import accuracy_text
    from vpintegrator.storage.toml import read_toml

    attributes, accuracy = dataset.attributes, dataset.accuracy
    recipe = read_toml(dataset.recipe, f"recipe in {dataset.path}")
    imported = recipe.get("imported")
    if isinstance(imported, dict):
        variable = f", {imported['variable']}" if imported.get("variable") else ""
        source = imported.get("source", "an unknown file")
        say("imported from", f"{source}{variable} (seed {dataset.seed})")
        components = dataset.system.components
        for heading, text in [*told_of_import(components, recipe), *told_of_equations(recipe)]:
            say("units" if heading == "states" else heading, text)
    else:
        say("seed", str(dataset.seed))
        known = (
            f"{key} {_short(attributes[key])}" for key in ("rtol", "atol") if key in attributes
        )
        solver = "none: iterated by formula" if dataset.system.is_discrete else "not known"
        say("solver", ", ".join([_short(attributes.get("solver", solver)), *known]))
    if "estimated_error" in accuracy:
        say(
            "accuracy",
            accuracy_text(_short(accuracy["estimated_error"], ".1e"), accuracy),
        )
    for key in ("split", "stratified", "initial_conditions", "observation", "vary"):
        if isinstance(recipe.get(key), dict):
            table = ", ".join(f"{k} {_plain(v)}" for k, v in recipe[key].items())
            say(key.replace("_", " "), table)
    if dataset.noise is not None and np.any(dataset.noise):
        say("noise", "standard deviation " + ", ".join(f"{v:.3g}" for v in dataset.noise))
    if isinstance(imported, dict) or dataset.is_observed:
        _noise(dataset)


def _noise(dataset: Dataset) -> None:
    """Print the noise of the training states, estimated from them alone."""
    from vpintegrator.data import estimate_noise

    noise = estimate_noise(dataset)
    if noise is None:
        return
    named = zip(dataset.system.components[:_COMPONENTS], noise.texts(), strict=False)
    text = ", ".join(f"{_plain(name)} {text}" for name, text in named)
    say("noise found", f"standard deviation {text}")


def _plain(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _short(value: Any, digits: str = "g") -> str:
    """Return a number with few digits, or any other value of a file as text."""
    return format(value, digits) if isinstance(value, float | np.floating) else _plain(str(value))


def _unusual(groups: dict[str, Group]) -> list[str]:
    found = []
    for name, group in groups.items():
        states = group.shape[0] * group.shape[1]
        if group.missing:
            share = 100 * group.missing / states
            found.append(f"{name}: {group.missing} ({share:.3g} %) not observed")
        if group.infinite:
            found.append(f"{name}: {group.infinite} infinite")
    return found


def _ranges(dataset: Dataset, groups: dict[str, Group]) -> None:
    """Print the range of each component over all groups."""
    used = [group for group in groups.values() if np.isfinite(group.low).any()]
    if not used:
        return
    low = np.nanmin([group.low for group in used], axis=0)
    high = np.nanmax([group.high for group in used], axis=0)
    names = dataset.system.components
    for k, name in enumerate(names[:_COMPONENTS]):
        say("ranges" if k == 0 else "", f"{name} from {low[k]:.6g} to {high[k]:.6g}")
    if len(names) > _COMPONENTS:
        least, most = np.fmin.reduce(low[_COMPONENTS:]), np.fmax.reduce(high[_COMPONENTS:])
        say("", f"and {len(names) - _COMPONENTS} more, {least:.6g} to {most:.6g}")


def _invariants(dataset: Dataset, groups: dict[str, Group]) -> None:
    """Print the largest changes, computed again from the states in the file."""
    for k, invariant in enumerate(dataset.system.invariants):
        changes = ", ".join(
            f"{name} {group.changes[invariant]:.1e}"
            for name, group in groups.items()
            if group.shape[0]
        )
        say("invariants" if k == 0 else "", f"{invariant.replace('_', ' ')}: {changes}")
    if dataset.system.invariants:
        noisy = dataset.noise is not None and np.any(dataset.noise)
        say(
            "",
            "(largest change, relative to the group's largest value"
            + (", noise included)" if noisy else ")"),
        )


def _versions(dataset: Dataset) -> None:
    from vpintegrator.storage.reading import read_json

    attributes = dataset.attributes
    where = f"{dataset.path}: the attribute 'versions'"
    versions = read_json(str(attributes.get("versions", "{}")), where)
    say("made with", ", ".join(f"{name} {number}" for name, number in versions.items()))
    say("format", f"{attributes['format']}, version {attributes['format_version']}")
    say("fingerprint", dataset.fingerprint)


def _inspect_rollout(path: Path) -> None:
    from vpintegrator.plotting.tables import terminal_table
    from vpintegrator.rollout import open_rollout

    report = open_rollout(path)
    say_title(f"Rollout: {report.system.title}")
    say("system", _system(report.system))
    states = next(iter(report.runs.values())).states
    count, times = _number(len(states), "trajectory"), _number(len(report.times), "stored time")
    say("states", f"{count}, {times}")
    say("step", f"{report.step:g}, one in {report.every} stored, to t = {report.times[-1]:g}")
    say("methods", ", ".join(f"{name} ({run.kind})" for name, run in report.runs.items()))
    out = console()
    out.print(terminal_table(report, width_of(out)))
    out.print(f"draw it with: vp-plot {path}", soft_wrap=True)
    write_json(lambda: rollout_results(report))


def _say_comparisons(metadata: Mapping[str, str], path: Path) -> None:
    """Print the candidates by cost, and the verdict."""
    from vpintegrator.training.search.cheapest import Cheapest
    from vpintegrator.verdicts import Verdict

    if "fastest" in metadata:
        found = Cheapest.from_text(metadata["fastest"], f"{path}: the candidates of its training")
        _say_rows("candidates", found.sentence, found.candidates)
    if "verdict" in metadata:
        verdict = Verdict.from_text(metadata["verdict"], f"{path}: the verdict of its training")
        _say_rows("verdict", verdict.sentence, (verdict.model, *verdict.methods))


def _say_rows(heading: str, sentence: str, rows: Iterable[Performance]) -> None:
    from vpintegrator.plotting.tables import duration

    say(heading, sentence)
    for each in rows:
        cost = f", {duration(each.cost)} a step" if math.isfinite(each.cost) else ""
        say("", f"{each.name} errs by {each.error:.1e}{cost}")


def _inspect_model(path: Path) -> None:
    from vpintegrator.dynamics.region import Region
    from vpintegrator.models import load
    from vpintegrator.rollout.start import find_system
    from vpintegrator.storage.reading import read_json

    model = load(path)
    metadata = model.metadata
    say_title(f"Model: {model.description}")
    say("architecture", f"{model.name}, {sum(p.numel() for p in model.parameters())} parameters")
    for key, value in model.arguments.items():
        say("", f"{key} = {_plain(value)}")
    say("dtype", str(model.scale.dtype).removeprefix("torch."))
    traits = {
        "symplectic": model.symplectic,
        "volume-preserving": model.volume_preserving,
        "preserves the volume of its chart": model.measure_preserving
        and not model.volume_preserving,
        "invertible": model.invertible,
        "reversible": len(model.reversing_symmetries) > 0,
    }
    say("structure", ", ".join(name for name, holds in traits.items() if holds) or "none")
    told_by_training = (
        ("system_name", "system"),
        ("step", "step"),
        ("dataset", "dataset"),
        ("kernel", "trained from"),
        ("orbits", "orbits"),
    )
    if "system" in metadata and "[return_map]" in metadata["system"]:
        system = find_system({model.name: model}, None)
        if returns := system.equations.returns:
            say("return map", returns.words)
    for key, heading in told_by_training:
        if key in metadata:
            say(heading, _plain(str(metadata[key])))
    for k, (name, (low, high)) in enumerate(model.conditions.items()):
        say("family" if k == 0 else "", f"{_plain(name)} from {low:.6g} to {high:.6g}")
    training = read_json(metadata.get("training", "{}"), f"{path}: what is told of its training")
    _say_comparisons(metadata, path)
    if "region" in metadata:
        region = Region.from_text(metadata["region"], f"{path}: the region of training")
        for k, (name, (low, high)) in enumerate(zip(region.names, region.bounds, strict=True)):
            if k < _COMPONENTS:
                say("trained on" if k == 0 else "", f"{_plain(name)} from {low:.6g} to {high:.6g}")
        if len(region.names) > _COMPONENTS:
            say("", f"and {len(region.names) - _COMPONENTS} more")
    told = [
        f"{key.replace('_', ' ')} {value:.3g}" if isinstance(value, float) else f"{key} {value}"
        for key, value in training.items()
        if not isinstance(value, list | dict) and value != ""
    ]
    if told:
        say("training", ", ".join(told).replace("_", " "))
    write_json(lambda: model_results(model))
