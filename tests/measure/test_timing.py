"""Seconds per step of maps that run in turn."""

import math
import time

import numpy as np
import pytest

from vpintegrator.measure import seconds_per_step
from vpintegrator.runtime.interrupts import until


def test_costs_are_processor_seconds_of_one_state(monkeypatch):
    clock, calls = [0.0], []

    def run_of(name, start, step):  # a run of n steps takes start + n * step
        def run(count):
            calls.append((name, count))
            clock[0] += start + count * step

        return run

    monkeypatch.setattr(time, "process_time", lambda: clock[0])
    runs = {"quick": run_of("quick", 1e-6, 1e-5), "slow": run_of("slow", 0.0, 0.3)}
    cost = seconds_per_step(runs, repeats=4)
    assert math.isclose(cost["quick"], (1e-6 + 30e-5) / 30 / 1000)
    assert math.isclose(cost["slow"], 0.3 / 1000)
    # twice to begin with; then in turn, while the time for one map lasts
    assert [name for name, _ in calls[:6]] == ["quick"] * 2 + ["slow"] * 2 + ["quick"] * 2
    assert calls.count(("slow", 1)) == 2 and calls.count(("quick", 30)) == 2 * 4


def test_a_busy_round_does_not_count(monkeypatch):
    spent = [1.0, 1.0, 9.0, 1.0, 1.0, 9.0, 1.0]
    clock = iter(np.cumsum([part for s in spent for part in (0.0, s)]).tolist())
    monkeypatch.setattr(time, "process_time", lambda: next(clock))
    cost = seconds_per_step({"map": lambda count: None}, states=1, repeats=5, seconds=1e3)
    assert cost == {"map": 1.0}


def test_nan_where_no_time_is_left():
    with until(0.0):
        assert math.isnan(seconds_per_step({"map": lambda count: None})["map"])


@pytest.mark.parametrize(("ticks", "expected"), [(8, 1e-3 / 8), (1000, math.nan)])
def test_a_clock_in_ticks_gives_no_cost_of_zero(ticks, expected, monkeypatch):
    """As under ``ulimit -t``: a round is an eighth of a tick, or far less."""
    rounds = []

    def clock():  # advances by a millisecond after so many calls of the map
        return len(rounds) // ticks * 1e-3

    monkeypatch.setattr(time, "process_time", clock)
    run = {"map": lambda count: rounds.append(count)}
    cost = seconds_per_step(run, states=1, repeats=64, steps=1)["map"]
    assert cost == pytest.approx(expected, rel=0.2, nan_ok=True)
