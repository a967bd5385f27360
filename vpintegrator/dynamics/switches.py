"""Times at which equations switch: jumps and kinks in the time, and forces shorter than a step.

A solver chooses its steps from values at a few places in each. A force that acts between them is
passed over, and a jump is approached by ever smaller steps. So the steps end at these times.

Formulas say when they switch: ``where`` is made of signs, ``min`` and ``max`` of absolute values,
and each of these switches where its argument vanishes. A function that is called is sampled in the
time; so are formulas, for short forces that are smooth. A force that lasts a 25th of the time
between outputs is found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from vpintegrator.dynamics.crossings import Field
from vpintegrator.dynamics.equations import Equations
from vpintegrator.dynamics.expressions.evaluation import vectorised
from vpintegrator.dynamics.expressions.nodes import Call, Symbol, Value, below

Curve = Callable[[np.ndarray], np.ndarray]

_SWITCHING = ("sign", "abs", "atan2")  # functions that jump or bend where the first argument is 0
_COARSE = 8  # parts of an output interval that any solver sees
_FINE = 32  # parts in which a force of a 25th is seen
_SAMPLES = 4096  # times at least, however few the output times are
_MOST_SAMPLES = 1 << 22
_HIDDEN = 2.0  # deviation from an interpolation, over its expected error, of a hidden force
_JUMP = 0.1  # change between two samples, of the range of the rates, that may be a jump
_PARTS = 4  # steps at least in a hidden force
_HALVINGS = 80
_MARGIN = 4  # units in the last place of the time beside a switch, in which its formula is rounded


def switch_times(
    equations: Equations,
    starts: np.ndarray,
    ends: np.ndarray,
    symbols: Sequence[Symbol] = (),
    parameters: np.ndarray | None = None,
    hidden: np.ndarray | None = None,
) -> np.ndarray:
    """Return times at which the steps of solutions should end, (trajectory, count).

    They are values of the component that is the time, increasing; infinity fills the rows.

    Parameters
    ----------
    equations
        Equations that depend on time; without formulas only ``hidden`` are known.
    starts, ends
        Values of the time at the beginning and the end, (trajectory,).
    symbols, parameters
        Symbols of parameters, and their values (trajectory, name).
    hidden
        Further times, from :func:`hidden_forces`.

    Examples
    --------
    >>> from vpintegrator.dynamics.switches import switch_times
    >>> kicked = vp.load_system('''
    ... state = ["q", "p"]
    ... time = "t"
    ... vector_field = { q = "p", p = "where(t > 3, -q, 0) + min(t, 5)" }
    ... ''')
    >>> switch_times(kicked.equations, np.zeros(2), np.array([4.0, 6.0]))
    array([[ 3., inf],
           [ 3.,  5.]])
    """
    nodes = _switching(equations)
    rows = []
    further = np.empty(0) if hidden is None else hidden
    if nodes and not len(symbols):
        common = _of_formulas(nodes, [equations.symbols[-1]], starts.min(), ends.max(), ())
        further = np.concatenate([further, common])
    for i, (start, end) in enumerate(zip(starts, ends, strict=True)):
        row = further
        if nodes and len(symbols):
            assert parameters is not None
            switches = _of_formulas(
                nodes, [equations.symbols[-1], *symbols], start, end, parameters[i]
            )
            row = np.concatenate([row, switches])
        rows.append(np.unique(row[(row > start) & (row < end)]))
    result = np.full((len(starts), max(map(len, rows), default=0)), np.inf)
    for i, row in enumerate(rows):
        result[i, : len(row)] = row
    return result


def between_switches(field: Field, clock: int) -> Field:
    """Return a field whose first parameters are bounds of the time: each side sees its own."""

    def bounded(components: np.ndarray, arguments: np.ndarray) -> np.ndarray:
        low, high, *parameters = arguments
        inside = np.array(components)
        inside[clock] = np.clip(components[clock], low, high)
        return field(inside, np.array(parameters).reshape(len(parameters), components.shape[1]))

    return bounded


def inside_bounds(begin: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return times a few digits inside of intervals, (trajectory,) each."""
    margin = _MARGIN * np.maximum(np.spacing(np.abs(begin)), np.spacing(np.abs(end)))
    margin = np.minimum(margin, (end - begin) / 4)
    return begin + margin, end - margin


