"""Values of Python functions: arrays that are filled again, complex numbers, single precision."""

import warnings

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp

import vpintegrator as vp
from vpintegrator.errors import InputError

STATES = np.random.default_rng(3).uniform(-1, 1, (7, 2))
TIMES = np.linspace(0.0, 3.0, 4)


def _exact(function, states=STATES, times=TIMES):
    """Solutions (trajectory, time, dim) by SciPy, one by one."""
    options = {"method": "DOP853", "rtol": 1e-12, "atol": 1e-12, "t_eval": times}
    span = times[0], times[-1]
    return np.stack([solve_ivp(function, span, y, **options).y.T for y in states])


def _pendulum(t, y):
    return np.array([y[1], -np.sin(y[0])])


class _Buffers:
    """A pendulum that fills and returns its own arrays, with a decision: it is called."""

    def __init__(self):
        self.array, self.rows, self.energy = np.empty(2), [0.0, 0.0], np.empty(1)
        self.tensor, self.out = torch.empty(2, dtype=torch.float64), np.empty((5, 2))

    def by_state(self, t, y):
        self.array[0] = y[1] if y[0] < 50 else 0.0
        self.array[1] = -np.sin(y[0])
        return self.array

    def by_list(self, t, y):
        self.rows[0], self.rows[1] = (y[1] if y[0] < 50 else 0.0), -np.sin(y[0])
        return self.rows

    def by_tensor(self, t, y):
        self.tensor[0], self.tensor[1] = y[1], -torch.sin(y[0])
        return self.tensor

    def by_batch(self, t, y):  # (..., dim)
        if self.out.shape != y.shape:
            self.out = np.empty(y.shape)
        np.copyto(self.out[..., 0], y[..., 1])
        self.out[..., 1] = -np.sin(y[..., 0])
        return self.out

    def in_place(self, t, y):
        angle = float(y[0])
        y[0] = y[1]
        y[1] = -np.sin(angle)
        return y

    def integral(self, z):
        self.energy[0] = z[1] ** 2 / 2 - np.cos(z[0]) if z[0] < 50 else 0.0
        return self.energy


@pytest.mark.parametrize("name", ["by_state", "by_list", "by_tensor", "by_batch", "in_place"])
def test_right_hand_sides_may_return_one_array_again(name):
    buffers = _Buffers()
    system = vp.System.from_function(
        getattr(buffers, name), dim=2, step=0.1, invariants={"e": buffers.integral}
    )
    np.testing.assert_allclose(vp.solve(system, STATES, TIMES), _exact(_pendulum), atol=1e-9)
    energies = STATES[:, 1] ** 2 / 2 - np.cos(STATES[:, 0])
    np.testing.assert_allclose(np.ravel(system.invariants["e"](STATES)), energies, atol=1e-14)
    jacobian = system.jacobian(STATES)
    np.testing.assert_allclose(jacobian[:, 1, 0], -np.cos(STATES[:, 0]), atol=1e-7)


def test_maps_may_return_one_array_again():
    own = np.empty(2)

    def turn(x):
        own[1] = x[1] + 0.3 * np.sin(x[0]) if x[0] < 50 else 0.0
        own[0] = x[0] + own[1]
        return own

    system = vp.System.from_map(turn, dim=2)
    momenta = STATES[:, 1] + 0.3 * np.sin(STATES[:, 0])
    expected = np.column_stack([STATES[:, 0] + momenta, momenta])
    np.testing.assert_allclose(system.map(STATES), expected, atol=1e-14)


TURN = np.array([[0.8, 0.6], [-0.6, 0.8]])


class _OwnMap(vp.Map):
    dim, step = 2, 0.1

    def __init__(self):
        self.image = np.empty((len(STATES), 1, 2))

    def map(self, windows):
        if len(self.image) != len(windows):
            self.image = np.empty(windows.shape)
        np.matmul(windows, TURN, out=self.image)
        windows[:] = 99.0
        return self.image


class _OwnAdvance(_OwnMap):
    def advance(self, windows, steps, *, chunk=1000, parameters=None):
        block = np.empty((len(windows), 1, 2))
        state = windows[:, 0]
        for _ in range(steps):
            state = state @ TURN
            block[:, 0] = state
            yield block


@pytest.mark.parametrize("kind", [_OwnMap, _OwnAdvance])
def test_own_maps_may_return_one_array_again(kind):
    expected = [STATES]
    for _ in range(6):
        expected.append(expected[-1] @ TURN)
    states = vp.rollout(kind(), STATES, 6)
    np.testing.assert_allclose(states, np.stack(expected, axis=1), atol=1e-14)
    given = STATES[:, None].copy()
    first = kind().map(given)
    kind().map(-given)
    np.testing.assert_array_equal(given[:, 0], STATES)
    np.testing.assert_allclose(first[:, 0], expected[1], atol=1e-15)
    np.testing.assert_allclose(kind().derivative(given)[3], TURN.T, atol=1e-10)


