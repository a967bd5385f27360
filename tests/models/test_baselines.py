"""The networks of the field, each beside an independent loop over its published formulas."""

import numpy as np
import pytest
import torch

import vpintegrator as vp
from tests.nn.laws import assert_close, randomise, sample
from vpintegrator.errors import InputError
from vpintegrator.models import (
    GRU,
    LSTM,
    GeneralizedHamiltonianNetwork,
    GradientSympNet,
    HamiltonianNetwork,
    HenonNet,
    LagrangianNetwork,
    LinearActivationSympNet,
    LocallySymplecticNetwork,
    NeuralODE,
)

H = 0.2  # time step
SHIFT = torch.tensor([0.3, -0.2, 0.1, 0.5], dtype=torch.float64)
SCALE = torch.tensor([2.0, 1.0, 0.5, 1.0], dtype=torch.float64)  # equal products of q and p


def random(model):
    """With random weights, at the step H, normalised."""
    randomise(model, 0.5, 1).set_advance(H)
    model.set_normalisation(SHIFT[: model.dim], SCALE[: model.dim])
    return model.eval()


def normalised(step, z):
    """A step of normalised states as one of states."""
    return step((z - SHIFT) / SCALE) * SCALE + SHIFT


def value(network, x):
    """The value (...) of hidden layers by their weights."""
    for layer in network.layers:
        x = torch.tanh(x @ layer.weight.T + layer.bias)
    return x @ network.outer.weight[0]


def slope(network, x):
    """The gradient by automatic differentiation."""
    return torch.func.grad(lambda y: value(network, y).sum())(x)


def test_hamiltonian_networks_by_the_classical_method():
    model = random(HamiltonianNetwork(4, width=5))
    energy = model.core.field.energy

    def field(x):
        g = slope(energy, x)
        return torch.cat([g[:, 2:], -g[:, :2]], 1)

    def step(x):
        a = field(x)
        b = field(x + H / 2 * a)
        c = field(x + H / 2 * b)
        return x + H / 6 * (a + 2 * b + 2 * c + field(x + H * c))

    z = sample(6, 4)
    assert_close(model(z[:, None])[:, 0], normalised(step, z), 1e-14)
    assert not model.structure.is_symplectic


def test_separable_networks_by_leapfrog_steps():
    model = random(HamiltonianNetwork(4, width=5, separable=True, substeps=2))
    T, V = model.core.kinetic, model.core.potential

    def step(x):
        q, p = x[:, :2], x[:, 2:]
        for _ in range(2):
            p = p - H / 4 * slope(V, q)
            q = q + H / 2 * slope(T, p)
            p = p - H / 4 * slope(V, q)
        return torch.cat([q, p], 1)

    z = sample(6, 4)
    assert_close(model(z[:, None])[:, 0], normalised(step, z), 1e-14)
    assert model.structure.is_symplectic and model.invertible


def test_generalized_networks_by_symplectic_euler_steps():
    model = random(GeneralizedHamiltonianNetwork(4, depth=3, width=5))

    def step(x):
        q, p = x[:, :2], x[:, 2:]
        for flow in model.core:
            q = q + H * slope(flow.kinetic, p)
            p = p - H * slope(flow.potential, q)
        return torch.cat([q, p], 1)

    z = sample(6, 4)
    assert_close(model(z[:, None])[:, 0], normalised(step, z), 1e-14)


@pytest.mark.parametrize("options", [{}, {"separable": True}])
@pytest.mark.parametrize("order", [None, [0, 2, 1, 3]])
def test_the_learned_field_is_that_of_the_learned_energy(options, order):
    model = HamiltonianNetwork(4, width=5, **options)
    if order is not None:  # states (q1, p1, q2, p2)
        model.set_coordinates(order=order)
    model = random(model)
    z = sample(6, 4)
    g = torch.func.grad(lambda x: model.energy(x).sum())(z)
    q, p = ([0, 2], [1, 3]) if order else ([0, 1], [2, 3])
    field = torch.empty_like(z)
    field[:, q] = g[:, p]
    field[:, p] = -g[:, q]
    assert_close(model.field(z), field, 1e-13)
    # and the map follows it
    model.set_advance(1e-5)
    assert_close((model(z[:, None])[:, 0] - z) / 1e-5, field, 1e-4 * float(field.abs().max()))


