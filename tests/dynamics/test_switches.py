"""Forces that switch in the time or are shorter than a step, against closed forms and SciPy."""

import itertools

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp

import vpintegrator as vp
from vpintegrator.data.generation.generate import _shortened
from vpintegrator.dynamics.solve import solve_varied
from vpintegrator.dynamics.switches import hidden_forces, switch_times
from vpintegrator.errors import InputError


def formulas(force, **parameters):
    """A unit oscillator under a force in the time."""
    numbers = ", ".join(f"{key} = {value}" for key, value in parameters.items())
    return vp.load_system(
        f'state = ["q", "p"]\ntime = "t"\nparameters = {{ {numbers} }}\n'
        f'vector_field = {{ q = "p", p = "-q + {force}" }}'
    )


def called(force):
    return vp.System.from_function(lambda t, y: np.array([y[1], -y[0] + force(t)]), dim=2)


def after(force, breaks, end, start=0.0, state=(0.0, 0.0)):
    """The state (q, p) at a time, integrated by SciPy from one break to the next."""
    y = np.array(state, dtype=float)
    edges = [start, *(b for b in breaks if start < b < end), end]
    for a, b in itertools.pairwise(edges):
        inside = 1e-12 * (1 + abs(b))

        def field(t, y, a=a, b=b, inside=inside):
            return [y[1], -y[0] + force(min(max(t, a + inside), b - inside))]

        options = {"method": "DOP853", "rtol": 1e-12, "atol": 1e-13}
        y = solve_ivp(field, (a, b), y, max_step=min(b - a, 2.0) / 4, **options).y[:, -1]
    return y


def of_pulse(begin, end, strength, time):
    """The closed form of an oscillator at rest that a constant force moves for a while."""
    q = strength * (np.cos(time - end) - np.cos(time - begin))
    return np.array([q, strength * (np.sin(time - begin) - np.sin(time - end))])


def last(system, times, count=1, **options):
    states = np.zeros((count, system.dim))
    states[:, 2:] = times[0]
    return vp.solve(system, states, np.asarray(times), **options)[0, -1, :2]


PULSES = [
    ("where(t > 30, where(t < 30.2, 2, 0), 0)", 30.0, 30.2),
    ("2*where(abs(t - 41.37) < 0.003, 1, 0)", 41.367, 41.373),
    ("where((t - 7.5)*(7.6 - t) > 0, 2, 0)", 7.5, 7.6),
    ("(1 - where(t <= 55.5, 1, 0))*(1 + where(t > 55.75, -1, 1))", 55.5, 55.75),
    ("2*where(sin(t/20) > 0.9999, 1, 0)", 20 * np.arcsin(0.9999), 20 * (np.pi - np.arcsin(0.9999))),
]


@pytest.mark.parametrize(("force", "begin", "end"), PULSES)
@pytest.mark.parametrize("method", ["DOP853", "RK45", "LSODA"])
def test_short_forces_in_formulas_are_found(force, begin, end, method):
    tolerance = 1e-12 if method == "DOP853" else 1e-9
    found = last(formulas(force), [0.0, 60.0], method=method, rtol=tolerance, atol=tolerance)
    error = 1e-10 if method == "DOP853" else 1e-5
    np.testing.assert_allclose(found, of_pulse(begin, end, 2.0, 60.0), atol=error)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("outputs", [2, 7, 31])
def test_called_forces_of_a_25th_of_the_output_step_are_found(seed, outputs):
    times = np.linspace(0.0, 60.0, outputs)
    width = max(times[1] / 25 if outputs > 2 else 0.2, 0.04)
    begin = np.random.default_rng(seed).uniform(0.1, 57.0)
    system = called(lambda t: 3.0 if begin < t < begin + width else 0.0)
    assert system.dim == 3  # it depends on the time
    exact = of_pulse(begin, begin + width, 3.0, 60.0)
    np.testing.assert_allclose(last(system, times), exact, atol=1e-10)


