"""Systems of Python functions that no formulas say."""

import numpy as np
import pytest
import torch

import vpintegrator as vp
from vpintegrator.dynamics.functions.calls import Values, read_call


def spring(t, y):
    """An oscillator whose spring is four times as stiff when it is pressed."""
    return np.stack([y[..., 1], -(1 + 3 * (y[..., 0] > 0)) * y[..., 0]], axis=-1)


def energy(z):
    return z[..., 1] ** 2 / 2 + (0.5 + 1.5 * (z[..., 0] > 0)) * z[..., 0] ** 2


def loop(t, y):
    q, p = float(y[0]), float(y[1])
    return [p, -4 * q if q > 0 else -q]


def of_tensors(t, y):
    return torch.stack([y[1], -(1 + 3 * (y[0] > 0)) * y[0]])


def oscillator(**claims):
    given = {"components": ["q", "p"], "hamiltonian": energy, "step": 0.1} | claims
    return vp.System.from_function(spring, 2, **given)


def exact(states):
    q, p = states[..., 0], states[..., 1]
    return np.stack([p, -np.where(q > 0, 4.0, 1.0) * q], axis=-1)


@pytest.mark.parametrize("function", [spring, loop, of_tensors])
def test_a_function_with_decisions_is_called(function):
    system = vp.System.from_function(function, 2)
    states = np.random.default_rng(0).normal(size=(6, 2))
    np.testing.assert_allclose(system.vector_field(states), exact(states), rtol=1e-15)
    assert not system.has_formulas
    assert not system.is_measured
    assert system.divergence_free
    slopes = system.jacobian(np.array([[0.5, 1.0], [-0.5, 1.0]]))
    np.testing.assert_allclose(slopes[:, 1, 0], [-4.0, -1.0], rtol=1e-10)
    expected = "autograd" if function is of_tensors else "finite differences"
    assert system.derivatives == expected


@pytest.mark.parametrize(
    ("function", "library", "axis"),
    [
        (lambda y: np.stack([y[..., 1], -y[..., 0]], -1), "numpy", -1),
        (lambda y: [y[1], -y[0]], "numpy", 0),
        (lambda y: [y[1], -y[0] if y[0] > 0 else -2 * y[0]], "numpy", None),
        (lambda y: torch.stack([y[..., 1], -y[..., 0].sin()], -1), "torch", -1),
        (lambda y: torch.stack([y[1], -y[0].sin()]), "torch", 0),
        (lambda y: y[:, ::-1], "numpy", -1),
    ],
)
def test_library_and_axis_are_found_out(function, library, axis):
    call = read_call(function, "f", {})
    values = Values(call, 2, {}, np.random.default_rng(0).normal(size=(4, 2)), np.zeros(4))
    assert (values.library, values.axis) == (library, axis)


def test_claims_stay_with_the_text(tmp_path):
    system = oscillator(reversing_symmetries=[[1, -1]])
    assert system.structure == "Hamiltonian"
    assert system.hamiltonian([1.0, 1.0]) == 2.5
    data = vp.generate(system, tmp_path / "spring.h5", count=20, steps=10)
    assert data.system is system
    stored = vp.open_dataset(data.path).system
    assert stored.is_measured
    assert stored.structure == "measured, symplectic"
    assert stored.derivatives == "finite differences"
    assert stored.function.endswith("test_called_functions:spring")
    np.testing.assert_array_equal(stored.reversing_symmetries[0], np.diag([1, -1]))
    assert "def " not in stored.text
    states = data.states("train")
    again = vp.solve(system, states[:2, 0], data.times("train"))
    np.testing.assert_allclose(again, states[:2], atol=1e-10)


def test_classical_methods_run_and_say_what_they_need():
    system = oscillator()
    report = vp.compare(None, ["rk4", "implicit-midpoint"], system=system, steps=20, trajectories=2)
    assert report.runs["implicit-midpoint"].volume["step"] is not None
    assert set(report.runs["rk4"].invariants) == {"energy"}
    assert "finite differences" in " ".join(vp.plotting.tables.notes(report))
    message = (
        "stoermer-verlet needs formulas, but spring is a Python function that was not recorded"
    )
    with pytest.raises(vp.InputError, match=message):
        vp.compare(None, "stoermer-verlet", system=system, steps=5)
    names, reasons = vp.rollout.applicable_methods(system)
    assert "gauss-legendre-4" in names
    assert "needs formulas" in reasons["coordinate-splitting"]
    for method in ("gauss-legendre-4", "dop853"):
        states = vp.integrate(system, method, [[1.0, 0.0]], 0.1, 10)
        assert abs(system.hamiltonian(states[0, -1]) - 2) < 5e-3


@pytest.mark.parametrize(
    "call",
    [
        lambda system, path: vp.return_map(system, "q = 0"),
        lambda system, path: vp.generate(system, path, count=4, steps=3, vary={"step": [0.1, 0.2]}),
        lambda system, path: vp.integrate(system, "rk4", [[1.0, 0.0]], 0.1, 3, compiled=True),
    ],
)
def test_what_needs_formulas_says_so(call, tmp_path):
    with pytest.raises(vp.InputError, match="needs formulas, but spring is a Python function"):
        call(oscillator(), tmp_path / "data.h5")


