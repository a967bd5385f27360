"""Bands of models that are drawn from the posterior of a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from vpintegrator.rollout.comparison import Comparison, Ensemble
from vpintegrator.rollout.diagnostics.diagnostic import Column, Diagnostic
from vpintegrator.rollout.observer import fold
from vpintegrator.rollout.results import Results, Run
from vpintegrator.rollout.variables import SERIES, TRAJECTORY, Variable

if TYPE_CHECKING:
    from vpintegrator.rollout.draws import DrawnTrajectories

LOW, HIGH = 0.05, 0.95  # quantiles of the draws
_PART_VALUES = 500_000  # numbers advanced at a time


def quantiles(values: np.ndarray) -> np.ndarray:
    """Return the quantiles 5 % and 95 % (2, ...) of draws (draw, ...); diverged ones are infinite.

    Positions p (n + 1) make a band that a further draw is in with probability 0.9; the usual ones,
    p (n - 1), give 0.87 of 64 draws.
    """
    with np.errstate(all="ignore"):
        values = np.where(np.isnan(values), np.inf, values)
        found = np.quantile(values, [LOW, HIGH], axis=0, method="weibull")
    return np.where(np.isnan(found), np.inf, found)  # between infinite draws


class BandDiagnostic(Diagnostic):
    """Diagnostic of models that are drawn from the posterior of a model.

    The measurements are: ``state_low``, ``state_high``, the quantiles 5 % and 95 % of each
    component (trajectory, time, component); ``error_low``, ``error_high``, the same of the largest
    distance from the reference since the stored time before (trajectory, time); ``rmse_low``,
    ``rmse_high`` of the root mean square error (trajectory,); ``samples``, the number of draws. All
    are None without draws.

    The summary has ``rmse_low`` and ``rmse_high``, the medians over the trajectories, and
    ``in_band``, the share of the reference's components that are in the band.
    """

    variables = (
        Variable("state_low", "quantile 5 % of draws", (*SERIES, "component")),
        Variable("state_high", "quantile 95 % of draws", (*SERIES, "component")),
        Variable("error_low", "quantile 5 % of the errors of draws", SERIES),
        Variable("error_high", "quantile 95 % of the errors of draws", SERIES),
        Variable("rmse_low", "quantile 5 % of the root mean square errors of draws", TRAJECTORY),
        Variable("rmse_high", "quantile 95 % of the root mean square errors of draws", TRAJECTORY),
        Variable("samples", "models drawn from the posterior"),
    )

    def measure(self, ensemble: Ensemble) -> dict[str, Any]:
        comparison = ensemble.comparison
        model: Any = getattr(ensemble.flow, "model", None)
        if not comparison.samples or getattr(model, "posterior", None) is None:
            return dict.fromkeys(variable.name for variable in self.variables)
        first = ensemble.first[None].repeat(comparison.samples, 0)
        if comparison.uncertain_start:
            noise = model.posterior.noise.numpy()
            first = first + noise * np.random.default_rng(1).normal(size=first.shape)
        found = _followed(_trajectories(ensemble, model, first), first, comparison)
        return found | {"samples": comparison.samples}

    def summary(self, run: Run, report: Results) -> dict[str, Any]:
        if run.samples is None:
            return {"rmse_low": None, "rmse_high": None, "in_band": None}
        known = report.reference[:, 1:]
        end = known.shape[1] + 1
        moving = list(report.system.moving)
        low, high = (band[:, 1:end][..., moving] for band in (run.state_low, run.state_high))
        inside = (low <= known[..., moving]) & (known[..., moving] <= high)
        inside = inside[np.isfinite(known[..., moving])]
        return {
            "rmse_low": float(np.median(run.rmse_low)),
            "rmse_high": float(np.median(run.rmse_high)),
            "in_band": float(inside.mean()) if inside.size else None,
        }

    def columns(self, report: Results) -> Sequence[Column]:
        if all(run.samples is None for run in report.runs.values()):
            return ()
        return (
            Column("error 5%", lambda s: s.rmse_low, place=1),
            Column("error 95%", lambda s: s.rmse_high, place=1),
            Column("in band", lambda s: s.in_band, "short", place=1),
        )


def _trajectories(ensemble: Ensemble, model: Any, first: np.ndarray) -> DrawnTrajectories:
    import torch

    from vpintegrator.rollout.draws import DrawnTrajectories

    draws = model.sample(len(first), ensemble.comparison.sample_seed)
    windows = torch.from_numpy(first).to(model.scale)
    return DrawnTrajectories(draws, windows, getattr(ensemble.flow, "compiled", None))


def _followed(
    draws: DrawnTrajectories, first: np.ndarray, comparison: Comparison
) -> dict[str, Any]:
    """Return the bands of all steps; ``first`` are the windows (draw, trajectory, 1, dim)."""
    stored, steps, moving = comparison.stored, comparison.steps, list(comparison.system.moving)
    count, trajectories = first.shape[:2]
    reference = comparison.reference.transpose(1, 0, 2)[..., moving]
    band = np.empty((2, len(stored), trajectories, first.shape[-1]))
    largest = np.zeros((len(stored), count * trajectories))
    squares, known = np.zeros((count, trajectories)), np.isfinite(reference).all(-1)
    part, start, states = max(_PART_VALUES // first.size, 1), 0, first
    while True:
        one, two = np.searchsorted(stored, [start, start + states.shape[2]])
        kept = states[:, :, stored[one:two] - start]
        band[:, one:two] = quantiles(kept).swapaxes(1, 2)
        true = reference[:, start : start + states.shape[2]]
        if true.shape[1]:
            with np.errstate(all="ignore"):
                square = ((states[:, :, : true.shape[1], moving] - true) ** 2).sum(-1)
            square = np.where(np.isnan(square), np.inf, square)
            square = np.where(known[:, start : start + true.shape[1]], square, 0.0)
            squares += square.sum(-1)
            fold(np.maximum, start, np.sqrt(square.reshape(-1, true.shape[1])), stored, largest)
        start += states.shape[2]
        if start > steps:
            break
        states = draws.advance(min(part, steps + 1 - start))
    ends = comparison.reference_stored
    errors = quantiles(largest.reshape(-1, count, trajectories).swapaxes(0, 1)).swapaxes(1, 2)
    errors[:, :, ends:] = np.nan
    rmse = quantiles(np.sqrt(squares / (known.sum(1) * len(moving))))
    named = {"state": band.swapaxes(1, 2), "error": errors, "rmse": rmse}
    return {
        f"{name}_{side}": values[k]
        for name, values in named.items()
        for k, side in enumerate(("low", "high"))
    }


BANDS = BandDiagnostic()
