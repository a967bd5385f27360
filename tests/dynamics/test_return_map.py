"""Return maps of flows: where solutions come back to a section, and what the map keeps."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

import vpintegrator as vp
from vpintegrator.errors import InputError

# both oscillate by themselves: the map is a rotation by the angle 2*pi*w
OSCILLATORS = """
state = { q = 2, p = 2 }
parameters = { w = 0.3 }
hamiltonian = "(p[0]**2 + q[0]**2 + p[1]**2 + w**2*q[1]**2)/2"
reversing_symmetry = [{ p = "-p[i]" }]
initial_conditions = { distribution = "uniform", low = -0.5, high = 0.5 }
[return_map]
section = "q[0] = 0"
energy = 2.0
"""
# two degrees of freedom under a force of period 2*pi/omega: the map keeps dq dp in four dimensions
SHAKEN = """
state = { q = 2, p = 2 }
time = "t"
period = "2*pi/omega"
parameters = { omega = 1.7, a = 0.3 }
hamiltonian = "(p[0]**2 + p[1]**2)/2 - cos(q[0]) - cos(q[1] - q[0]) + a*q[1]*cos(omega*t)"
reversing_symmetry = [{ p = "-p[i]" }]
initial_conditions = { distribution = "uniform", low = -0.7, high = 0.7 }
[return_map]
section = "t = 0"
"""
ROTOR = """
state = { q = 2, p = 2 }
periodic = { q = "2*pi" }
hamiltonian = "(p[0]**2 + p[1]**2)/2 - 0.1*cos(q[0]) - 0.1*cos(q[0] - q[1])"
initial_conditions = { distribution = "uniform", low = -1, high = 1 }
[return_map]
section = "q[0] = 1"
direction = "down"
energy = 3.0
"""


def turned(z, angle, w):
    c, s = np.cos(angle), np.sin(angle)
    return np.stack([c * z[..., 0] + s / w * z[..., 1], c * z[..., 1] - w * s * z[..., 0]], -1)


def form_defect(slopes):
    """D^T J D - J of derivatives D (..., dim, dim), relative to these."""
    zero, one = np.zeros((slopes.shape[-1] // 2,) * 2), np.eye(slopes.shape[-1] // 2)
    form = np.block([[zero, one], [-one, zero]])
    change = slopes.swapaxes(-1, -2) @ form @ slopes - form
    return np.abs(change).max() / max(1, np.abs(slopes).max() ** 2)


@pytest.fixture(scope="module")
def henon_heiles():
    return vp.return_map("henon-heiles", "q[0] = 0", energy=0.1)


def slopes(system, z, h=3e-4):
    """Derivatives (n, dim, dim) by central differences of the fourth order."""
    shifts = h * np.eye(system.dim)[:, None]
    near = system.map(z + shifts) - system.map(z - shifts)
    far = system.map(z + 2 * shifts) - system.map(z - 2 * shifts)
    return np.moveaxis((8 * near - far) / (12 * h), 0, -1)


def test_a_map_in_closed_form():
    system = vp.load_system(OSCILLATORS)
    z = system.sample_initial(50, np.random.default_rng(0))
    assert np.abs(system.map(z) - turned(z, 2 * np.pi * 0.3, 0.3)).max() < 2e-12
    states = vp.solve(system, z, np.arange(4), rtol=1e-13, atol=1e-13)
    assert np.abs(states[:, 3] - turned(z, 6 * np.pi * 0.3, 0.3)).max() < 1e-11


def test_what_a_return_map_is():
    system = vp.load_system(OSCILLATORS)
    assert system.is_discrete and system.is_canonical and system.divergence_free
    assert not system.is_hamiltonian and not system.is_measured and system.flow.is_hamiltonian
    assert system.components == ("q[1]", "p[1]") and system.parameters == {"w": 0.3, "energy": 2.0}
    assert system.defaults["step"] == 1 and system.kind == "symplectic map"
    flow = pickle.loads(pickle.dumps(system)).flow
    assert flow.components == ("q[0]", "q[1]", "p[0]", "p[1]")
    other = vp.load_system(OSCILLATORS, energy=3.0, w=0.4)
    assert other.parameters == {"w": 0.4, "energy": 3.0}
    assert vp.load_system(OSCILLATORS.replace("= 2.0", '= "5*w"')).parameters["energy"] == 1.5


def test_crossings_are_those_that_scipy_finds(henon_heiles):
    z = henon_heiles.sample_initial(4, np.random.default_rng(1))
    images, durations = henon_heiles.section_map.images(z, np.empty((4, 0)), 1e-13, 1e-13)
    begins = henon_heiles.section_map.flow_states(z, np.empty((4, 0))).T
    flow, field = henon_heiles.flow, henon_heiles.flow.vector_field
    assert flow.invariants["energy"](begins) == pytest.approx(0.1, abs=1e-15)
    assert (begins[:, 2] > 0).all()

    def passed(_, y):
        return y[0]

    passed.direction = 1
    options = {"method": "DOP853", "rtol": 1e-13, "atol": 1e-13, "max_step": 0.05}
    for begin, image, duration in zip(begins, images, durations, strict=True):
        solution = solve_ivp(lambda _, y: field(y), (0, 12), begin, events=[passed], **options)
        first = np.flatnonzero(solution.t_events[0] > 1e-6)[0]
        assert solution.t_events[0][first] == pytest.approx(duration, abs=1e-11)
        assert solution.y_events[0][first][[1, 3]] == pytest.approx(image, abs=1e-11)


@given(st.integers(0, 10**6))
@settings(max_examples=5, deadline=None)
def test_the_form_is_kept(henon_heiles, seed):
    generator = np.random.default_rng(seed)
    z = 0.6 * henon_heiles.sample_initial(5, generator)  # away from the edge of the section
    assert np.linalg.det(slopes(henon_heiles, z)) == pytest.approx(1, abs=1e-7)
    shaken = vp.load_system(SHAKEN)
    assert form_defect(slopes(shaken, shaken.sample_initial(5, generator))) < 1e-8


@given(st.integers(0, 10**6))
@settings(max_examples=5, deadline=None)
def test_inherited_symmetries_reverse_the_map(henon_heiles, seed):
    for system in (henon_heiles, vp.load_system(OSCILLATORS), vp.load_system(SHAKEN)):
        assert system.reversing_symmetries
        z = system.sample_initial(5, np.random.default_rng(seed))
        for rho in system.reversing_symmetries:
            again = system.map(system.map(z) @ rho.T) @ rho.T
            assert again == pytest.approx(z, abs=1e-9)


def test_symmetries_that_do_not_survive_are_left_out():
    def count(section):
        return len(vp.load_system(SHAKEN.replace("t = 0", section)).reversing_symmetries)

    assert [count(s) for s in ("t = 0", "t = pi/omega", "t = 0.3")] == [1, 1, 0]
    lopsided = OSCILLATORS.replace("q[0]**2 +", "q[0]**2 + q[0]**3/5 +")
    assert not vp.load_system(lopsided).reversing_symmetries  # no mirror image in the section
    assert len(vp.load_system(OSCILLATORS).reversing_symmetries) == 1


def test_stroboscopic_maps_are_solutions_over_a_period():
    system = vp.load_system(SHAKEN)
    assert system.components == ("q[0]", "q[1]", "p[0]", "p[1]") and system.is_canonical
    z = system.sample_initial(6, np.random.default_rng(0))
    for phase in (0.0, 0.8):
        at_phase = vp.load_system(SHAKEN.replace("t = 0", f"t = {phase}"))
        begin = np.hstack([z, np.full((6, 1), phase)])
        times = np.array([0, system.flow.period])
        end = vp.solve(system.flow, begin, times, rtol=1e-13, atol=1e-13)[:, 1]
        assert at_phase.map(z) == pytest.approx(end[:, :4], abs=1e-11)


def test_crossings_and_directions():
    plain = vp.load_system(OSCILLATORS)
    z = plain.sample_initial(5, np.random.default_rng(0))
    twice, down = (
        vp.load_system(OSCILLATORS + key) for key in ("crossings = 2", 'direction = "down"')
    )
    assert twice.map(z) == pytest.approx(plain.map(plain.map(z)), abs=1e-11)
    assert down.map(z) == pytest.approx(plain.map(z), abs=1e-11)  # by symmetry
    assert (down.section_map.flow_states(z, np.empty((5, 0)))[2] < 0).all()


def test_angles_come_back_a_turn_later():
    system = vp.load_system(ROTOR.replace('direction = "down"\n', ""))
    assert system.periods == {0: pytest.approx(2 * np.pi)}
    z = np.array([[0.3, 0.5], [0.3 + 2 * np.pi, 0.5]])
    images, durations = system.section_map.images(z, np.empty((2, 0)), 1e-13, 1e-13)
    assert durations == pytest.approx(2 * np.pi / np.sqrt(6), rel=0.1)
    assert images[1] - images[0] == pytest.approx([2 * np.pi, 0], abs=1e-11)


def test_sections_of_flows_without_a_hamiltonian():
    system = vp.return_map("rigid-body", "z3 = 0.1")
    assert system.components == ("z1", "z2") and system.kind == "map"
    z = np.array([[0.5, 0.4], [0.3, 0.6]])
    images = system.map(z)
    for invariant in system.invariants.values():
        assert invariant(images) == pytest.approx(invariant(z), abs=1e-12)


def test_parameters_and_the_energy_may_be_left_open(henon_heiles):
    varied = henon_heiles.with_open(["energy"])
    energies = np.array([[0.05], [0.08], [0.12]])
    z = np.array([[0.1, 0.1]] * 3)
    images = varied.iteration(1e-13, 1e-13, energies)(z)
    for energy, image in zip(energies[:, 0], images, strict=True):
        single = vp.return_map("henon-heiles", "q[0] = 0", energy=energy)
        assert single.map(z[0]) == pytest.approx(image, abs=1e-12)
    shaken = vp.load_system(SHAKEN)
    values, z = np.array([[1.2, 0.1], [2.0, 0.4]]), np.full((2, 4), 0.2)
    images = shaken.with_open(["omega", "a"]).iteration(1e-13, 1e-13, values)(z)
    for k, (omega, a) in enumerate(values):  # the period is another, too
        single = vp.load_system(SHAKEN, omega=omega, a=a)
        assert single.map(z[k]) == pytest.approx(images[k], abs=1e-11)


def test_initial_states_are_on_the_section(henon_heiles):
    z = henon_heiles.sample_initial(200, np.random.default_rng(0))
    assert np.isfinite(henon_heiles.section_map.flow_states(z, np.empty((200, 0)))).all()
    own = OSCILLATORS + '[return_map.initial_conditions]\ndistribution = "points"\npoints = '
    system = vp.load_system(own + "[[0.1, 0.2], [0.3, 0.4]]")
    assert system.initial_conditions.available == 2
    with pytest.raises(InputError, match="too small for any momentum"):
        vp.load_system(own + "[[0.1, 9.0]]").sample_initial(1, np.random.default_rng(0))


def test_what_does_not_come_back_is_told(henon_heiles):
    escaping = vp.return_map("henon-heiles", "q[0] = 0", energy=0.3)
    z = np.array([[0.1, 0.0], [0.9, 0.3]])
    assert np.isnan(escaping.map(z)).any()
    with pytest.raises(InputError, match=r"do not come back to q\[0\] = 0 at return"):
        vp.solve(escaping, np.tile(z, (1, 1)), np.arange(30))
    with pytest.raises(InputError, match="located by DOP853"):
        vp.solve(henon_heiles, z, np.arange(3), method="Radau")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("q[0] = 0", "p[0] = 0"), r"p\[0\] is a momentum"),
        (("energy = 2.0", ""), "of a Hamiltonian flow have an energy"),
        (("energy = 2.0", "energy = 2.0\ncrossings = 0"), "crossings are a whole number"),
        (("p[0]**2 + q", "p[0]**4 + q"), "quadratic in it"),
    ],
)
def test_what_makes_no_map_is_refused(change, message):
    with pytest.raises(InputError, match=message):
        vp.load_system(OSCILLATORS.replace(*change))


@pytest.mark.parametrize(
    ("system", "section", "energy", "message"),
    [
        ("forced-duffing", "q = 0", None, "their map is stroboscopic"),
        ("chirped-pendulum", "t = 0", None, "and a period in t"),
        ("rigid-body", "z1 = 0", 1.0, "others have none"),
    ],
)
def test_flows_without_such_a_map_refuse(system, section, energy, message):
    with pytest.raises(InputError, match=message):
        vp.return_map(system, section, energy=energy)


@pytest.mark.parametrize("text", [OSCILLATORS, SHAKEN, ROTOR])
def test_parts_of_the_way_keep_the_form(text):
    system, parts = vp.load_system(text), 3
    z = system.sample_initial(4, np.random.default_rng(0))
    shifts = 1e-4 * np.eye(system.dim)
    shifted = np.concatenate([z + side * d for d in shifts for side in (1, -1)])
    found = system.states_between(np.concatenate([z, shifted]), parts)
    assert found[-1, :4] == pytest.approx(system.map(z), abs=1e-9)
    sides = found[:, 4:].reshape(parts + 1, system.dim, 2, 4, system.dim)
    slopes = ((sides[:, :, 0] - sides[:, :, 1]) / 2e-4).transpose(0, 2, 3, 1)
    assert form_defect(slopes) < 2e-6


def test_families_of_return_maps_have_parts():
    family = vp.dynamics.Family(vp.load_system(OSCILLATORS), ["energy"], 1.0)
    z = np.array([[0.1, 0.2, 2.0], [0.3, -0.1, 1.0]])
    found = family.extended.states_between(z, 4)
    assert found.shape == (5, 2, 3) and (found[..., 2] == [2.0, 1.0]).all()
    assert found[-1] == pytest.approx(family.extended.map(z), abs=1e-9)
    assert found[2, :, :2] == pytest.approx(turned(z[:, :2], 0.3 * np.pi, 0.3), abs=1e-8)
    assert vp.return_map("rigid-body", "z3 = 0.1").states_between(z[:, :2], 4) is None


FREE_ROTOR = """
state = ["q", "x", "p", "y"]
parameters = { e = 0.0 }
hamiltonian = "p**2/2 + (y**2 + x**2)/2 + e*x*cos(q)"
periodic = { q = "2*pi" }
"""
POLAR = """
state = ["r", "phi", "pr", "L"]
hamiltonian = "pr**2/2 + L**2/(2*r**2) - 1/r"
periodic = { phi = "2*pi" }
"""
# the angle swings to and fro while it turns, and passes planes several times
SWINGING = """
state = ["x", "y", "q"]
parameters = { a = 0.3, b = 1.0 }
vector_field = { x = "y", y = "-x", q = "a + b*x" }
periodic = { q = 2.0 }
"""


def event_times(field, start, component, period, way, count, most=400.0):
    """Times at which an angle passes planes in one direction, by the events of solve_ivp."""

    def event(t, z):
        return np.sin(2 * np.pi * (z[component] - start[component]) / period / 2)

    def field_(t, z):
        return field(z)

    options = {"rtol": 1e-11, "atol": 1e-12, "max_step": 0.05, "events": event}
    found = solve_ivp(field_, (0, most), start, method="DOP853", **options)
    times, states = found.t_events[0], found.y_events[0]
    rates = np.array([field(z)[component] for z in states])
    keep = (times > 1e-6) & (rates * way > 0)
    return times[keep][:count]


@pytest.mark.parametrize("e", [0.0, 1e-10, 1e-3, 0.3])
@pytest.mark.parametrize("crossings", [1, 3])
@pytest.mark.parametrize("direction", ["up", "down"])
def test_fast_rotors_return_at_each_turn(e, crossings, direction):
    flow = vp.load_system(FREE_ROTOR, e=e)
    options = {"energy": 2.0, "crossings": crossings, "direction": direction}
    returns = vp.return_map(flow, "q = 0.4", **options)
    states = np.array([[0.1, 0.2], [0.0, 0.0], [-0.5, 0.3]])
    none = np.empty((3, 0))
    _, durations = returns.section_map.images(states, none, 1e-13, 1e-13)
    starts = returns.section_map.flow_states(states, none).T
    way = 1 if direction == "up" else -1
    for start, duration in zip(starts, durations, strict=True):
        times = event_times(flow.vector_field, start, 0, 2 * np.pi, way, crossings, 12.0)
        assert duration == pytest.approx(times[crossings - 1], abs=1e-8)


@pytest.mark.parametrize("crossings", [1, 2])
def test_kepler_in_polar_coordinates_returns_after_a_period(crossings):
    returns = vp.return_map(vp.load_system(POLAR), "phi = 0", energy=-0.5, crossings=crossings)
    states = np.array([[1.0, 0.0], [1.3, 0.2], [0.6, -0.1]])
    images, durations = returns.section_map.images(states, np.empty((3, 0)), 1e-13, 1e-13)
    np.testing.assert_allclose(images, states, atol=1e-10)  # orbits close
    np.testing.assert_allclose(durations, 2 * np.pi * crossings, atol=1e-9)
    between = returns.section_map.states_between(states, crossings)
    assert between is None or between.shape == (crossings + 1, 3, 2)


@pytest.mark.parametrize("b", [0.0, 0.5, 3.0])
@pytest.mark.parametrize("direction", ["up", "down"])
def test_angles_that_swing_return_at_the_first_passage(b, direction):
    flow = vp.load_system(SWINGING, b=b, a=0.3 if direction == "up" else -0.3)
    returns = vp.return_map(flow, "q = 0.2", direction=direction)
    way = 1 if direction == "up" else -1
    for x, y in ((0.2, 0.1), (-0.3, 0.4), (1.0, 0.0)):
        start = np.array([x, y, 0.2])
        _, durations = returns.section_map.images(start[None, :2], np.empty((1, 0)), 1e-12, 1e-12)
        if flow.vector_field(start)[2] * way <= 0:  # it starts the other way
            continue
        times = event_times(flow.vector_field, start, 2, 2.0, way, 1, 40.0)
        assert durations[0] == pytest.approx(times[0], abs=1e-7)