Interval = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def follow_to(
    solve: Interval, clock: int, state: np.ndarray, stops: np.ndarray, end: np.ndarray
) -> np.ndarray:
    """Return states (dim, trajectory) when the time reaches its end; NaN where a solution ends.

    Parameters
    ----------
    solve
        Function of states, numbers of their trajectories, and begin and end of the time, to the
        states there.
    clock
        Number of the component that is the time.
    state
        Initial states, (dim, trajectory).
    stops
        Times at which steps end, (trajectory, count), increasing.
    end
        Last times, (trajectory,).
    """
    rows = np.arange(state.shape[1])
    state = state.copy()
    stops = np.column_stack([stops, np.full(len(stops), np.inf)])
    place = (stops <= state[clock][:, None]).sum(axis=1)
    while len(rows):
        begin = state[clock, rows]
        last = end[rows]
        target = np.minimum(stops[rows, place[rows]], last)
        state[:, rows] = solve(state[:, rows], rows, begin, target)
        sound = np.isfinite(state[:, rows]).all(axis=0)
        state[clock, rows[sound]] = target[sound]
        place[rows] += stops[rows, place[rows]] <= target
        rows = rows[sound & (target < last)]
    return state


def _switching(equations: Equations) -> list[Value]:
    """Return formulas of the time, and of parameters, at whose zeros the equations switch.

    Formulas of which others are made come first.
    """
    clock = equations.symbols[-1]
    space = {symbol for symbol in equations.symbols if symbol is not clock}
    formulas: list[Value] = []
    for node in below(equations.vector_field):
        if isinstance(node, Call) and node.function.name in _SWITCHING:
            argument = node.arguments[0]
            symbols = equations.algebra.symbols(argument)
            if clock in symbols and not space & {*symbols} and argument not in formulas:
                formulas.append(argument)
    return formulas


def _of_formulas(
    nodes: Sequence[Value],
    symbols: Sequence[Symbol],
    start: float,
    end: float,
    parameters: Sequence[float] | np.ndarray,
) -> np.ndarray:
    """Return the zeros of formulas of the time, the first of the symbols, between two times."""
    known = np.empty(0)
    for node in nodes:
        made = vectorised([node], symbols, "numpy")

        def curve(points: np.ndarray, made: Any = made) -> np.ndarray:
            with np.errstate(all="ignore"):
                (value,) = made(points, *(np.full_like(points, k) for k in parameters))
            return np.broadcast_to(value, points.shape)

        grid = np.linspace(start, end, 4 * _SAMPLES + 1)
        known = np.unique(np.concatenate([known, _zeros(curve, np.union1d(grid, known))]))
    return known


def _zeros(curve: Curve, points: np.ndarray) -> np.ndarray:
    """Return the zeros of a curve between points, also two between neighbours about an extremum."""
    values = curve(points)
    sign = np.sign(values)
    # a point that comes nearer to zero than its neighbours may lie beside two zeros
    size = np.abs(values)
    near = (size[1:-1] <= size[:-2]) & (size[1:-1] <= size[2:]) & (sign[1:-1] != 0)
    near &= (sign[1:-1] == sign[:-2]) & (sign[1:-1] == sign[2:])
    middle = np.flatnonzero(near) + 1
    if len(middle):
        turn = _least(lambda x: curve(x) * sign[middle], points[middle - 1], points[middle + 1])
        other = np.sign(curve(turn)) != sign[middle]
        points = np.union1d(points, turn[other])
        sign = np.sign(curve(points))
    change = np.flatnonzero(sign[:-1] * sign[1:] < 0)
    low = points[change]
    high = points[change + 1]
    for _ in range(_HALVINGS):
        half = low + (high - low) / 2
        before = np.sign(curve(half)) == sign[change]
        low = np.where(before, half, low)
        high = np.where(before, high, half)
    # where a formula is zero for a while, it switches at the ends of that
    flat = (sign == 0) & ~((np.roll(sign, 1) == 0) & (np.roll(sign, -1) == 0))
    return np.concatenate([high, points[flat]])


