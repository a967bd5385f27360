"""Seconds per step of several maps, measured side by side."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

import numpy as np

from vpintegrator.arguments import of_kind
from vpintegrator.runtime.deadline import TimeIsUp, check_time


def seconds_per_step(
    runs: Mapping[str, Callable[[int], object]],
    *,
    states: int = 1000,
    repeats: int = 31,
    seconds: float = 0.5,
    steps: int = 30,
) -> dict[str, float]:
    """Return the processor seconds for a step of one state, of maps that run in turn.

    Each round runs each map once, so that other work on the machine meets all of them. The result
    is the lower quartile over the rounds: at load 5 it rose by at most 18 %, the median by 40 %.
    Seconds are those of the processor, summed over threads; those of other programs do not count.

    Parameters
    ----------
    runs
        Functions by name. ``run(count)`` makes ``count`` steps of all states of a batch. It holds
        the batch itself (:func:`repeat_states`), as models read windows and methods read states.
    states
        Number of states in the batch.
    repeats
        Number of rounds.
    seconds
        Time for the rounds of one map: a slow map has fewer rounds, but one.
    steps
        Largest number of steps in a run; a run of slower maps takes about 2 ms.

    Returns
    -------
    dict
        Seconds by name, above zero; nan where a deadline (:mod:`vpintegrator.runtime.deadline`)
        left no time, or the clock does not resolve all rounds together.

    Examples
    --------
    >>> pendulum = vp.load_system("pendulum")
    >>> first = pendulum.sample_initial(50, np.random.default_rng(0))
    >>> batch = vp.measure.repeat_states(first)[:, None]  # windows (1000, 1, 2)
    >>> machine = vp.compiled.machine_code(vp.classical("rk4", pendulum, 0.1), first)
    >>> cost = vp.measure.seconds_per_step({"rk4": lambda n: next(machine.advance(batch, n))})
    >>> 1e-9 < cost["rk4"] < 1e-5
    True
    """
    of_kind("runs", runs, Mapping, "a mapping of names to functions")
    counts: dict[str, int] = {}
    times: dict[str, list[float]] = {name: [] for name in runs}
    with suppress(TimeIsUp):
        for name, run in runs.items():
            check_time()
            once = _spent(run, 1)
            if once < seconds:
                once = _spent(run, 1)  # the first call may trace or compile
            counts[name] = min(max(int(2e-3 / max(once, 1e-9)), 1), steps)
            if counts[name] == 1:
                times[name].append(once)
        for _ in range(repeats):
            for name, run in runs.items():
                spent = times[name]
                if not spent or sum(spent) + spent[-1] < seconds:
                    check_time(spent[-1] if spent else 0.0)
                    spent.append(_spent(run, counts[name]))
    return {
        name: _typical(spent) / counts[name] / states if spent else math.nan
        for name, spent in times.items()
    }


def _typical(spent: list[float]) -> float:
    """Return the lower quartile of the times of some rounds; nan where none is above zero.

    The clock counts in ticks of milliseconds where a process has a limit of processor time
    (``ulimit -t``); a quartile of zero is then replaced by the mean.
    """
    quartile = sorted(spent)[len(spent) // 4]
    return quartile or sum(spent) / len(spent) or math.nan


def repeat_states(states: np.ndarray, count: int = 1000) -> np.ndarray:
    """Return ``count`` of the ``states`` or windows (n, ...), in their order over and over again.

    Examples
    --------
    >>> vp.measure.repeat_states(np.ones((3, 2))).shape
    (1000, 2)
    """
    return states[np.arange(count) % len(states)]


def _spent(run: Callable[[int], object], count: int) -> float:
    if count > 1:
        run(count)  # the map before has filled the caches, and freed the memory
    start = time.process_time()
    run(count)
    return time.process_time() - start