def test_a_model_is_trained_and_compared_with_the_function(tmp_path):
    system = oscillator()
    data = vp.generate(system, tmp_path / "spring.h5", count=40, steps=10)
    model = vp.models.build(data.system, "auto")
    assert model.name == "spff"
    vp.train(model, data, epochs=2, compiled=False)
    report = vp.compare(model, "rk4", system=system, steps=5, trajectories=2, compiled=False)
    assert set(report.runs) == {"spff", "rk4"}


def test_parameters_are_changed_by_calling_with_others():
    def stiff(t, y, k):
        return [y[1], -k * y[0] if y[0] > 0 else -y[0]]

    system = vp.System.from_function(stiff, 2, parameters={"k": 4.0})
    other = system.with_parameters({"k": 9.0})
    np.testing.assert_allclose(other.vector_field([1.0, 0.0]), [0.0, -9.0])
    assert other.parameters == {"k": 9.0}
    with pytest.raises(vp.InputError, match="no parameter 'm'"):
        system.with_parameters({"m": 1.0})


def test_a_hamiltonian_of_a_network_has_autograd():
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(2, 6), torch.nn.Tanh(), torch.nn.Linear(6, 1))
    network.double()
    system = vp.System.from_hamiltonian(
        lambda z: network(z)[..., 0] + z[..., 1] ** 2 / 2, 1, step=0.2, name="network"
    )
    states = np.random.default_rng(0).normal(size=(5, 2))
    slopes = system.jacobian(states)
    np.testing.assert_allclose(slopes[:, 0, 0], -slopes[:, 1, 1], atol=1e-14)
    orbit = vp.solve(system, states, np.linspace(0, 2, 5))
    drift = system.hamiltonian(orbit) - system.hamiltonian(orbit[:, :1])
    assert np.abs(drift).max() < 1e-11


def test_a_function_of_time_that_decides():
    def kicked(t, y):
        return [y[1], -y[0] + (0.3 if np.sin(t) > 0 else -0.3)]

    system = vp.System.from_function(kicked, 2, period=2 * np.pi)
    assert (system.time, system.dim) == ("t", 3)
    np.testing.assert_allclose(system.vector_field([1.0, 0.0, 1.0]), [0.0, -0.7, 1.0])
    np.testing.assert_allclose(system.vector_field([1.0, 0.0, 4.0]), [0.0, -1.3, 1.0])


@pytest.mark.parametrize(
    ("claims", "message"),
    [
        ({"hamiltonian": lambda z: z[..., 1] ** 2}, "f is not .* they differ by .* at q = "),
        ({"invariants": {"momentum": lambda z: z[..., 1]}}, "momentum: this is not constant"),
        ({"divergence_free": False}, "said false, but is 0"),
        ({"reversing_symmetries": [[-1, 1]]}, "1: f.rho z. = -rho f.z. fails by .* at q = "),
        ({"periodic": {"q": 1.0}}, "f changes after a period by .* at q = "),
        ({"sample": (np.nan, 1.0)}, "sample must be"),
    ],
)
def test_wrong_claims_are_refused(claims, message):
    with pytest.raises(vp.InputError, match=message):
        oscillator(**claims)


def test_a_damped_function_is_not_divergence_free():
    def damped(t, y):
        return [y[1], -0.2 * y[1] - (4 * y[0] if y[0] > 0 else y[0])]

    assert not vp.System.from_function(damped, 2).divergence_free
    with pytest.raises(vp.InputError, match=r"the divergence is -?0\.2 at y1 = "):
        vp.System.from_function(damped, 2, divergence_free=True)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda t, y: [y[0]] if y[0] > 0 else [y[1]], r"shape \(1,\) where \(2,\) is expected"),
        (lambda t, y: "a" if y[0] > 0 else "b", "no array of real numbers"),
        (lambda t, y: y / 0 if y[0] else None.x, "cannot be called|no finite value"),
        (lambda t, y: [np.nan, 1.0] if y[0] > 9 else [np.nan, 2.0], "no finite value at states"),
    ],
)
def test_functions_that_return_something_else_are_refused(function, message):
    with pytest.raises(vp.InputError, match=message):
        vp.System.from_function(function, 2)


def test_a_numpy_hamiltonian_that_decides_asks_for_torch():
    with pytest.raises(vp.InputError, match="write it with torch's functions"):
        vp.System.from_hamiltonian(energy, 1)


def test_functions_of_modules_go_to_other_processes(tmp_path):
    import pickle

    system = oscillator()
    again = pickle.loads(pickle.dumps(system))
    np.testing.assert_array_equal(again.vector_field([1.0, 2.0]), system.vector_field([1.0, 2.0]))
    local = vp.System.from_function(lambda t, y: [y[1], -y[0] if y[0] > 0 else y[0]], 2)
    with pytest.raises(vp.InputError, match="cannot be sent to other processes"):
        pickle.dumps(local)
