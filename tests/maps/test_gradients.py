"""Derivatives of classical methods in PyTorch, by states and by parameters of the system."""

import numpy as np
import pytest
import torch

import vpintegrator as vp
from vpintegrator.errors import InputError
from vpintegrator.maps import METHODS, OneStepMethod

ONE_STEP = [name for name, method in METHODS.items() if isinstance(method, OneStepMethod)]
PARTICLE = """
state = ["x", "y", "u", "v"]
[parameters]
B = 0.7
k = 0.3
[vector_field]
x = "u"
y = "v"
u = "-k*x**3 + v*(B + x*y/4)"
v = "-sin(y) - u*(B + x*y/4)"
"""
FORCED = """
state = ["q", "p"]
hamiltonian = "p**2/2 + k*cos(q) - a*q*cos(t)"
time = "t"
period = "2*pi"
[parameters]
k = 1.0
a = 0.4
"""


def case(name):
    """A map, a state of two trajectories, and parameters: one for all, one of each trajectory."""
    text, names = (PARTICLE, "Bk") if name == "boris" else (FORCED, "ka")
    map = vp.classical(name, vp.load_system(text), 0.3)
    states = torch.tensor(np.random.default_rng(0).normal(size=(2, map.dim)), requires_grad=True)
    first = torch.tensor(0.8, dtype=torch.float64, requires_grad=True)
    second = torch.tensor([0.3, 0.5], dtype=torch.float64, requires_grad=True)
    return map, states, dict(zip(names, (first, second), strict=True))


@pytest.mark.parametrize("name", ONE_STEP)
def test_first_and_second_derivatives_by_states_and_parameters(name):
    map, states, parameters = case(name)

    def function(z, *values):
        return map(z, dict(zip(parameters, values, strict=True)))

    assert torch.autograd.gradcheck(function, (states, *parameters.values()))
    assert torch.autograd.gradgradcheck(function, (states, *parameters.values()), atol=1e-7)


@pytest.mark.parametrize("name", ONE_STEP)
def test_tensors_and_arrays_have_the_same_step_and_derivative(name):
    map, states, parameters = case(name)
    windows = states.detach().numpy()[:, None]
    values = {key: value.detach().numpy() for key, value in parameters.items()}
    step = map(states, parameters)
    np.testing.assert_allclose(step.detach(), map.map(windows, values)[:, 0], rtol=1e-14)
    for row in range(2):
        own = {k: v if v.ndim == 0 else v[row] for k, v in values.items()}
        system = map.system.with_parameters({k: float(v) for k, v in own.items()})
        at_values = vp.classical(name, system, map.step)
        expected = at_values.derivative(windows[row : row + 1])
        tensor = torch.tensor(windows[row, 0])
        slopes = torch.autograd.functional.jacobian(lambda z, p=own: map(z, p), tensor)
        np.testing.assert_allclose(slopes, expected[0], atol=1e-13)
        np.testing.assert_allclose(map.derivative(windows, values)[row], expected[0], atol=1e-13)
        *_, last = at_values.advance(windows[row : row + 1], 20)
        *_, own_last = map.advance(windows, 20, parameters=values)
        np.testing.assert_allclose(own_last[row], last[0], atol=1e-12)


def extended(name, z, steps, h, k, a, time):
    """Loss over steps for FORCED in extended precision, by RK4 or the implicit midpoint rule."""

    def field(y, t):
        return np.array([y[1], k * np.sin(y[0]) + a * np.cos(t)])

    y, loss = np.array(z), np.longdouble(0)
    for t in time + np.arange(steps) * h:
        if name == "rk4":
            k1 = field(y, t)
            k2 = field(y + h / 2 * k1, t + h / 2)
            k3 = field(y + h / 2 * k2, t + h / 2)
            y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + field(y + h * k3, t + h))
        else:
            start = y
            for _ in range(60):
                y = start + h * field((start + y) / 2, t + h / 2)
        loss += y @ y
    return loss


@pytest.mark.parametrize("name", ["implicit-midpoint", "rk4"])
def test_gradients_of_a_loss_over_100_steps_in_extended_precision(name):
    map = vp.classical(name, vp.load_system(FORCED), 0.05)
    point = [1.1, 0.2, 0.9, 0.4]  # q, p, k, a
    tensors = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in point]
    state = torch.stack([*tensors[:2], torch.tensor(0.3, dtype=torch.float64)])
    loss = torch.zeros(())
    for _ in range(100):
        state = map(state, {"k": tensors[2], "a": tensors[3]})
        loss = loss + (state[:2] ** 2).sum()
    gradient = torch.autograd.grad(loss, tensors)
    h, time = np.longdouble(0.05), np.longdouble(0.3)

    def at(moved):
        return extended(name, moved[:2], 100, h, *moved[2:], time)

    for slope, e in zip(gradient, np.longdouble(1e-4) * np.eye(4), strict=True):
        change = 8 * (at(point + e) - at(point - e)) - (at(point + 2 * e) - at(point - 2 * e))
        assert slope.item() == pytest.approx(float(change / (12 * e.sum())), rel=1e-8, abs=1e-8)


