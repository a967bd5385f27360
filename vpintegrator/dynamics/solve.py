"""Accurate solutions of a system by SciPy, many trajectories at once.

SciPy's solvers judge a step by the root mean square of the error over the whole state vector. With
N trajectories stacked into one vector a single bad one would hide behind N - 1 good ones; dividing
the tolerances by sqrt(N) bounds the error of every single trajectory by the tolerance asked for,
whatever batch it is in:

    1/(N d) sum_{n,i} N (e_{n,i}/s_{n,i})^2 <= 1   =>   1/d sum_i (e_{n,i}/s_{n,i})^2 <= 1, all n.

The absolute tolerance of a component is relative to its size in all trajectories, so a solution has
the same relative error in any units.

Where the equations switch in the time, steps end, and all trajectories have steps of their own: see
:mod:`vpintegrator.dynamics.switches`.

One-step methods are made to end a step at every output time: on the rigid body that is 20 to 100
times more accurate than SciPy's interpolation at nearly the same cost.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy  # loads scipy.integrate when it is used

from vpintegrator.arguments import is_number, of_kind, real_array
from vpintegrator.dynamics.crossings import AdaptiveSteps, Event, coarse_states, follow
from vpintegrator.dynamics.equations import FormulaDomain
from vpintegrator.dynamics.switches import (
    between_switches,
    follow_to,
    hidden_forces,
    inside_bounds,
    switch_times,
)
from vpintegrator.dynamics.system import OF_STACKS, SMALLEST_TOLERANCE, System
from vpintegrator.errors import InputError, nearest
from vpintegrator.names import SOLVERS
from vpintegrator.runtime.interrupts import check_time

_ROUNDING = 1e-9  # deviation of rates in the time that is no force, relative to the largest
_MOST_EDGES = 1 << 17  # intervals in which short forces are looked for
_MOST_STEPS = 10_000_000  # of a solution between two outputs
_ONE_STEP = ("DOP853", "RK45", "RK23", "Radau")
_COARSE = 1e-8  # tolerance of states on the way, which only initialise a training
_COARSE_STEPS = 6, 1e-6  # number and tolerance of steps over about a period of the motion
_SIZED = 16  # trajectories that show the sizes of the components
LARGEST_BATCH = 2048  # beyond it the vectors leave the cache
# an implicit solver factorises the Jacobian of the whole stack, so it gets one trajectory at a time
IMPLICIT = ("Radau", "BDF", "LSODA")


def solve(
    system: System,
    initial: np.ndarray,
    times: np.ndarray,
    method: str = "DOP853",
    rtol: float = 1e-12,
    atol: float = 1e-12,
    progress: Callable[[int], None] | None = None,
    sizes: np.ndarray | None = None,
) -> np.ndarray:
    r"""Solve :math:`\dot z = f(z)` from many initial states, or iterate a map.

    Parameters
    ----------
    system
        The system.
    initial
        Initial states at ``times[0]``, shape (trajectory, dim). Where the equations depend on time,
        a state holds it, and ``times`` only say how much later.
    times
        Output times, increasing, shape (time,). Of a map they count iterations: whole numbers.
    method
        Method out of ``vpintegrator.names.SOLVERS``, as in :func:`scipy.integrate.solve_ivp`.
    rtol, atol
        Tolerances of the local error of every single trajectory: relative to the component at that
        time, and to the size of the component. Smaller ones than
        :attr:`System.smallest_tolerance` are taken for that.
    progress
        Called now and then with the number of states found since the last call.
    sizes
        Sizes of the components, (dim,); by default those of ``component_sizes``.

    Returns
    -------
    numpy.ndarray
        States of shape (trajectory, time, dim), the initial states first.

    Raises
    ------
    InputError
        If an argument is wrong, or a solution cannot be continued to the last time; the message
        names the initial state.

    Examples
    --------
    >>> pendulum = vp.load_system("pendulum")
    >>> vp.solve(pendulum, np.array([[1.0, 0.0]]), np.linspace(0, 1, 6)).shape
    (1, 6, 2)
    """
    of_kind("system", system, System, "a system, as vp.load_system gives it")
    initial = real_array("initial", initial, None)
    times = real_array("times", times, ("time",))
    if initial.ndim != 2 or initial.shape[1] != system.dim or not np.isfinite(initial).all():
        raise InputError(
            f"initial states of {system.name} are finite and have shape (trajectory, {system.dim}),"
            f" but those given have shape {initial.shape}"
        )
    if not (np.diff(times) > 0).all() or not np.isfinite(times).all():
        raise InputError("the output times must be finite and increase")
    check_solver(method, rtol, atol)
    if system.is_discrete and (np.diff(times) % 1).any():
        raise InputError(f"{system.name} is a map: times count its iterations, in whole numbers")
    states = np.empty((len(initial), len(times), system.dim))
    if system.is_discrete:
        if system.flow is not None and method != "DOP853":
            raise InputError(f"crossings of {system.name} are located by DOP853, not by {method}")
        iterate(system.iteration(rtol, atol), system, initial, times, states, progress)
        return states
    with np.errstate(all="ignore"):  # a blow-up is reported once
        rates = system.vector_field_by_component(np.ascontiguousarray(initial.T))
        outside = np.flatnonzero(~np.isfinite(rates).all(axis=0))
        if len(outside):  # SciPy would look for a first step for ever
            raise _outside(system, initial[outside], len(initial))
        if sizes is None:
            sizes = component_sizes(system, initial, float(times[-1] - times[0]))
        least = system.smallest_tolerance
        rtol = max(rtol, least)
        atol = max(atol, least if least > SMALLEST_TOLERANCE else 0.0)
        batch = batch_size(method, rtol, least)
        stops = _stops(system, initial, times, sizes)
        if stops.shape[1]:
            solution = _SwitchingSolution(system, initial, times, stops)
            solution.solve(method, rtol, atol, sizes, states, progress)
        for start in range(0, 0 if stops.shape[1] else len(initial), batch):
            part = slice(start, start + batch)
            options = stacked_tolerances(rtol, atol * sizes, len(initial[part]))
            flow = system.of_trajectories(part)
            if method in IMPLICIT and least > SMALLEST_TOLERANCE:
                # SciPy's differences are of rounding errors there
                options["jac"] = lambda _, y, flow=flow: flow.jacobian_by_component(y)
            _solve_stack(flow, initial[part], times, method, options, states[part], progress)
    _set_time(states, initial, system.explicit_time, times - times[0])
    return states


def _set_time(
    states: np.ndarray, initial: np.ndarray, explicit_time: int | None, later: np.ndarray
) -> None:
    """Set the time in states (trajectory, time, dim) to the last digit, however long they last."""
    if explicit_time is not None:
        states[..., explicit_time] = initial[:, explicit_time, None] + later


def _outside(system: System, states: np.ndarray, count: int) -> InputError:
    """The error for initial states at which a rate is not finite."""
    words = "the function is not finite"
    if system.has_formulas:
        words = FormulaDomain(system.equations, system.equations.vector_field).reason(states[0])
    return InputError(
        f"{len(states)} of {count} initial states are outside of the domain of {system.name}, the "
        f"first is {_written(states[0])}: {words}"
    )


def component_sizes(system: System, initial: np.ndarray, duration: float) -> np.ndarray:
    """Return the sizes of the components, (dim,), that absolute tolerances are relative to.

    The size is the largest absolute value in all initial states, and in the first period of the
    motion of some of them. The size of an angle is at most its period, that of a component that
    stays zero is 1.

    Parameters
    ----------
    system
        A system with a vector field.
    initial
        Initial states, (trajectory, dim); those that are not finite do not count.
    duration
        Duration of the motion.

    Examples
    --------
    >>> from vpintegrator.dynamics.solve import component_sizes
    >>> pendulum = vp.load_system("pendulum")
    >>> component_sizes(pendulum, np.array([[1e-9, 0.0]]), duration=6.0).round(9)
    array([1.e-09, 1.e-09])
    """
    known = np.flatnonzero(np.isfinite(initial).all(axis=1))
    sizes = np.abs(initial[known]).max(axis=0, initial=0.0)
    sample = known[np.unique(np.linspace(0, len(known) - 1, min(len(known), _SIZED)).astype(int))]
    flow = system.of_trajectories(sample)
    with np.errstate(all="ignore"):
        *_, (_, moved) = coarse_states(
            flow.vector_field_by_component, initial[sample].T, duration, *_COARSE_STEPS
        )
    return bounded_sizes(system, np.maximum(sizes, moved.max(axis=1, initial=0.0)))


def bounded_sizes(system: System, sizes: np.ndarray) -> np.ndarray:
    """Return sizes (dim,) that are at most the period for an angle, and 1 instead of 0."""
    periods = np.array([system.periods.get(i, np.inf) for i in range(system.dim)])
    return np.where(sizes > 0, np.minimum(sizes, periods), 1.0)


def states_between(
    system: System, initial: np.ndarray, step: float, parts: int, tolerance: float = _COARSE
) -> np.ndarray | None:
    """Return states at equal parts of a step.

    Parameters
    ----------
    system : System
    initial : (state, dim)
    step
        The whole of it.
    parts
        Number of parts.
    tolerance
        Relative and absolute, of the solver.

    Returns
    -------
    numpy.ndarray or None
        (part + 1, state, dim), the initial states first; None where no such states are known, as
        of measured systems.

    Raises
    ------
    InputError
        If a solution cannot be continued to the end of the step.

    Examples
    --------
    >>> from vpintegrator.dynamics.solve import states_between
    >>> pendulum = vp.load_system("pendulum")
    >>> states_between(pendulum, np.array([[1.0, 0.0], [0.5, 0.0]]), step=6.0, parts=4).shape
    (5, 2, 2)
    """
    if system.is_measured:
        return None
    if system.is_discrete:
        return system.states_between(initial, parts)
    times = step * np.arange(parts + 1) / parts
    states = solve(system, initial, times, rtol=tolerance, atol=tolerance)
    return np.ascontiguousarray(states.transpose(1, 0, 2))


def iterate(
    image: Callable[[np.ndarray], np.ndarray],
    system: Any,
    initial: np.ndarray,
    times: np.ndarray,
    states: np.ndarray,
    progress: Callable[[int], None] | None = None,
) -> None:
    """Fill ``states`` (trajectory, time, dim) with iterates of ``image`` at the times.

    Parameters
    ----------
    image
        The map of states (trajectory, dim).
    system
        System, for messages.
    initial, times, progress
        Arguments of :func:`solve`.

    Raises
    ------
    InputError
        If an iterate is not finite; the message names the initial state.
    """
    state = initial
    done = times[0]
    for k, time in enumerate(times):
        for _ in range(round(time - done)):
            check_time()
            state = image(state)
            done = done + 1
            if not np.isfinite(state).all():
                raise _escape(system, initial, state, done)
        states[:, k] = state
        if progress:
            progress(len(initial))


def _escape(system: Any, initial: np.ndarray, last: np.ndarray, time: float) -> InputError:
    bad = ~np.isfinite(last).all(axis=1)
    state = _written(initial[np.argmax(bad)])
    if system.equations.returns is not None:
        section = system.equations.returns.plane
        return InputError(
            f"{bad.sum()} of {len(bad)} solutions of {system.name} do not come back to {section} "
            f"at return {time:.0f}, the first from {state}: they escape, or 20,000 steps are too "
            "few, or the state has no momentum for the energy; take other initial states "
            "(--initial), a lower energy or fewer steps"
        )
    return InputError(
        f"the iterates of {system.name} from {state} end at iteration {time:.0f}: they grow "
        "without bound or leave the domain of the map; choose other initial states or fewer steps"
    )


def check_solver(method: str, rtol: float, atol: float, where: str = "") -> None:
    """Raise InputError unless SciPy has the solver and can keep the tolerances.

    ``where`` they stand comes first in the message.
    """
    if method not in SOLVERS:
        hint = nearest(str(method), SOLVERS) or f"; there are {', '.join(SOLVERS)}"
        raise InputError(f"{where}there is no solver '{method}'{hint}")
    sound = is_number(rtol) and is_number(atol) and rtol >= SMALLEST_TOLERANCE and atol > 0
    if not sound:
        raise InputError(
            f"{where}rtol = {rtol!r}, atol = {atol!r}: rtol must be at least "
            f"{SMALLEST_TOLERANCE:g}, the limit of double precision, and atol positive"
        )


def stacked_field(system: System, count: int) -> Callable[[float, np.ndarray], np.ndarray]:
    """The vector field as SciPy takes it: of the states of ``count`` trajectories in one vector.

    Its first entries are the first components of all of them, and so on.
    """

    def field(_: float, y: np.ndarray) -> np.ndarray:
        check_time()
        return system.vector_field_by_component(y.reshape(system.dim, count)).ravel()

    return field


def stacked_tolerances(rtol: float, atol: np.ndarray, count: int) -> dict[str, Any]:
    """Return SciPy's tolerances for the states of ``count`` trajectories in one vector.

    Parameters
    ----------
    rtol, atol
        Tolerances of each trajectory; the absolute ones are those of the components, (dim,).
    count
        Number of trajectories.
    """
    share = np.sqrt(count)
    return {"rtol": max(rtol / share, SMALLEST_TOLERANCE), "atol": np.repeat(atol / share, count)}


def batch_size(method: str, rtol: float, smallest: float = SMALLEST_TOLERANCE) -> int:
    """Return the number of trajectories in one solver call that the smallest tolerance allows."""
    if method in IMPLICIT:
        return 1
    if smallest > SMALLEST_TOLERANCE:
        smallest /= OF_STACKS
    return int(np.clip((rtol / smallest) ** 2, 1, LARGEST_BATCH))


def _solve_stack(
    system: System,
    initial: np.ndarray,
    times: np.ndarray,
    method: str,
    options: dict[str, Any],
    states: np.ndarray,
    progress: Callable[[int], None] | None,
) -> None:
    """Fill ``states`` (trajectory, time, dim) of some trajectories."""
    count = len(initial)
    shape = initial.T.shape
    clock = system.explicit_time
    field = stacked_field(system, count)
    y = initial.T.ravel()
    states[:, 0] = initial
    if progress:
        progress(count)
    if method not in _ONE_STEP:  # they start again at low order, so they are not stopped
        solution = scipy.integrate.solve_ivp(
            field, (times[0], times[-1]), y, method=method, t_eval=times, **options
        )
        if not solution.success or not np.isfinite(solution.y).all():
            last = solution.y[:, -1] if solution.y.size else y
            raise _breakdown(system, initial, last.reshape(shape), float(solution.t[-1]))
        states[:] = solution.y.reshape(*shape, -1).transpose(1, 2, 0)
        if progress:
            progress(count * (len(times) - 1))
        return
    step: float | None = None
    for k, (start, end) in enumerate(itertools.pairwise(times), start=1):
        first = None if step is None else min(step, end - start)
        solver = getattr(scipy.integrate, method)(field, start, y, end, first_step=first, **options)
        while solver.status == "running":
            solver.step()
            if solver.status == "running":  # the last step is cut to end at the output time
                step = solver.step_size
        y = solver.y
        if clock is not None:
            y.reshape(shape)[clock] = initial[:, clock] + (end - times[0])
        if solver.status == "failed" or not np.isfinite(y).all():
            raise _breakdown(system, initial, y.reshape(shape), solver.t)
        states[:, k] = y.reshape(shape).T
        if progress:
            progress(count)


def _stops(system: System, initial: np.ndarray, times: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return times at which steps should end, (trajectory, count): values of the time component."""
    duration = times[-1] - times[0]
    if isinstance(system, ScaledFlow):
        flow, scales, parameters = system.given
        if (clock := flow.explicit_time) is None:
            return np.empty((len(initial), 0))
        starts = initial[:, clock]
        symbols = flow.equations.open
        ends = starts + scales * duration
        return switch_times(flow.equations, starts, ends, symbols, parameters)
    if (clock := system.explicit_time) is None:
        return np.empty((len(initial), 0))
    starts = initial[:, clock]
    edges = starts[0] + times - times[0]
    if not (starts == starts[0]).all():
        count = np.ptp(np.append(starts, starts + duration)) / np.median(np.diff(times))
        count = int(np.clip(np.ceil(count), 1, _MOST_EDGES))
        edges = np.linspace(starts.min(), starts.max() + duration, count + 1)
    # beside a state, as a force may vanish at that
    state = initial[0] + sizes * np.random.default_rng(0).uniform(-0.1, 0.1, len(sizes))
    rounding = max(_ROUNDING, system.smallest_tolerance)
    hidden = hidden_forces(system.vector_field_by_component, state, edges, rounding)
    return switch_times(system.equations, starts, starts + duration, hidden=hidden)


