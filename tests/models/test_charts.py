"""Models in the coordinates of a chart: what they keep, and that everything else follows."""

import numpy as np
import pytest
import torch

import vpintegrator as vp
from tests.nn.laws import assert_close, sample
from vpintegrator import InputError, load_system
from vpintegrator.compiled import CompiledModel
from vpintegrator.nn.chart_map import ChartMap

POLYNOMIAL = {"functions": "polynomial", "degree": 3, "depth": 2}
LOGARITHMS = {"chart": ["log(z[0])", "log(z[1])"], "inverse_chart": ["exp(z[0])", "exp(z[1])"]}
POLAR = {
    "chart": ["(z[0]**2 + z[1]**2)/2", "atan2(z[1], z[0])"],
    "inverse_chart": ["sqrt(2*z[0])*cos(z[1])", "sqrt(2*z[0])*sin(z[1])"],
}


def built(name, **arguments):
    """A model that moves states, and some states."""
    system = load_system(name)
    model = vp.models.build(system, arguments=POLYNOMIAL | arguments)
    states = torch.from_numpy(system.sample_initial(6, np.random.default_rng(0)))[:, None]
    Z = model.chart(states)
    model.set_normalisation(Z.mean((0, 1)), Z.std((0, 1)), states.std((0, 1)))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += sample(*parameter.shape, scale=0.02)
    return system, model, states


@pytest.mark.parametrize("name", ["lotka-volterra-2d", "tokamak"])
def test_the_volume_of_the_chart_is_kept(name, tmp_path):
    system, model, states = built(name)
    images = model(states).detach()
    assert (images - states).abs().max() > 1e-3
    assert_close(model.inverse(images), states, 1e-13)
    density = [system.chart.log_density(z[:, 0].numpy()) for z in (states, images)]
    changed = np.linalg.slogdet(model.derivative(states.numpy()))[1]
    np.testing.assert_allclose(changed, density[0] - density[1], atol=1e-13)
    assert model.measure_preserving
    kept = np.abs(changed).max() < 1e-13
    assert model.structure.keeps_volume == kept == system.chart.keeps_volume
    vp.save(model, tmp_path / "model.safetensors")
    again = vp.load(tmp_path / "model.safetensors")
    assert torch.equal(again(states), images)
    assert torch.equal(again.coordinates.state_scale, model.coordinates.state_scale)
    machine = CompiledModel(model, len(states)).predict(states.numpy(), 1)[0]
    np.testing.assert_allclose(machine, images.numpy(), rtol=1e-13, atol=1e-13)


def test_nothing_breaks_where_an_angle_jumps():
    """And symmetries of the chart hold for states."""
    _, model, states = built("tokamak")
    rho = torch.diag(torch.tensor([1.0, -1.0, -1.0], dtype=torch.float64))
    assert_close(model(model(states) @ rho) @ rho, states, 1e-13)
    beside = torch.tensor([[[-1.0, y, 0.1]] for y in (1e-9, -1e-9)], dtype=torch.float64)
    assert_close(*model(beside), 1e-8)
    turned = torch.tensor([[0.0, 3.1], [0.0, -3.1]], dtype=torch.float64)
    model = vp.models.VolumePreservingFeedForward(dim=2, **POLYNOMIAL, periodic={1: 2 * np.pi})
    model.set_coordinates(**POLAR)
    states = model.chart.inverse(turned + torch.tensor([1.0, 0.0]))
    near = model.coordinates(states[1:], near=model.coordinates(states[:1]))
    assert near[0, 1].item() == pytest.approx(2 * np.pi - 3.1)


@pytest.mark.parametrize("name", ["hill-vortex", "charged-particle"])
def test_cyclic_and_conserved_components(name):
    system, model, states = built(name)
    turn = torch.tensor([[0.6, -0.8], [0.8, 0.6]], dtype=torch.float64)
    rest = torch.eye(1, dtype=torch.float64) if system.dim == 3 else turn
    whole = torch.block_diag(turn, rest)
    images = model(states)
    torch.testing.assert_close(model(states @ whole.mT), images @ whole.mT)
    kept = "cosine_of_azimuth" if name == "hill-vortex" else "angular_momentum"
    before, after = (system.invariants[kept](z) for z in (states, images))
    assert_close(after, before, 1e-14)
    assert (images - states).abs().max() > 1e-2


