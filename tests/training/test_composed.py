"""Generating functions of several maps in a row, fitted to pairs of the whole map."""

import math

import numpy as np
import pytest
import torch

import vpintegrator as vp
from tests.nn.laws import assert_close
from vpintegrator.errors import InputError
from vpintegrator.nn.shears import linearised
from vpintegrator.training.composed import fit_pairs
from vpintegrator.training.kinds import GeneratingFunctions
from vpintegrator.training.linear import WholePairs, implicit_map, layer_pairs
from vpintegrator.training.residuals import relative_error
from vpintegrator.training.training_data import TrainingData

RNG = np.random.default_rng
MEASURED = {
    "sphere": """
state = ["x", "y", "z"]
measured = true
reversing_symmetry = [{ x = "-x" }]
""",
    "plane": """
state = ["q", "p"]
measured = true
""",
}


def half_step(z, sign=1):
    """Shears, or their inverse."""
    x, y, w = np.moveaxis(z, -1, 0)
    if sign > 0:
        x = x + 0.2 * y + 0.05 * w**2
        y = y - 0.1 * np.sin(x)
        w = w + 0.1 * x * y
    else:
        w = w - 0.1 * x * y
        y = y + 0.1 * np.sin(x)
        x = x - 0.2 * y - 0.05 * w**2
    return np.stack([x, y, w], -1)


def reversible(z):
    """Psi R psi^-1 R with R = diag(-1, 1, 1)."""
    R = np.array([-1, 1, 1])
    return half_step(R * half_step(R * z, -1))


def pendulum(z):
    """A step 0.5 of the flow."""
    return vp.solve(vp.load_system("pendulum"), z, [0.0, 0.5], rtol=1e-13, atol=1e-13)[:, 1]


def measured(map_of, kind, path, noise=0.0, count=300, times=4):
    """A dataset of orbits, and exact states (pair, 1, dim) before and after the map."""
    states = [RNG(0).uniform(-0.8, 0.8, (count, 3 if kind == "sphere" else 2))]
    for _ in range(times - 1):
        states.append(map_of(states[-1]))
    exact = np.stack(states, 1)
    seen = exact + noise * RNG(1).normal(size=exact.shape)
    file = path.with_suffix(".toml")
    file.write_text(MEASURED[kind])
    data = vp.import_dataset(seen, path, step=0.5, system=file)
    dim = exact.shape[2]
    pairs = exact[:, :-1].reshape(-1, 1, dim), exact[:, 1:].reshape(-1, 1, dim)
    return data, [torch.from_numpy(x) for x in pairs]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("vpgf", {"dim": 3, "repeats": 2, "reversing_symmetries": [np.diag([-1.0, 1, 1])]}),
        ("vpgf", {"dim": 3, "repeats": 2}),
        ("sgf", {"dim": 4, "repeats": 2}),
    ],
)
def test_derivatives_are_those_of_automatic_differentiation(name, options):
    model = vp.models.registry.ARCHITECTURES.find(name)(degree=2, **options)
    layer = implicit_map(model)
    n = options["dim"]
    layer.set_linear(torch.linalg.matrix_exp(0.1 * torch.eye(n).double().roll(1, 0).tril()))
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for c in layer.coefficients():
            c.copy_(0.05 * torch.randn(c.shape, generator=generator, dtype=c.dtype))
    z = torch.rand(2, 1, n, generator=generator, dtype=torch.float64)
    images, D = linearised(model.core, z[:, 0])
    assert_close(images, model.core(z)[:, 0], 1e-14)
    names = [name for name, _ in model.core.named_parameters()]

    def image(state, *values):
        own = dict(zip(names, values, strict=True))
        return torch.func.functional_call(model.core, own, (state[None],))[0]

    for k in range(len(z)):
        given = (z[k, 0], *(p.detach() for p in model.core.parameters()))
        by_state, *by_values = torch.autograd.functional.jacobian(image, given)
        assert_close(D[k], torch.cat([*by_values, by_state], 1), 1e-12)


@pytest.mark.thorough
def test_measured_reversible_maps(tmp_path):
    data, (before, after) = measured(reversible, "sphere", tmp_path / "a.h5")

    kinds = [GeneratingFunctions(form="volume")]
    found = vp.fit(data, kinds, target=2e-6, progress=False)
    assert [fit.error <= 2e-6 for fit in found.tried] == [*[False] * (len(found.tried) - 1), True]
    assert relative_error(found.model, before, after) < 1e-5
    (rho,) = found.model.reversing_symmetries
    z = before[:20]
    assert_close(found.model(found.model(z) @ rho.mT) @ rho.mT, z, 1e-13)
    again = vp.fit(data, kinds, target=2e-6, progress=False)
    own, other = (each.model.state_dict() for each in (found, again))
    assert all(torch.equal(own[name], other[name]) for name in own)


def test_several_maps_in_a_row_of_measured_states(tmp_path):
    data, (before, after) = measured(pendulum, "plane", tmp_path / "a.h5")
    model = vp.models.build(data.system, "sgf", degree=8, repeats=2)
    history = vp.train(model, data)
    assert history.stopped_by == "solved"
    assert relative_error(model, before, after) < 1e-7


@pytest.mark.thorough
def test_the_error_is_that_of_pairs_that_are_left_out(tmp_path):
    data, _ = measured(pendulum, "plane", tmp_path / "a.h5", 1e-2, count=30, times=3)
    training = TrainingData(data)

    def made():
        model = vp.models.build(data.system, "sgf", degree=2, repeats=2)
        training.normalise(model)
        return model

    model = made()
    pairs = layer_pairs(model, training, 1000)
    assert isinstance(pairs, WholePairs)
    inputs, targets = (states[:, -1] for states in pairs[: len(pairs)])
    fit = fit_pairs(model, pairs)
    spread = model.coordinates(targets).std(0)
    squares = []
    for n in range(len(inputs)):
        other, kept = made(), torch.arange(len(inputs)) != n
        fit_pairs(other, WholePairs.of_tensors(*(states[kept] for states in pairs[:])), start=model)
        difference = other(inputs[n, None]) - targets[n]
        squares.append(((difference / model.scale / spread) ** 2).mean().item())
    assert math.isclose(fit.error, math.sqrt(np.mean(squares)), rel_tol=0.01)


def test_scarce_pairs(tmp_path):
    """A penalty keeps maps of higher degrees near those of lower ones."""
    data, (before, after) = measured(
        reversible, "sphere", tmp_path / "a.h5", 1e-2, count=60, times=2
    )
    training, start, penalties = TrainingData(data), None, []
    for degree in range(2, 7):
        model = vp.models.build(data.system, "vpgf", degree=degree)
        training.normalise(model)
        fit = fit_pairs(model, layer_pairs(model, training, 1000), start=start)
        penalties.append(fit.penalty)
        start = model
    assert penalties[-1] == 1e2  # nothing is gained
    assert relative_error(model, before, after) < 1.2e-2


def test_too_few_pairs(tmp_path):
    data, _ = measured(reversible, "sphere", tmp_path / "a.h5", count=10, times=2)
    model = vp.models.build(data.system, "vpgf", degree=8)
    with pytest.raises(InputError, match="different pairs of states give"):
        vp.train(model, data)