class _SwitchingSolution:
    """Solutions whose steps end where the equations switch in the time.

    Between two of these times the equations are those inside: each side sees its own. Every
    trajectory has steps of DOP853 of its own; other methods solve one after the other.

    Parameters
    ----------
    system, initial, times
        Arguments of :func:`solve`.
    stops
        Values of the time component at which steps end, (trajectory, count), see ``_stops``.
    """

    def __init__(
        self, system: System, initial: np.ndarray, times: np.ndarray, stops: np.ndarray
    ) -> None:
        self._system = system
        self._initial = initial
        self._times = times
        self._inner = system
        self._scales = np.ones(len(initial))
        self._own = np.empty((len(initial), 0))
        if isinstance(system, ScaledFlow):
            self._inner, self._scales, self._own = system.given
        clock = self._inner.explicit_time
        assert clock is not None
        self._clock = clock
        self._stops = stops

    def solve(
        self,
        method: str,
        rtol: float,
        atol: float,
        sizes: np.ndarray,
        states: np.ndarray,
        progress: Callable[[int], None] | None,
    ) -> None:
        """Fill ``states`` (trajectory, time, dim)."""
        clock = self._clock
        rest = np.vstack([self._scales, self._own.T])
        formulas = AdaptiveSteps(between_switches(self._rates, clock), rtol, atol, sizes)

        def interval(
            state: np.ndarray, rows: np.ndarray, begin: np.ndarray, end: np.ndarray
        ) -> np.ndarray:
            arguments = np.vstack([*inside_bounds(begin, end), rest[:, rows]])
            durations = (end - begin) / self._scales[rows]
            if method == "DOP853":
                return follow(formulas, state, Event(durations), arguments, _MOST_STEPS)[0]
            columns = zip(state.T, durations, arguments.T, strict=True)
            options = {"method": method, "rtol": rtol, "atol": atol * sizes}
            return np.array([_by_scipy(formulas.field, options, *each) for each in columns]).T

        state = self._initial.T
        states[:, 0] = self._initial
        for k in range(1, len(self._times)):
            later = self._times[k] - self._times[0]
            output = self._initial[:, clock] + self._scales * later
            new = follow_to(interval, clock, state, self._stops, output)
            if len(lost := np.flatnonzero(~np.isfinite(new).all(axis=0))):
                flow = self._system.of_trajectories(lost)
                time = float(self._times[k - 1])
                raise _breakdown(flow, self._initial[lost], state[:, lost], time)
            state = new
            states[:, k] = state.T
            if progress:
                progress(len(self._initial))

    def _rates(self, components: np.ndarray, arguments: np.ndarray) -> np.ndarray:
        """Return f (dim, trajectory)."""
        scale, *parameters = arguments
        if not isinstance(self._system, ScaledFlow):
            return np.asarray(self._inner.vector_field_by_component(components))
        return np.asarray(scale * self._inner.vector_field_by_component(components, parameters))