def test_a_comparison_runs_maps_that_return_one_array_again():
    rotation = vp.load_system("harmonic-oscillator", k=1.0)
    own = np.empty((5000, 2))
    c, s = np.cos(0.1), np.sin(0.1)

    def turn(z):
        np.matmul(z, [[c, -s], [s, c]], out=own[: len(z)])
        return own[: len(z)]

    exact = vp.Map.from_function(turn, step=0.1, dim=2)
    report = vp.compare(None, [exact], system=rotation, step=0.1, steps=20, trajectories=3)
    run = report.runs["turn"]
    assert np.abs(run.states[:, : report.reference.shape[1]] - report.reference).max() < 1e-12


def test_modules_may_return_one_tensor_again():
    class Module(torch.nn.Module):
        out = torch.empty(7, 2, dtype=torch.float64)

        def forward(self, z):
            if self.out.shape != z.shape:
                self.out = torch.empty_like(z)
            torch.matmul(z, torch.tensor(TURN), out=self.out)
            return self.out

    model = vp.wrap(Module(), dim=2, step=0.1)
    first = model.map(STATES[:, None])
    model.map(-STATES[:, None])
    np.testing.assert_allclose(first[:, 0], STATES @ TURN, atol=1e-15)


def _schroedinger(t, y):
    return -1j * np.array([[1.0, 0.5], [0.5, -1.0]]) @ y


def _filled(t, y):
    rates = np.empty_like(y)
    rates[:] = -1j * y
    return rates


def _in_torch(t, y):
    return 1j * torch.fft.fft(y)


COMPLEX = [_schroedinger, _filled, _in_torch, lambda t, y: [1j * y[0], y[1]]]


@pytest.mark.parametrize("function", COMPLEX)
def test_complex_right_hand_sides_are_refused(function):
    with pytest.raises(InputError, match="complex numbers"):
        vp.System.from_function(function, dim=2)


def test_complex_maps_energies_and_integrals_are_refused():
    def phase(z):
        return np.exp(1j * z[0]) * z

    with pytest.raises(InputError, match="phase returns complex numbers"):
        vp.System.from_map(phase, dim=2)
    with pytest.raises(InputError, match="complex numbers"):
        vp.System.from_hamiltonian(lambda z: (z[0] + 1j * z[1]) ** 2, 1)
    with pytest.raises(InputError, match="complex numbers"):
        vp.System.from_hamiltonian(lambda z: torch.exp(1j * z[0]) + z[1] ** 2, 1)
    with pytest.raises(InputError, match="complex numbers"):
        vp.System.from_function(_pendulum, dim=2, invariants={"psi": lambda z: z[0] + 1j * z[1]})
    for turn in (lambda z: 1j * z, lambda z: np.multiply(z, 1j).tolist()):
        with pytest.raises(InputError, match="complex numbers"):
            vp.Map.from_function(turn, step=0.1, dim=2).map(STATES[:, None])
    with pytest.raises(InputError, match="complex numbers"):
        vp.wrap(_Complex(), dim=2)
    with pytest.raises(InputError, match="complex"):
        vp.rollout.diagnostics.poincare_section(
            STATES[None], 0.1, lambda z: z[..., 0] + 1j * z[..., 1]
        )


class _Complex(torch.nn.Module):
    def forward(self, z):
        return 1j * z


class _ComplexMap(vp.Map):
    dim = 2

    def map(self, windows):
        return windows * np.exp(0.1j)


def test_complex_values_of_own_maps_and_states_are_refused():
    with pytest.raises(InputError, match="complex numbers"):
        vp.rollout(_ComplexMap(), STATES, 3)
    called = vp.System.from_function(lambda t, y: [y[1], -y[0] if y[0] < 9 else 0.0], dim=2)
    with pytest.raises(InputError, match="complex"):
        called.vector_field(STATES + 1j)
    with pytest.raises(InputError):
        vp.solve(called, STATES + 1j, TIMES)


def test_a_schroedinger_equation_in_real_components_moves():
    h = np.array([[1.0, 0.5], [0.5, -1.0]])

    def field(t, y):
        psi = y[:2] + 1j * y[2:]
        rate = -1j * h @ psi
        return np.concatenate([rate.real, rate.imag])

    system = vp.System.from_function(field, dim=4)
    energies, vectors = np.linalg.eigh(h)
    found = vp.solve(system, np.array([[1.0, 0.0, 0.0, 0.0]]), np.array([0.0, 2.0]))[0, 1]
    exact = vectors @ (np.exp(-2j * energies) * vectors[0])
    np.testing.assert_allclose(found[:2] + 1j * found[2:], exact, atol=1e-11)