def test_lagrangian_networks_by_the_equations_of_euler_and_lagrange():
    """In positions and velocities with their units, by automatic differentiation."""
    model = random(LagrangianNetwork(4, width=5, activation="tanh"))
    network = model.core.field.function

    def lagrangian(q, v):
        x = (torch.cat([q, v]) - SHIFT) / SCALE
        return x[2:].square().sum() / 2 + value(network, x)

    def accelerations(z):
        q, v = z[:2], z[2:]
        force = torch.func.grad(lagrangian, 0)(q, v)
        momenta = torch.func.grad(lagrangian, 1)
        by_q, by_v = (torch.func.jacrev(momenta, i)(q, v) for i in (0, 1))
        return torch.linalg.solve(by_v, force - by_q @ v)

    def field(z):
        return torch.stack([torch.cat([each[2:], accelerations(each)]) for each in z])

    z = sample(6, 4)
    a = field(z)
    b = field(z + H / 2 * a)
    c = field(z + H / 2 * b)
    after = z + H / 6 * (a + 2 * b + 2 * c + field(z + H * c))
    assert_close(model(z[:, None])[:, 0], after, 1e-12)
    assert_close(model.field(z), a, 1e-12)
    change = torch.func.jvp(model.energy, (z,), (a,))[1]
    assert float(change.abs().max()) < 1e-12
    assert not model.structure.is_symplectic


def test_neural_odes_by_runge_kutta_steps():
    model = random(NeuralODE(4, width=5, method="heun"))
    core = model.core.field

    def field(x):
        for layer in core.layers:
            x = torch.tanh(x @ layer.weight.T + layer.bias)
        return x @ core.outer.weight.T + core.outer.bias

    def step(x):
        a = field(x)
        return x + H / 2 * (a + field(x + H * a))

    z = sample(6, 4)
    assert_close(model(z[:, None])[:, 0], normalised(step, z), 1e-14)
    assert_close(model.field(z), field((z - SHIFT) / SCALE) * SCALE, 1e-14)


@pytest.mark.parametrize(("kind", "other"), [(LSTM, torch.nn.LSTM), (GRU, torch.nn.GRU)])
@pytest.mark.parametrize("depth", [1, 2])
def test_recurrent_networks_beside_those_of_pytorch(kind, other, depth):
    model = random(kind(4, window=3, depth=depth, width=5))
    own = other(4, 5, depth, batch_first=True).double()
    weights = {}
    for place, layer in enumerate(model.core.layers):
        for name, part in (("ih", layer.input), ("hh", layer.hidden)):
            weights[f"weight_{name}_l{place}"] = part.weight
            weights[f"bias_{name}_l{place}"] = part.bias
    own.load_state_dict(weights)
    outer = model.core.outer

    def step(x):
        return x[:, -1] + own(x)[0][:, -1] @ outer.weight.T + outer.bias

    windows = sample(6, 3, 4)
    after = model(windows)
    assert_close(after[:, -1], normalised(step, windows), 1e-13)
    assert torch.equal(after[:, :-1], windows[:, 1:])


def test_gradient_networks_by_their_modules():
    model = random(GradientSympNet(4, depth=2, width=3))

    def module(V, x):
        K = V.inner_weight.T  # (width, size)
        return (V.outer_weight * torch.sigmoid(x @ K.T + V.inner_bias)) @ K

    def step(x):
        q, p = x[:, :2], x[:, 2:]
        for pair in model.core:
            q = q + module(pair.kinetic, p)
            p = p - module(pair.potential, q)
        return torch.cat([q, p], 1)

    z = sample(6, 4)
    assert_close(model(z[:, None])[:, 0], normalised(step, z), 1e-13)