def _by_scipy(
    field: Callable[[np.ndarray, np.ndarray], np.ndarray],
    options: dict[str, Any],
    state: np.ndarray,
    duration: float,
    arguments: np.ndarray,
) -> np.ndarray:
    """Return the state (dim,) of one trajectory after a duration; NaN if the solver fails."""

    def rates(_: float, y: np.ndarray) -> np.ndarray:
        check_time()
        return field(y[:, None], arguments[:, None])[:, 0]

    result = scipy.integrate.solve_ivp(rates, (0.0, duration), state, **options)
    last: np.ndarray = result.y[:, -1]
    return last if result.success else np.full_like(last, np.nan)


def _breakdown(system: System, initial: np.ndarray, last: np.ndarray, time: float) -> InputError:
    """The error for a solution that ends early; the fastest trajectory is named as its cause."""
    name = "t/step" if isinstance(system, ScaledFlow) else "t"
    speed = np.abs(system.vector_field_by_component(last)).max(axis=0)
    worst = int(np.argmax(np.where(np.isfinite(speed), speed, np.inf)))
    return InputError(
        f"the solution of {system.name} from {_written(initial[worst])} cannot be continued beyond "
        f"{name} = {time:.6g}: it grows without bound or leaves the domain of the "
        "equations; choose other initial states or a shorter time"
    )