def test_networks_in_functions_of_pytorch_are_differentiated():
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)
    ).double()
    system = vp.System.from_function(lambda t, y: net(y), dim=2)
    state = torch.randn(3, 2, dtype=torch.float64)
    for name in ("rk4", "gauss-legendre-4"):
        map = vp.classical(name, system, 0.1)

        def loss(map=map):
            return (map(map(state)) ** 2).sum()

        (slope,) = torch.autograd.grad(loss(), net[0].weight)
        values = []
        with torch.no_grad():
            for change in (1e-5, -2e-5):
                net[0].weight[3, 1] += change
                values.append(loss().item())
            net[0].weight[3, 1] += 1e-5
        assert slope[3, 1].item() == pytest.approx((values[0] - values[1]) / 2e-5, rel=1e-6)


def test_maps_by_formula_and_over_periods_are_differentiated():
    turn = vp.load_system(
        'state = ["x", "p"]\n[parameters]\nK = 0.6\n'
        '[[map]]\np = "p + K*sin(x)"\n[[map]]\nx = "x + p"'
    )
    state = torch.tensor([[0.3, 0.4]], dtype=torch.float64, requires_grad=True)
    K = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    exact = vp.classical("exact", turn)
    assert torch.autograd.gradcheck(lambda z, k: exact(z, {"K": k}), (state, K))
    windows = state.detach().numpy()[:, None]
    image = exact(state, {"K": K}).detach().numpy()
    assert exact.map(windows, {"K": 0.7})[:, 0] == pytest.approx(image, rel=1e-15)
    period = vp.classical("rk4@8", vp.return_map("forced-duffing", "t = 0"))
    assert torch.autograd.gradcheck(period, (state,))
    assert period(state).detach().numpy() == pytest.approx(period.map(windows)[:, 0], rel=1e-13)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda map, z: map(z.long()), r"floating-point tensor of shape \(\.\.\., 3\)"),
        (lambda map, z: map(z[:, :2]), r"floating-point tensor of shape \(\.\.\., 3\)"),
        (lambda map, z: map(z.numpy()), r"floating-point tensor of shape \(\.\.\., 3\)"),
        (lambda map, z: map(z, {"c": 1.0}), "no parameter 'c'"),
        (lambda map, z: map(z, {"k": torch.ones(5)}), r"\(5,\) does not broadcast .* \(2, dim\)"),
        (lambda map, z: map.map(z[:, None].requires_grad_()), "not a Tensor"),
        (lambda map, z: vp.classical("rk45", map.system, 0.1)(z), "adaptive step size"),
    ],
)
def test_wrong_tensors_and_parameters(call, message):
    map = vp.classical("rk4", vp.load_system(FORCED), 0.1)
    with pytest.raises(InputError, match=message):
        call(map, torch.zeros(2, 3, dtype=torch.float64))


def test_functions_of_numpy_have_no_gradient():
    system = vp.System.from_function(lambda t, y: -y if y[0] > 0 else -2 * y, dim=2)
    with pytest.raises(InputError, match="a gradient needs formulas"):
        vp.classical("rk4", system, 0.1)(torch.ones(1, 2, dtype=torch.float64))


@pytest.mark.parametrize("name", ONE_STEP)
def test_transforms_of_torch_func(name):
    """They give the derivatives of the method, in any order and without gradients as well."""
    map, states, parameters = case(name)
    states = states.detach()
    first, second = (value.detach() for value in parameters.values())
    keys = [*parameters]

    def function(z, *values):
        return map(z, dict(zip(keys, values, strict=True)))

    exact = torch.from_numpy(
        map.derivative(states.numpy()[:, None], {keys[0]: 0.8, keys[1]: second.numpy()})
    )
    expected = function(states, first, second)
    for transform in (torch.func.jacrev, torch.func.jacfwd):
        each = torch.func.vmap(transform(function), (0, None, 0))
        torch.testing.assert_close(each(states, first, second), exact)
        with torch.no_grad():
            torch.testing.assert_close(each(states, first, second), exact)
    torch.testing.assert_close(
        torch.func.vmap(function, (0, None, 0))(states, first, second), expected
    )
    # a batch of parameters alone, and batches of batches
    several = torch.stack([first, first + 0.1])
    both = torch.func.vmap(function, (None, 0, None))(states, several, second)
    torch.testing.assert_close(both[0], expected)
    torch.testing.assert_close(both[1], function(states, first + 0.1, second))
    nested = torch.func.vmap(torch.func.vmap(function, (0, None, 0)), (None, 0, None))
    torch.testing.assert_close(nested(states, several, second), both)
    vectors = torch.linspace(-1, 1, states.numel(), dtype=torch.float64).reshape(states.shape)
    for context in (torch.enable_grad, torch.no_grad):
        with context():
            _, moved = torch.func.jvp(lambda z: function(z, first, second), (states,), (vectors,))
        torch.testing.assert_close(moved, (exact @ vectors[..., None])[..., 0])
    with torch.no_grad(), torch.autograd.forward_ad.dual_level():
        dual = function(torch.autograd.forward_ad.make_dual(states, vectors), first, second)
        torch.testing.assert_close(torch.autograd.forward_ad.unpack_dual(dual).tangent, moved)
    hessian = torch.func.hessian(lambda z: function(z, first, second[0])[0])(states[0])

    def slope(z):
        row = torch.func.jacrev(lambda z: function(z, first, second[0])[0])(torch.from_numpy(z))
        return row.numpy()

    around = vp.maps.map.differences(
        lambda points: np.stack([slope(point) for point in points]), states[:1].numpy()
    )
    np.testing.assert_allclose(hessian, around[0], atol=1e-8)