def test_linear_and_activation_networks_by_their_modules():
    model = random(LinearActivationSympNet(4, depth=2, linear=2))
    kinds = ["linear"] * 2 + (["activation"] + ["linear"] * 2) * 2

    def module(kind, V, x):
        if kind == "activation":
            return V.weight * torch.sigmoid(x)
        return x @ (V.weight + V.weight.T) / 2 + V.bias

    def step(x):
        q, p = x[:, :2], x[:, 2:]
        for kind, pair in zip(kinds, model.core, strict=True):
            q = q + module(kind, pair.kinetic, p)
            p = p - module(kind, pair.potential, q)
        return torch.cat([q, p], 1)

    z = sample(6, 4)
    assert_close(model(z[:, None])[:, 0], normalised(step, z), 1e-13)


@pytest.mark.parametrize("symmetric", [False, True])
def test_locally_symplectic_networks_by_their_modules(symmetric):
    model = random(LocallySymplecticNetwork(4, depth=2, width=3, symmetric=symmetric))
    layers = [*model.core.layers] if symmetric else [*model.core]
    order = [(0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2)] * 2

    def module(V, x, moved, partner):
        """The sum over neurons of a W_j sigma(W y + b), y without the moved component."""
        seen = [i for i in range(4) if i != moved]
        W = V.inner_weight.T  # (neuron, component)
        hidden = torch.sigmoid(x[:, seen] @ W.T + V.inner_bias)
        x = x.clone()
        x[:, moved] += hidden @ (V.outer_weight * W[:, seen.index(partner)])
        return x

    def step(x):
        modules = [(layer.potential, *own) for layer, own in zip(layers, order, strict=True)]
        for V, moved, partner in [*modules, *modules[::-1]] if symmetric else modules:
            x = module(V, x, moved, partner)
        return x

    z = sample(6, 4)
    assert_close(model(z[:, None])[:, 0], normalised(step, z), 1e-13)
    assert model.structure.form == "volume"


def test_symmetric_networks_are_inverted_by_the_other_sign_of_the_step():
    model = random(LocallySymplecticNetwork(3, width=4, symmetric=True))
    z = sample(6, 3)
    image = model(z[:, None])
    with torch.no_grad():
        for layer in model.core.layers:
            layer.potential.outer_weight.neg_()
    assert_close(model(image)[:, 0], z, 1e-13)


def test_henon_networks_by_their_maps():
    model = random(HenonNet(4, depth=2, width=3))

    def step(x):
        q, p = x[:, :2], x[:, 2:]
        for layer in model.core:
            V = layer.potential
            for _ in range(4):
                kick = (V.outer_weight * torch.tanh(p @ V.inner_weight + V.inner_bias)) @ (
                    V.inner_weight.T
                )
                q, p = p + layer.shift, -q + kick
        return torch.cat([q, p], 1)

    z = sample(6, 4)
    assert_close(model(z[:, None])[:, 0], normalised(step, z), 1e-13)


def test_a_method_that_does_not_suit_the_energy_is_refused():
    with pytest.raises(InputError, match="stoermer-verlet needs separable = true"):
        HamiltonianNetwork(2, method="stoermer-verlet")
    with pytest.raises(InputError, match="rk4 needs separable = false"):
        HamiltonianNetwork(2, method="rk4", separable=True)
    for kind in (HamiltonianNetwork, GeneralizedHamiltonianNetwork, GradientSympNet, HenonNet):
        with pytest.raises(InputError, match="even"):
            kind(3)


@pytest.mark.parametrize("options", [{}, {"separable": True, "method": "yoshida-4"}])
def test_a_hamiltonian_is_learned_from_states(tmp_path, options):
    """Up to a constant: of the pendulum, H = p^2/2 - cos q."""
    data = vp.generate("pendulum", tmp_path / "a.h5", count=40, steps=10)
    model = HamiltonianNetwork(2, width=8, depth=1, **options)
    history = vp.train(model, data, epochs=60, compiled=False)
    assert history.best_validation_error < 2e-3
    states = torch.from_numpy(data.states("test").reshape(-1, 2))
    energy = states[:, 1] ** 2 / 2 - torch.cos(states[:, 0])
    difference = (model.energy(states).detach() - energy).numpy()
    assert np.std(difference) < 0.02 * np.std(energy.numpy())