def _written(state: np.ndarray) -> str:
    """Return a state for a message."""
    return f"({', '.join(f'{x:.6g}' for x in state[:8])}{', ...' if len(state) > 8 else ''})"


class ScaledFlow(System):
    """The flow of several trajectories, one after the other, in time counted in steps.

    Parameters
    ----------
    system
        System with open parameters.
    steps
        Step of each trajectory, (trajectory,).
    parameters
        Parameters of each trajectory, (trajectory, name).

    Attributes
    ----------
    given
        The three arguments.
    """

    def __init__(self, system: System, steps: np.ndarray, parameters: np.ndarray) -> None:
        super().__init__(system.definition)
        self.given = system, steps, parameters

    @property
    def explicit_time(self) -> int | None:
        """None: a component that is the time goes at the speed of its step here."""
        return None

    def vector_field_by_component(self, components: Any, parameters: Any = ()) -> Any:
        """Return components (dim, trajectory): h f(z; parameters) of each, with its own h."""
        _, steps, values = self.given
        return steps * super().vector_field_by_component(components, list(values.T))

    def of_trajectories(self, rows: Any) -> ScaledFlow:
        """Return the flow of some of the trajectories."""
        system, steps, parameters = self.given
        return ScaledFlow(system, steps[rows], parameters[rows])

    def __reduce__(self) -> tuple[Any, ...]:
        return ScaledFlow, self.given