def test_masked_values_are_missing_and_not_999():
    def turn(z):
        return np.ma.masked_array(z, mask=z > 0.9, fill_value=999)

    images = vp.Map.from_function(turn, step=1.0, dim=2).map(np.array([[[0.5, 0.95]]]))
    np.testing.assert_array_equal(images, [[[0.5, np.nan]]])


# Single precision


class _Jax:
    """An array of another library, in single precision by default."""

    def __init__(self, values):
        self.values = np.asarray(values, np.float32)
        self.dtype = self.values.dtype

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype or np.float32)


def _as_jax(t, y):
    return _Jax([y[1], -np.sin(np.float32(y[0]))])


def _as_doubles(t, y):
    return [float(y[1]), float(-np.sin(np.float32(y[0])))]


def _in_the_middle(t, y):
    return [0.1 * y[1] + 0.9 * y[1], -0.3 * y[0] + float(np.tanh(np.float32(y[0]) - 1))]


def _network():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))


NETWORK = _network()


def _of_network(t, y):
    return NETWORK(y.float())


def _of_network_in_numpy(t, y):
    with torch.no_grad():
        return NETWORK(torch.as_tensor(y, dtype=torch.float32)).numpy().astype(np.float64)


def _half(t, y):
    return y.half() * torch.tensor([-1.0, 1.0])


SINGLE = [_as_jax, _as_doubles, _in_the_middle, _of_network, _of_network_in_numpy]


@pytest.mark.parametrize("function", SINGLE)
def test_single_precision_is_noticed_and_solved(function):
    with pytest.warns(UserWarning, match=r"values of _\w+ are accurate to"):
        system = vp.System.from_function(function, dim=2, step=0.1, sample=(-1, 1))
    assert 1e-8 < system.smallest_tolerance < 1e-5
    states = vp.solve(system, STATES, TIMES)

    def field(t, y):
        with torch.no_grad():
            argument = torch.tensor(y) if function is _of_network else y
            return np.asarray(function(t, argument), dtype=np.float64)

    options = {"method": "RK45", "rtol": 1e-7, "atol": 1e-7, "t_eval": TIMES}
    for row, y in zip(states, STATES, strict=True):
        np.testing.assert_allclose(row, solve_ivp(field, (0, 3), y, **options).y.T, atol=2e-5)


@pytest.mark.parametrize("method", ["RK45", "Radau", "LSODA", "implicit-midpoint"])
def test_generation_in_single_precision_ends(method, tmp_path):
    with pytest.warns(UserWarning, match="accurate"):
        system = vp.System.from_function(_as_doubles, dim=2, step=0.1, sample=(-1, 1))
    dataset = vp.generate(system, tmp_path / "single.h5", count=4, steps=5, method=method)
    states = dataset.states("train")
    exact = _exact(_pendulum, states[:, 0], 0.1 * np.arange(6))
    assert np.abs(states - exact).max() < (1e-3 if method == "implicit-midpoint" else 2e-5)


def test_recipes_take_tolerances_that_can_be_met():
    with pytest.warns(UserWarning, match="accurate"):
        system = vp.System.from_function(_of_network, dim=2, step=0.1)
    recipe = vp.load_recipe(system, rtol=1e-12)
    assert recipe.rtol == recipe.atol == system.smallest_tolerance


@pytest.mark.filterwarnings("ignore:values of")
def test_half_precision_and_comparisons_end():
    system = vp.System.from_function(_half, dim=2, step=0.1)
    assert system.smallest_tolerance > 1e-3
    single = vp.System.from_function(_as_doubles, dim=2, step=0.1)
    report = vp.compare(None, ["rk4", "implicit-midpoint"], system=single, step=0.1, steps=10)
    assert all(np.isfinite(run.states).all() for run in report.runs.values())


def _fast(t, y):
    return [y[1], -np.sin(3e3 * y[0]) if y[0] < 9 else 0.0]


def _steps(t, y):
    return [y[1], -np.sign(y[0])]


def _constant(t, y):
    return [1.0, 0.5 if y[0] < 9 else 0.25]


def _cubic(t, y):
    return [y[1], -np.sin(2e4 * y[0]) - abs(y[0]) ** 3]


def _stiff(t, y):
    return [1e6 * (y[1] - y[0]), y[0] - y[1] if y[0] < 9 else 0.0]


@pytest.mark.parametrize("function", [_fast, _steps, _constant, _stiff, _cubic])
def test_double_precision_is_not_taken_for_single(function):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        system = vp.System.from_function(function, dim=2, step=0.1)
    assert system.smallest_tolerance < 1e-13