def _table(t):
    return np.interp(t, [0, 20, 20.1, 20.2, 60], [0, 0, 1, 0, 0])


def _smooth(t):
    return 4 * np.exp(-(((t - 33.3) / 0.04) ** 2))


def _ripple(t):
    return np.cos(t) + (2.0 if 12.01 < t < 12.3 else 0.0)


def _train(t):
    return 1.0 if t % 7 < 0.05 else 0.0


def _slow(t):
    return float(np.sin(0.3 * t))


FORCES = [
    (_table, [20, 20.1, 20.2]),
    (_smooth, [33.1, 33.3, 33.5]),
    (_ripple, [12.01, 12.3]),
    (_train, [x for k in range(9) for x in (7 * k, 7 * k + 0.05)]),
    (_slow, []),
    (lambda t: max(0.0, 1 - 10 * abs(t - 44.4)), [44.3, 44.4, 44.5]),
]


@pytest.mark.parametrize(("force", "breaks"), FORCES)
def test_called_forces_of_other_shapes_are_found(force, breaks):
    exact = after(force, breaks, 60.0)
    for times in ([0.0, 60.0], np.linspace(0, 60, 9)):
        np.testing.assert_allclose(last(called(force), times), exact, atol=2e-9)


def test_smooth_forces_in_formulas_and_hats_are_found():
    exact = after(_smooth, [33.1, 33.3, 33.5], 60.0)
    np.testing.assert_allclose(
        last(formulas("4*exp(-((t - 33.3)/0.04)**2)"), [0.0, 60.0]), exact, atol=1e-9
    )
    hat, breaks = FORCES[-1]
    np.testing.assert_allclose(
        last(formulas("max(0, 1 - 10*abs(t - 44.4))"), [0.0, 60.0]),
        after(hat, breaks, 60.0),
        atol=1e-10,
    )


def _batched(t, y):
    force = np.where((t > 30) & (t < 30.2), 2.0, 0.0)
    return np.stack([y[..., 1], force - y[..., 0]], axis=-1)


def _in_torch(t, y):
    force = 2.0 * ((t > 30) & (t < 30.2))
    return torch.stack([y[..., 1], force - y[..., 0]], dim=-1)


@pytest.mark.parametrize("function", [_batched, _in_torch])
def test_functions_of_batches_and_of_torch_notice_late_forces(function):
    system = vp.System.from_function(function, dim=2)
    np.testing.assert_allclose(
        last(system, [0.0, 60.0], count=3), of_pulse(30, 30.2, 2.0, 60.0), atol=1e-10
    )


def _without(t, y):
    return [y[1], -y[0] if y[0] < 9 else 0.0]


def _with_a_zero(t, y):
    return [y[1] + 0 * t, -abs(y[0])]


@pytest.mark.parametrize("function", [_without, _with_a_zero])
def test_functions_that_leave_the_time_alone_have_no_time(function):
    assert vp.System.from_function(function, dim=2).explicit_time is None


def test_trajectories_begin_at_times_of_their_own():
    system = formulas("where(t > 3, where(t < 3.1, 2, 0), 0)")
    starts = np.array([0.0, 1.7, 2.95, 3.05, 3.2])
    initial = np.column_stack([np.zeros((5, 2)), starts])
    states = vp.solve(system, initial, np.array([0.0, 10.0, 20.0]))
    for row, start in zip(states, starts, strict=True):
        begin, end = np.clip([3.0, 3.1], start, None)
        for k, later in ((1, 10.0), (2, 20.0)):
            exact = of_pulse(begin, end, 2.0, start + later)
            np.testing.assert_allclose(row[k, :2], exact, atol=1e-10)
            assert row[k, 2] == start + later


