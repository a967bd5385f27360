"""The systems on which maps of a turn are measured."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import vpintegrator as vp

EXACT = 1e-13  # tolerances of the states that errors are measured by


@dataclass(frozen=True)
class Case:
    """A system and its turn.

    Attributes
    ----------
    system, parameters
        Name and values in place of the file's.
    turn
        Its time; None for the period of the equations, or the way back to the section.
    energy
        Of a return map to q[0] = 0; None for others.
    trajectories, turns
        That solvers are measured with.
    train
        Trajectories of one turn to learn from.
    options
        Of ``vp-train``, for maps that are to be cheaper than the most accurate one.
    """

    system: str
    turn: float | None = None
    energy: float | None = None
    parameters: dict[str, Any] = field(default_factory=dict)
    trajectories: int = 2048
    turns: int = 20
    train: int = 3000
    options: tuple[str, ...] = ()


TWO = {"m": [2, 5], "n": [1, 3], "cosine": [0.001, 0.03], "sine": [0.001, 0.03]}
MANY = {
    "m": [2, 2, 3, 3, 4, 4, 5, 5],
    "n": [1, 2, 1, 2, 2, 3, 2, 3],
    "cosine": [0.001, 0.0005, 0.001, 0.001, 0.002, 0.002, 0.005, 0.005],
    "sine": [0.001, 0.0005, -0.001, 0.001, 0.002, -0.002, 0.005, 0.005],
}
SMALL = ("--depth", "4", "--set", "degree=8")  # units of half a reversible map
CASES = {
    "field-lines": Case("field-lines"),
    "field-lines, cheap": Case("field-lines", options=SMALL),
    "field-lines, 2 modes": Case("field-lines", parameters=TWO),
    "field-lines, 8 modes": Case("field-lines", parameters=MANY),
    "field-lines, 8 modes, cheap": Case("field-lines", parameters=MANY, options=SMALL),
    "field-lines-coils": Case("field-lines-coils", trajectories=64, turns=2, train=2000),
    "rigid-body": Case("rigid-body", 3.0),
    "rigid-body, cheap": Case("rigid-body", 3.0, options=("--depth", "2", "--set", "degree=8")),
    "henon-heiles": Case("henon-heiles", energy=1 / 12),
    "coupled-oscillators": Case("coupled-oscillators", 4.0),
    "many-waves": Case("many-waves"),
    "two-waves": Case("two-waves"),
    "two-waves, cheap": Case("two-waves", options=("--depth", "3")),
    "forced-duffing": Case("forced-duffing"),
    "forced-duffing, cheap": Case("forced-duffing", options=("--depth", "6", "--set", "degree=8")),
    "forced-pendulum": Case("forced-pendulum"),
    "kepler": Case("kepler", 6.0),
    "pendulum": Case("pendulum", 4.0),
    "pendulum, cheap": Case("pendulum", 4.0, options=("--depth", "3")),
    "toda": Case("toda", 2.0),
}


class Turn:
    """A case as systems and states: the flow, and what is learned of it.

    Attributes
    ----------
    flow, learned
        The latter is the return map, or the flow again where a turn is a time.
    time
        Of a turn, the mean one where it differs.
    initial, exact
        States of the learned system, and those after a turn.
    begin, end
        States of the flow, and those after the time.
    """

    def __init__(self, case: Case, count: int) -> None:
        self.flow = self.learned = vp.load_system(case.system, **case.parameters)
        explicit_time = self.flow.explicit_time is not None and case.turn is None
        if case.energy is not None:
            self.learned = vp.return_map(self.flow, "q[0] = 0", energy=case.energy)
        elif explicit_time:
            self.learned = vp.return_map(self.flow, f"{self.flow.time} = 0")
        self.initial = self.begin = self.learned.sample_initial(count, np.random.default_rng(2026))
        self.by_section = case.energy is not None
        if self.by_section:
            back, nothing = self.learned.section_map, np.empty((count, 0))
            self.begin = back.flow_states(self.initial, nothing).T.copy()
            self.exact, times = back.images(self.initial, nothing, EXACT, EXACT)
            self.time = float(np.mean(times))
        else:
            self.time = case.turn or self.flow.period or math.nan
        if explicit_time:
            self.begin = np.concatenate([self.initial, np.zeros((count, 1))], axis=1)
        ends = np.array([0.0, self.time])
        self.end = vp.solve(self.flow, self.begin, ends, rtol=EXACT, atol=EXACT)[:, 1]
        self.end = self.end[:, : self.flow.phase_dim]
        if not self.by_section:
            self.exact = self.end
