"""Volume: of the map of a step or of windows, and of phase space."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from vpintegrator.compiled import integrate
from vpintegrator.dynamics import System, solve
from vpintegrator.dynamics.structure import (
    affordable,
    fewer,
    iterated_images,
    log_determinant,
    log_volume,
)
from vpintegrator.rollout.diagnostics.diagnostic import Diagnostic
from vpintegrator.rollout.report import Report, Run, Summary
from vpintegrator.rollout.variables import Column, Measurement, Variable

# and their words; the last where a chart of the system has another volume
VOLUMES = {"step": "map volume", "phase-space": "phase-space volume", "measure": "chart volume"}
_ALWAYS = ("step", "phase-space")  # kinds with a column in every table
_PARTS = 16  # of a step, in which the exact contraction is integrated


@dataclass(frozen=True)
class Volume:
    r"""Logarithms of the determinant of a derivative, less those of the exact map.

    The latter are 0 where the flow preserves volume, or its equations are not known.

    Attributes
    ----------
    times
        (volume_time,).
    log_determinant
        :math:`\log |\det D|` at these times for the first trajectories, (trajectory, volume_time),
        less that of the exact map.
    """

    times: np.ndarray
    log_determinant: np.ndarray

    def __repr__(self) -> str:
        largest = "not measured" if self.largest is None else f"at most {self.largest:.1e}"
        return f"<Volume: |log|det|| {largest}, at {len(self.times)} times>"

    @property
    def largest(self) -> float | None:
        r"""Largest :math:`|\log |\det D||` that could be measured, None if none could.

        Infinite where a derivative is singular: then a volume collapses to nothing.
        """
        sizes = np.abs(self.log_determinant[~np.isnan(self.log_determinant)])
        return float(sizes.max()) if sizes.size else None


def exact_log_determinant(
    system: System, initial: np.ndarray, step: float, steps: int
) -> np.ndarray:
    r"""Return the logarithm of the volume factor of the exact solution, (trajectory, steps + 1).

    .. math:: \log |\det \partial z_k / \partial z_0| = \int_0^{k h} \nabla \cdot f(z(t)) \, dt

    for a flow; the sum over the steps of a map by formula.

    Parameters
    ----------
    system
        A system with known equations.
    initial
        Initial states :math:`z_0`, (trajectory, dim).
    step
        Time step h.
    steps
        Number of steps.

    Examples
    --------
    >>> from vpintegrator.rollout.diagnostics.volume import exact_log_determinant
    >>> damped = vp.load_system('state = ["x", "y"]\n[vector_field]\nx = "y"\ny = "-x - y"')
    >>> exact_log_determinant(damped, np.ones((1, 2)), step=0.1, steps=2).round(6)
    array([[ 0. , -0.1, -0.2]])
    """
    from scipy.integrate import romb

    usable = np.isfinite(initial).all(axis=1)
    changes = np.full((len(initial), steps), np.nan)
    if usable.any() and system.is_discrete:
        states = solve(system, initial[usable], np.arange(steps + 1))
        changes[usable] = log_volume(system.map_jacobian(states[:, :-1]))
    elif usable.any():
        fine = step / _PARTS
        with np.errstate(all="ignore"):
            states = integrate(system, "dormand-prince-8", initial[usable], fine, steps * _PARTS)
            index = _PARTS * np.arange(steps)[:, None] + np.arange(_PARTS + 1)
            changes[usable] = romb(system.divergence(states)[:, index], dx=fine)
    return np.pad(np.cumsum(changes, axis=1), ((0, 0), (1, 0)))


_DIMS = ("{key}_trajectory", "{key}_time")
_TITLE = "log|det| of the derivative of the map: {name}"
_STORED = (
    Variable("times", "time of the state or window", _DIMS[1:], "{key}_time"),
    Variable("log_determinant", _TITLE, _DIMS, "{key}_log_determinant", required=True),
)


def _keys(system: System) -> dict[str, str]:
    return {name: name.replace("-", "_") for name in VOLUMES}


def own_volume_change(map: Any, windows: np.ndarray) -> Any:
    r"""Return log rho(Phi(Z)) - log rho(Z) for the density rho of the volume of a map's own form.

    It is added to :math:`\log |\det D\Phi|`. A discrete Lagrangian keeps the volume of windows of
    two positions with the density :math:`|\det D_1 D_2 L|`; the volume of other maps has none.

    Parameters
    ----------
    map
        The map.
    windows
        Windows, (..., window, dim); NaN where one is not finite.
    """
    model = getattr(map, "original", map)
    if not hasattr(model, "own_form"):
        return 0.0
    rows = windows.reshape(-1, map.window, map.dim)
    usable = np.isfinite(rows).all(axis=(1, 2))
    result = np.full(len(rows), np.nan)
    with np.errstate(all="ignore"):
        images = iterated_images(map, rows[usable])
        before, after = (log_volume(model.own_form(each)) / 2 for each in (rows[usable], images))
        result[usable] = after - before
    return result.reshape(windows.shape[:-2])


class VolumeChange(Diagnostic):
    """Whether volume is preserved, or contracts as the exact flow does.

    Measured is ``volume``, a :class:`Volume` by name: ``"step"``, of the map of states, or of
    windows where ``window`` > 1, at states met on the way, of a variational map in the volume of
    its own form; ``"phase-space"``, of the map z_0 ->
    z_t; ``"measure"``, of the map of a step in the coordinates of the system's chart, where these
    have another volume. Each may be missing. For a system that changes volume the values are those
    beside the exact map, and that of a map of windows is missing. Summed up, by these names:
    ``volume``, the largest |log|det|| measured on orbits until they are lost, and
    ``volume_preserved``, whether this is at most ``volume_rounding``.
    """

    variables = (Measurement("volume", _STORED, Volume, keys=_keys),)

    def result(self) -> dict[str, Any]:
        volume: dict[str, Volume] = {}
        map = self.map
        system = self.ensemble.system
        step = self.plan.step
        contracts = self.plan.complete_system.contracts
        if map.differentiable:
            windows = self.ensemble.windows
            times = self.ensemble.sample_times
            samples, trajectories, window, dim = windows.shape
            count = affordable(samples * trajectories, window * dim)
            windows = fewer(windows[:, : max(1, count // max(1, samples))], count)
            times = fewer(times, count)  # and windows: fewer for large ones
            changes = log_determinant(map, windows, self.ensemble.scales)
            if not contracts:
                corrected = changes + own_volume_change(map, windows)
                volume["step"] = Volume(times, corrected.T)
            elif map.window == 1 and system.contracts:
                rows = windows.reshape(-1, system.dim)
                exact = exact_log_determinant(system, rows, step, 1)[:, 1]
                volume["step"] = Volume(times, (changes - exact.reshape(changes.shape)).T)
            chart = system.chart
            if chart is not None and not chart.keeps_volume:
                # log rho(Phi(z)) - log rho(z), for the density rho of the chart's volume
                each = windows.reshape(-1, map.window, map.dim)
                with np.errstate(all="ignore"):
                    density = chart.log_density(iterated_images(map, each)) - chart.log_density(
                        each
                    )
                changes = changes + density.sum(axis=-1).reshape(changes.shape)
                volume["measure"] = Volume(times, changes.T)
        history = self.ensemble.tangent_history
        if history is not None and not np.isnan(history.log_determinant[:, 1:]).all():
            values = history.log_determinant
            if contracts:
                first = self.ensemble.first[: len(values), 0]
                steps = len(history.times) - 1
                values = values - exact_log_determinant(system, first, step, steps)
            volume["phase-space"] = Volume(history.times, values)
        return {"volume": volume}

    @classmethod
    def summary(cls, run: Run, report: Report) -> dict[str, Any]:
        known = {key: v for key, v in run.volume.items() if v.largest is not None}
        steps = {key: len(v.times) if key == "phase-space" else 1 for key, v in known.items()}
        return {
            "volume": {key: volume.largest for key, volume in known.items()},
            "volume_rounding": {key: run.derivative_rounding(n) for key, n in steps.items()},
        }

    @classmethod
    def verdicts(cls, summary: Summary) -> dict[str, Any]:
        most = summary.volume_rounding
        kept = {key: value <= most[key] for key, value in summary.volume.items()}
        return {"volume_preserved": kept}

    @classmethod
    def columns(cls, report: Report) -> list[Column]:
        columns: list[Column] = []
        known = {name for run in report.runs.values() for name in run.volume} | {*_ALWAYS}
        for name, words in VOLUMES.items():
            what = words.rpartition(" ")[0]
            value = ("volume", name)
            preserved = f"{words} preserved"
            header = (what, "volume kept") if name == "phase-space" else (words, "kept")
            if name in known and report.complete_system.contracts and name != "measure":
                columns.append(Column(f"{what} contraction error", value, place=3))
            elif name in known:
                columns += [
                    Column(preserved, ("volume_preserved", name), "hidden"),
                    Column(f"{words} error", value, "kept", header, place=3, beside=preserved),
                ]
        return columns
