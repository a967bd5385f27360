"""Networks of others: derivatives, rollouts and training by whatever way PyTorch can."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

import vpintegrator as vp
from tests.models import networks
from tests.models.networks import KNOWN, OTHERS, H
from vpintegrator.errors import InputError
from vpintegrator.maps import Map


def windows(count=6, window=1):
    return np.random.default_rng(0).uniform(-1.0, 1.0, (count, window, 2))


def made(name):
    torch.manual_seed(0)
    module, window = OTHERS[name]
    return vp.wrap(module(), dim=2, step=H, window=window)


@pytest.mark.parametrize("name", KNOWN)
def test_networks_that_differentiate_inside_agree_with_the_method(name):
    module, method = KNOWN[name]
    model, exact = vp.wrap(module(), dim=2, step=H), vp.classical(method, "pendulum", H)
    states = windows()
    np.testing.assert_allclose(model.map(states), exact.map(states), atol=1e-12)
    np.testing.assert_allclose(model.derivative(states), exact.derivative(states), atol=1e-9)
    vectors = np.array([[0.3], [1.0]])
    np.testing.assert_allclose(
        model.tangent(states, vectors), exact.tangent(states, vectors), atol=1e-9
    )
    rolled = vp.rollout(model, states[:, 0], 40)
    np.testing.assert_allclose(rolled, vp.rollout(exact, states[:, 0], 40), atol=1e-9)
    assert not any(parameter.grad is not None for parameter in model.parameters())


@pytest.mark.parametrize("name", OTHERS)
def test_derivatives_are_those_of_the_map(name):
    model = made(name)
    states = windows(window=model.window)
    kept = states.copy()
    found = model.derivative(states)
    np.testing.assert_allclose(found, Map.derivative(model, states), atol=1e-9)
    again = vp.rollout(model, states, 8)
    np.testing.assert_array_equal(states, kept)  # also by networks that compute in place
    window = model.window
    np.testing.assert_allclose(
        model.map(again[:, -window - 1 : -1])[:, -1], again[:, -1], rtol=1e-12
    )


@pytest.mark.parametrize("name", ["general", "separable", "detached", "lagrangian"])
def test_derivatives_in_single_precision(name):
    module, method = KNOWN[name]
    model, exact = vp.wrap(module().float(), dim=2, step=H), vp.classical(method, "pendulum", H)
    determinant = np.linalg.det(model.derivative(windows()))
    np.testing.assert_allclose(determinant, np.linalg.det(exact.derivative(windows())), atol=1e-6)


def test_a_result_in_single_precision():
    torch.manual_seed(0)
    rough = networks.SinglePrecisionResult()
    fine = networks.Network()
    fine.load_state_dict(rough.state_dict())
    found, exact = (vp.wrap(net, dim=2).derivative(windows()) for net in (rough, fine))
    np.testing.assert_allclose(found, exact, atol=1e-6)
    assert vp.rollout(rough, windows()[:, 0], 3).dtype == np.float64


def test_bfloat16_is_refused_in_a_sentence(swing):
    network = networks.Network().to(torch.bfloat16)
    for model in (network, vp.models.VolumePreservingFeedForward(dim=2).to(torch.bfloat16)):
        for use in (
            lambda model=model: vp.rollout(model, windows()[:, 0], 3),
            lambda model=model: vp.train(model, swing, epochs=1),
        ):
            with pytest.raises(InputError, match=r"computes in bfloat16, .* take model.float\(\)"):
                use()


def test_modes_of_inference_change_nothing():
    for module in (networks.General, networks.Recurrent):
        torch.manual_seed(0)
        window = 1 if module is networks.General else 2
        net = module()
        expected = vp.rollout(copy.deepcopy(net), windows(window=window), 4)
        slopes = vp.wrap(net, dim=2, window=window).derivative(windows(window=window))
        with torch.inference_mode():
            torch.manual_seed(0)
            model = vp.wrap(module(), dim=2, window=window)
            np.testing.assert_array_equal(vp.rollout(model, windows(window=window), 4), expected)
            first = torch.from_numpy(windows(window=window))
            np.testing.assert_array_equal(vp.rollout(model, first, 4).numpy(), expected)
            np.testing.assert_allclose(model.derivative(windows(window=window)), slopes)


def test_maps_that_are_none_say_so():
    with pytest.warns(UserWarning, match="gives other states when it is called again"):
        model = vp.wrap(networks.Random(), dim=2, step=H)
    with pytest.raises(InputError, match="called again, so it has no derivative"):
        model.derivative(windows())
    with pytest.warns(UserWarning, match="called again"):
        remembering = vp.wrap(networks.Remembering(), dim=2, step=H)
    assert remembering.core.hidden is None  # a copy was tried
    assert vp.rollout(remembering, windows()[:, 0], 4).shape == (6, 5, 2)
    for layer in (nn.TransformerEncoderLayer(2, 1, 4), nn.Sequential(nn.Linear(2, 2), Mixing())):
        with pytest.warns(UserWarning, match="need batch_first=True"):
            vp.wrap(layer.double(), dim=2, step=H)


class Mixing(nn.Module):
    def forward(self, z):
        return z - z.mean(0)


@pytest.fixture(scope="module")
def swing(tmp_path_factory):
    path = tmp_path_factory.mktemp("swing") / "swing.h5"
    return vp.generate("pendulum", path, count=20, steps=20, step=H)


@pytest.mark.parametrize("optimizer", ["levenberg-marquardt", "adam", "l-bfgs"])
@pytest.mark.parametrize("name", ["general", "separable", "lagrangian"])
def test_networks_that_differentiate_inside_are_trained(name, optimizer, swing):
    module = KNOWN[name][0]()
    with torch.no_grad():
        module.weight *= 1.2
    model = vp.wrap(module, dim=2, step=H)
    before = vp.training.relative_error(model, *pairs(swing))
    rate = {"learning_rate": 0.02} if optimizer == "adam" else {}
    history = vp.train(model, swing, epochs=6, optimizer=optimizer, normalise=False, **rate)
    assert history.best_validation_error < before / 2


def pairs(dataset, window=1):
    states = torch.from_numpy(dataset.states("validation"))
    return states[:, :window], states[:, window : window + 1]


@pytest.mark.parametrize("name", [name for name in OTHERS if name not in ("in-numpy",)])
def test_others_are_trained(name, swing):
    model = made(name)
    if name == "sum-in-place":  # PyTorch itself cannot
        with pytest.raises(InputError, match="SumInPlace cannot be trained: one of the variables"):
            vp.train(model, swing, epochs=1)
        return
    before = vp.training.relative_error(model, *pairs(swing, model.window))
    history = vp.train(model, swing, epochs=6)
    assert history.best_validation_error < 0.9 * before


def test_rows_of_a_jacobian_are_those_of_torch_func(swing):
    from vpintegrator.data.pairs import Pair
    from vpintegrator.training.optimizers import LevenbergMarquardt
    from vpintegrator.training.training_data import TrainingData

    model = vp.wrap(networks.Network(), dim=2, step=H)
    pairs = TrainingData.of(swing).pairs(model)
    solver = LevenbergMarquardt(model, pairs, batch=40, generator=torch.Generator())
    vector = solver.iteration.parameters
    together = [torch.cat(each) for each in zip(*solver._jacobians(vector), strict=True)]
    solver.transforms = False
    rows = [torch.cat(each) for each in zip(*solver._jacobians(vector), strict=True)]
    assert rows[0].shape == (80, sum(p.numel() for p in model.parameters()))
    for one, other in zip(together, rows, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)
    assert isinstance(solver.pair, Pair)


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (networks.WithoutGraph, "states do not depend on its parameters; .* create_graph=True"),
        (networks.InNumPy, "InNumPy cannot be trained: element 0 of tensors"),
        (lambda: networks.Failing(12), "Failing cannot be trained: the lattice is full"),
    ],
)
def test_a_network_that_cannot_be_trained_says_why(module, message, swing):
    with pytest.raises(InputError, match=message):
        vp.train(module(), swing, epochs=20, optimizer="adam")