def test_times_of_switching_may_vary_with_parameters():
    system = formulas("a*where(t > b, where(t < b + 0.1, 1, 0), 0)", a=1.0, b=1.0)
    varied = system.with_open(["a", "b"])
    steps, values = np.array([10.0, 12.0, 9.0]), np.array([[1.0, 3.0], [2.0, 17.0], [3.0, 5.5]])
    initial = np.zeros((3, 3))
    states = solve_varied(varied, initial, steps, values, np.arange(3))
    for row, step, (a, b) in zip(states, steps, values, strict=True):
        exact = of_pulse(b, b + 0.1, a, 2 * step)
        np.testing.assert_allclose(row[2, :2], exact, atol=1e-10)


def test_stroboscopic_maps_feel_short_kicks():
    """A rotor that is kicked for 0.002 of its period: between kicks its momentum is constant."""
    flow = vp.load_system(
        'state = ["q", "p"]\ntime = "t"\nperiod = 20.0\nparameters = { w = 0.04 }\n'
        'hamiltonian = "p**2/2 + q*where(sin(2*pi*t/20) > 0.99, 1, 0)"'
    )
    width = 20 * (np.pi - 2 * np.arcsin(0.99)) / (2 * np.pi)
    section = vp.return_map(flow, "t = 0")
    states = np.array([[0.0, 0.0], [0.3, -0.2]])
    images = section.map(states)
    middle = 5.0  # of the kick: it moves q by -width*(20 - middle)
    np.testing.assert_allclose(images[:, 1], states[:, 1] - width, atol=1e-11)
    expected = states[:, 0] + 20 * states[:, 1] - width * (20 - middle)
    np.testing.assert_allclose(images[:, 0], expected, atol=1e-9)


def test_generated_data_and_references_feel_short_forces(tmp_path):
    text = formulas("where(t > 2.03, where(t < 2.07, 5, 0), 0)").text
    text += '\n[initial_conditions]\ndistribution = "uniform"\nlow = [0, 0]\nhigh = [0, 0]\n'
    text += "\n[defaults]\nstep = 1.0\n"
    system = vp.load_system(text)
    dataset = vp.generate(system, tmp_path / "kicked.h5", count=3, steps=5)
    exact = np.array([of_pulse(2.03, 2.07, 5.0, t) if t > 2.5 else [0, 0] for t in range(6)])
    np.testing.assert_allclose(dataset.states("train")[0, :, :2], exact, atol=1e-11)
    assert dataset.accuracy["estimated_error"] < 1e-10
    reference = vp.rollout.solve_reference(system, np.zeros((1, 3)), np.arange(6.0))
    np.testing.assert_allclose(reference.states[0, :, :2], exact, atol=1e-11)


def test_a_lost_generation_names_short_forces():
    for name, named in (("forced-pendulum", True), ("pendulum", False)):
        with pytest.raises(InputError, match="give a smaller rtol") as caught:
            _shortened(vp.load_recipe(name), 0)
        assert ("force shorter than" in str(caught.value)) == named


@pytest.mark.parametrize("name", ["forced-pendulum", "chirped-pendulum", "many-waves"])
def test_smooth_systems_have_no_stops(name):
    system = vp.load_system(name)
    starts = np.array([0.0, 3.0])
    assert switch_times(system.equations, starts, starts + 100.0).shape == (2, 0)


@pytest.mark.filterwarnings("ignore:values of")
def test_rounding_errors_in_the_time_are_no_forces():
    def single(t, y):
        return np.array([y[1], np.float32(np.cos(t)) - y[0]], dtype=np.float32)

    system = vp.System.from_function(single, dim=2)
    assert system.smallest_tolerance > 1e-8

    def rates(components):
        return system.vector_field_by_component(components)

    state, edges = np.array([0.3, -0.2, 0.0]), np.linspace(0, 6, 13)
    assert not len(hidden_forces(rates, state, edges, system.smallest_tolerance))
    exact = after(np.cos, [], 6.0)
    np.testing.assert_allclose(last(system, edges), exact, atol=2e-5)