def _least(curve: Curve, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return places of the least value between low and high, by golden sections."""
    ratio = (np.sqrt(5) - 1) / 2
    for _ in range(_HALVINGS):
        first = high - ratio * (high - low)
        second = low + ratio * (high - low)
        left = curve(first) < curve(second)
        low = np.where(left, low, first)
        high = np.where(left, second, high)
    return (low + high) / 2


def hidden_forces(
    field: Callable[[np.ndarray], np.ndarray],
    state: np.ndarray,
    edges: np.ndarray,
    rounding: float = 1e-9,
) -> np.ndarray:
    """Return jumps of the rates at a state, and times about forces that hide between others.

    Parameters
    ----------
    field
        Rates (dim, n) of states (dim, n), whose last component is the time.
    state
        A state, (dim,).
    edges
        Times between which a solver may take a single step.
    rounding
        Deviation, relative to the largest rate, that may be rounding.
    """
    blocks = len(edges) - 1
    if not 0 < blocks <= _MOST_SAMPLES // _FINE:
        return np.empty(0)
    parts = max(_FINE, -(-_SAMPLES // (blocks * _COARSE)) * _COARSE)
    places = np.arange(parts) / parts
    grid = np.append((edges[:-1, None] + np.diff(edges)[:, None] * places).ravel(), edges[-1])

    def rates(points: np.ndarray) -> np.ndarray:
        components = np.repeat(state[:, None], len(points), axis=1)
        components[-1] = points
        with np.errstate(all="ignore"):
            return np.asarray(field(components)[:-1])

    values = rates(grid)  # (component, sample)
    finite = np.isfinite(values).all(axis=1)
    largest = np.abs(values[finite]).max(axis=1, initial=0.0)
    values = values[finite]
    if not len(values):
        return np.empty(0)
    inside = np.stack([values[:, k : k + blocks * parts : parts] for k in range(parts + 1)], -1)
    coarse = inside[..., :: parts // _COARSE]  # (component, block, place)
    bends = np.abs(coarse[..., 1:-1] - (coarse[..., :-2] + coarse[..., 2:]) / 2)
    expected = np.median(bends, axis=-1)  # a short force is in few of them
    at = np.arange(parts + 1) * _COARSE / parts
    left = np.minimum(at.astype(int), _COARSE - 1)
    line = coarse[..., left] + (at - left) * (coarse[..., left + 1] - coarse[..., left])
    bound = _HIDDEN * expected + rounding * largest[:, None]
    hidden = (np.abs(inside - line) > bound[..., None]).any(axis=0)  # (block, place)
    flags = np.append(hidden[:, :-1].ravel(), False)
    changes = np.abs(np.diff(values, axis=1))
    wide = changes > _JUMP * np.ptp(values, axis=1, keepdims=True)
    steep = np.flatnonzero((wide & (changes > rounding * largest[:, None])).any(axis=0))
    jumps = _jumps(rates, grid, steep, finite)
    return np.concatenate([jumps, _about(grid, flags)])


def _jumps(rates: Curve, grid: np.ndarray, steep: np.ndarray, finite: np.ndarray) -> np.ndarray:
    """Return times of jumps between samples ``steep`` and the next ones."""
    low = grid[steep]
    high = grid[steep + 1]
    first = rates(low)[finite]
    last = rates(high)[finite]
    before = first
    after = last
    for _ in range(_HALVINGS if len(steep) else 0):
        half = low + (high - low) / 2
        if ((half == low) | (half == high)).all():
            break
        value = rates(half)[finite]
        is_before = np.abs(value - before).sum(axis=0) < np.abs(value - after).sum(axis=0)
        low = np.where(is_before, half, low)
        high = np.where(is_before, high, half)
        before = np.where(is_before, value, before)
        after = np.where(is_before, after, value)
    jump = (np.abs(after - before) > _JUMP * np.abs(last - first)).any(axis=0)
    return high[jump]


def _about(grid: np.ndarray, flags: np.ndarray) -> np.ndarray:
    """Return times before, in and after runs of flagged samples."""
    edges = np.diff(flags.astype(int), prepend=0, append=0)
    begins = np.flatnonzero(edges == 1)
    ends = np.flatnonzero(edges == -1)
    stops: list[np.ndarray] = [np.empty(0)]
    for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
        low = grid[max(begin - 1, 0)]
        high = grid[min(end, len(grid) - 1)]
        parts = min(max(_PARTS, end - begin + 1), 4 * _PARTS)
        stops.append(np.linspace(low, high, parts + 1))
    return np.concatenate(stops)