def solve_varied(
    system: System,
    initial: np.ndarray,
    steps: np.ndarray,
    parameters: np.ndarray,
    counts: np.ndarray,
    method: str = "DOP853",
    rtol: float = 1e-12,
    atol: float = 1e-12,
    progress: Callable[[int], None] | None = None,
    sizes: np.ndarray | None = None,
) -> np.ndarray:
    """Solve z' = f(z; parameters) from many initial states, each with its own step and parameters.

    Parameters
    ----------
    system
        System with open parameters, see :meth:`System.with_open`.
    initial
        Initial states, (trajectory, dim).
    steps
        The step of each trajectory, (trajectory,); of a map it is 1.
    parameters
        The parameters of each, (trajectory, name).
    counts
        After how many steps states are given, increasing, (time,); the first is that of the initial
        states.
    method, rtol, atol, progress, sizes
        Arguments of :func:`vpintegrator.dynamics.solve`.

    Returns
    -------
    numpy.ndarray
        States of shape (trajectory, time, dim).

    Raises
    ------
    InputError
        As :func:`vpintegrator.dynamics.solve`.

    Examples
    --------
    >>> from vpintegrator.dynamics.solve import solve_varied
    >>> varied = vp.load_system("harmonic-oscillator").with_open(["k"])
    >>> initial, steps, stiffness = np.ones((2, 2)), np.array([0.1, 0.2]), np.array([[4.0], [1.0]])
    >>> states = solve_varied(varied, initial, steps, stiffness, np.arange(3))
    >>> states[1, 2].round(3)  # after two steps of 0.2
    array([1.31 , 0.532])
    """
    if system.is_discrete:
        states = np.empty((len(initial), len(counts), system.dim))
        iterate(system.iteration(rtol, atol, parameters), system, initial, counts, states, progress)
        return states
    flow = ScaledFlow(system, steps, parameters)
    states = solve(flow, initial, counts, method, rtol, atol, progress, sizes)
    _set_time(states, initial, system.explicit_time, steps[:, None] * (counts - counts[0]))
    return states
