"""What all figures of a rollout draw from: looks, titles and errors by the method's name."""

from __future__ import annotations

import numpy as np

from vpintegrator.plotting.style import looks
from vpintegrator.rollout import InvariantError, Report


class Scene:
    """A report made ready for drawing; every error is computed once.

    Attributes
    ----------
    report, system, components
        What is drawn.
    looks, titles, states
        Of each method, learned ones first.
    start
        Index of the first time that is each method's own work.
    trajectory_errors
        (trajectory, time) of each method.
    invariant_errors
        Of each method, by the invariant's name.
    volume
        Times, and log|det| (trajectory, time) at them, of each method.
    """

    def __init__(self, report: Report) -> None:
        self.report, self.system = report, report.system
        self.components = report.system.components
        names = list(report.runs)
        learned = [name for name in names if report.runs[name].kind == "learned"]
        self.looks = looks(names, learned)
        self.titles = {name: run.title for name, run in report.runs.items()}
        self.states = {name: run.states for name, run in report.runs.items()}
        # a model's first window is the reference's own, so its errors start after it
        self.start = {name: run.window for name, run in report.runs.items()}
        self.trajectory_errors: dict[str, np.ndarray] = {n: report.errors(n) for n in names}
        self.invariant_errors: dict[str, dict[str, InvariantError]] = {
            name: report.invariant_errors(name) for name in names
        }
        self.volume: dict[str, tuple[np.ndarray, np.ndarray]] = {
            name: (report.times[run.volume_index], run.log_determinant)
            for name, run in report.runs.items()
        }
