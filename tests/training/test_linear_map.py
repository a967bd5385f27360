"""Linear maps by least squares, regularised by leave-one-out errors."""

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from scipy.linalg import expm

import vpintegrator as vp
from vpintegrator.cli import train as command
from vpintegrator.errors import InputError
from vpintegrator.nn import AffineMap
from vpintegrator.training.kinds import GeneratingFunctions, LinearMaps
from vpintegrator.training.regression import fit_linear_map
from vpintegrator.training.training_data import TrainingData

CELLS = 35


def profiles(count, seed):
    """Smooth bumps on a ring."""
    rng, x = np.random.default_rng(seed), np.arange(CELLS) / CELLS
    centre, width = rng.random((count, 1)), rng.uniform(0.05, 0.15, (count, 1))
    return sum(np.exp(-(((x - centre + turn) / width) ** 2) / 2) for turn in (-1, 0, 1))


def advected(states, cells=0.4):
    """The exact solution of u_t + c u_x = 0, by its Fourier series."""
    wave = np.fft.fftfreq(states.shape[1]) * states.shape[1]
    factors = np.exp(-2j * np.pi * wave * cells / states.shape[1])
    return np.fft.ifft(np.fft.fft(states) * factors).real


def oscillators(count=10, step=0.3):
    springs = 2 * np.eye(count) - np.eye(count, k=1) - np.eye(count, k=-1)
    zero = np.zeros((count, count))
    return expm(step * np.block([[zero, np.eye(count)], [-springs, zero]]))


def imported(before, after, path, **options):
    return vp.import_pairs(before, after, path, overwrite=True, **options)


def error_of(model, before, after):
    images = model(torch.from_numpy(before)[:, None])[:, 0].detach().numpy()
    return np.linalg.norm(images - after) / np.linalg.norm(after - after.mean(0))


@pytest.mark.parametrize("options", [[], ["--model", "linear"]])
def test_a_chain_of_oscillators_is_symplectic_to_rounding(tmp_path, options):
    before = np.random.default_rng(0).normal(size=(60, 20))
    A = oscillators()
    data = imported(before, before @ A.T, tmp_path / "a.h5", structure="symplectic")
    path = tmp_path / "m.safetensors"
    told = CliRunner().invoke(command.main, [str(data.path), "-o", str(path), *options])
    assert told.exit_code == 0, told.output
    model = vp.load(path)
    assert model.name == "linear"
    unseen = np.random.default_rng(1).normal(size=(50, 20))
    assert error_of(model, unseen, unseen @ A.T) < 1e-12
    with torch.no_grad():
        matrix = model(torch.eye(20).double()[:, None])[:, 0] - model(torch.zeros(1, 1, 20))[:, 0]
    J = vp.nn.canonical_form(20)
    assert float((matrix @ J @ matrix.mT - J).abs().max()) < 1e-12


def test_smooth_profiles_of_many_cells_follow_from_few_pairs(tmp_path):
    states = profiles(60, seed=0)
    data = imported(states, advected(states), tmp_path / "a.h5")
    model = vp.models.build(data.system, "linear")
    history = vp.train(model, data)
    assert history.optimizer == "linear"
    unseen = profiles(200, seed=1)
    assert error_of(model, unseen, advected(unseen)) < 1e-4


def test_left_out_pairs_are_predicted_by_the_others():
    """The closed form is the error of fits that leave a pair out, one by one."""
    z, y = torch.from_numpy(np.random.default_rng(0).normal(size=(2, 14, 6)))
    squares = []
    for k in range(len(z)):
        others = torch.arange(len(z)) != k
        model = vp.models.LinearMap(dim=6)
        fit_linear_map(model, z[others], y[others])
        with torch.no_grad():
            squares.append((((model(z[k][None, None]) - y[k]) / y.std(0)) ** 2).mean())
    error = fit_linear_map(vp.models.LinearMap(dim=6), z, y).error
    assert np.isclose(error, np.sqrt(np.mean(squares)), rtol=1e-6)


def test_the_last_fifth_of_an_orbit_judges_its_linear_map(tmp_path):
    """States beside the ones that are left out would tell them."""
    q, p = [0.8], [0.0]
    for _ in range(200):  # of a pendulum
        p.append(p[-1] - 0.1 * np.sin(q[-1]))
        q.append(q[-1] + 0.1 * p[-1])
    data = vp.import_dataset(np.stack([q, p], 1)[None], tmp_path / "a.h5", step=0.1)
    fit = vp.fit(data, [LinearMaps()])
    before, after, folds = TrainingData(data).known_pairs
    last = fit_linear_map(vp.models.LinearMap(dim=2), before, after, folds).error
    rows, early = np.column_stack([before, np.ones(len(before))]), folds < 0
    matrix = np.linalg.lstsq(rows[early], after.numpy()[early], rcond=None)[0]
    wrong = (rows @ matrix - after.numpy())[~early] / after.numpy().std(0)
    assert 4 * (~early).sum() == pytest.approx(early.sum(), abs=4)
    assert last == pytest.approx(np.sqrt((wrong**2).mean()), rel=0.01)
    assert fit.judged_by == "blocks" and last < fit.error < 1.1 * last


def test_a_map_that_is_not_linear_is_left_to_others(tmp_path):
    before = np.random.default_rng(0).uniform(-1, 1, (100, 2))
    p = before[:, 1] + 0.3 * np.sin(before[:, 0])
    after = np.stack([before[:, 0] + p, p], 1)
    data = imported(before, after, tmp_path / "a.h5", components=["q", "p"])

    kinds = [LinearMaps(), GeneratingFunctions()]
    found = vp.fit(data, kinds, progress=False)
    assert found.model.name == "sgf" and found.error < 1e-8
    assert "linear maps" in str(found)


def test_the_layer_and_its_inverse():
    layer = AffineMap(3, dtype=torch.float64)
    with torch.no_grad():
        layer.matrix.copy_(torch.tensor([[1.0, 2.0, 0.0], [0.0, 1.0, 0.5], [0.0, 0.0, 3.0]]))
        layer.offset.copy_(torch.tensor([0.1, 0.2, 0.3]))
    z = torch.rand(5, 3).double()
    torch.testing.assert_close(layer.inverse(layer(z)), z)


def test_refusals():
    z = torch.zeros(5, 2).double()
    with pytest.raises(InputError, match="no linear map"):
        fit_linear_map(vp.models.VolumePreservingFeedForward(dim=2), z, z)
    with pytest.raises(InputError, match="two or more pairs of finite states"):
        fit_linear_map(vp.models.LinearMap(dim=2), z[:1], z[:1])
    with pytest.raises(TypeError, match="window"):
        vp.models.LinearMap(dim=2, window=2)