@pytest.mark.parametrize(
    ("chart", "inverse", "canonical", "volume"),
    [
        (["z[1]", "-z[0]"], ["-z[1]", "z[0]"], True, True),
        (["2*z[0]", "z[1]", "z[2]", "z[3]"], ["z[0]/2", "z[1]", "z[2]", "z[3]"], False, True),
        (*LOGARITHMS.values(), False, False),
        (*POLAR.values(), True, True),
    ],
)
def test_canonical_charts(chart, inverse, canonical, volume):
    both = ChartMap(chart, inverse, len(chart))
    assert (both.is_canonical, both.keeps_volume) == (canonical, volume)
    assert both.angles == ({1} if chart is POLAR["chart"] else set())


def test_what_is_chosen():
    system = load_system("lotka-volterra-2d")
    model = vp.models.build(system)
    assert model.name == "spff" and model.measure_preserving and not model.structure.is_symplectic
    assert "the model works in the system's coordinates U = log(u), V = log(v)" in model.choices
    assert vp.models.suited(system) == "spff"
    assert vp.models.suited(system, chart=False) == "resnet"
    plain = vp.models.build(system, chart=False)
    assert plain.name == "resnet" and not plain.coordinates.arguments
    assert vp.models.build(system, "resnet").chart is None
    assert vp.models.build(system, "resnet", chart=True).chart.texts == ["log(z[0])", "log(z[1])"]
    tokamak = load_system("tokamak")
    assert vp.models.build(tokamak).chart is None  # neurons are not periodic
    assert vp.models.build(tokamak, "vpt", {"window": 3, **POLYNOMIAL}).chart is None
    with pytest.raises(InputError, match="it has an angle, in which only one-step models"):
        vp.models.build(tokamak, chart=True)
    with pytest.raises(InputError, match="the file of rigid-body declares none"):
        vp.models.build(load_system("rigid-body"), chart=True)
    # generating functions are polynomials by default, and periodic in the angle
    model = vp.models.build(tokamak, "vpgf", {"degree": 3})
    assert model.chart is not None and [k for k, _ in model.arguments["periodic"]] == [2]
    assert vp.models.build(tokamak, "vpgf", {"degree": 3}, chart=False).chart is None


def test_training_compares_states_as_they_are(tmp_path):
    dataset = vp.generate("lotka-volterra-2d", tmp_path / "lv.h5", count=30, steps=20)
    model = vp.models.build(dataset.system, arguments={"functions": "system", "degree": 4})
    history = vp.train(model, dataset, epochs=20, equations=True)
    assert history.best_validation_error < 1e-5
    spread = dataset.states("train").std((0, 1))
    assert np.all(np.abs(np.log2(model.coordinates.state_scale.numpy() / spread)) <= 0.5)
    again = vp.load_system(dataset.system.text)
    assert again.chart.texts == model.coordinates.arguments["chart"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"chart": ["log(z[0])"]}, r"chart must be 2 expressions \(dim = 2\), not 1"),
        (LOGARITHMS | {"inverse_chart": ["exp(z[1])", "exp(z[0])"]}, "is not the inverse of"),
        (LOGARITHMS | {"chart": ["log(z[0])", "open(z[1])"]}, r"chart\[1\], column 1: unknown"),
        (POLAR, "atan2 jumps from pi to -pi"),
        ({"order": [0, 0]}, "order must hold the numbers 0 to 1, each once"),
    ],
)
def test_charts_that_are_none(arguments, message):
    model = vp.models.VolumePreservingFeedForward(dim=2, periodic={1: 2 * np.pi}, **POLYNOMIAL)
    model = vp.models.VolumePreservingFeedForward(dim=2) if arguments is POLAR else model
    with pytest.raises(InputError, match=message):
        model.set_coordinates(**arguments)
