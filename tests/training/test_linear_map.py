"""Linear maps from few pairs: patterns by leave-one-out errors, structure as a constraint."""

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from scipy.linalg import expm

import vpintegrator as vp
from vpintegrator.cli import train as command
from vpintegrator.errors import InputError
from vpintegrator.training.linear_map import Pattern, fit_linear_map, fit_pattern
from vpintegrator.training.search.models import search
from vpintegrator.training.search.options import SearchOptions
from vpintegrator.training.search.proposals import SearchTask
from vpintegrator.training.training_data import TrainingData

SITES = 35


def profiles(count, seed, sites=SITES):
    """Smooth bumps on a ring."""
    rng, x = np.random.default_rng(seed), np.arange(sites) / sites
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


def made(data, name):
    return lambda arguments: vp.models.build(data.system, name, **arguments)


def searched(data, **options):
    return vp.training.find_linear_map(made(data, "linear"), data, **options)


def error_of(model, before, after):
    images = model(torch.from_numpy(before)[:, None])[:, 0].detach().numpy()
    return np.linalg.norm(images - after) / np.linalg.norm(after - after.mean(0))


def test_advection_is_exact_by_default(tmp_path):
    states = profiles(60, seed=0)
    data = imported(states, advected(states), tmp_path / "a.h5")
    path = tmp_path / "m.safetensors"
    told = CliRunner().invoke(command.main, [str(data.path), "-o", str(path)])
    assert told.exit_code == 0, told.output
    assert "the components are taken for those of a ring" in told.output
    model, unseen = vp.load(path), profiles(200, seed=1)
    assert model.name == "linear" and model.arguments["sites"] == SITES
    assert model.volume_preserving and sum(p.numel() for p in model.parameters()) == SITES + 1
    assert error_of(model, unseen, advected(unseen)) < 1e-12
    assert error_of(model, -unseen, advected(-unseen)) < 1e-12


def test_a_chain_of_oscillators_is_symplectic_and_exact(tmp_path):
    before = np.random.default_rng(0).normal(size=(60, 20))
    A = oscillators()
    data = imported(before, before @ A.T, tmp_path / "a.h5", structure="symplectic")
    found = searched(data)
    assert found.model.symplectic and found.error < 1e-12
    assert "sites" not in found.model.arguments or found.model.arguments["sites"] == 1
    unseen = np.random.default_rng(1).normal(size=(50, 20))
    assert error_of(found.model, unseen, unseen @ A.T) < 1e-12


@pytest.mark.parametrize("structure", ["symplectic", "volume-preserving"])
def test_the_constraint_is_met_at_least_squares(structure):
    """No matrix nearby with the structure errs less: noise leaves a residual to compare."""
    rng = np.random.default_rng(0)
    A = oscillators(2)
    z = torch.from_numpy(rng.normal(size=(40, 4)))
    y = z @ torch.from_numpy(A).mT + 0.05 * torch.from_numpy(rng.normal(size=(40, 4)))
    model = vp.models.LinearMap(dim=4, structure=structure)
    fit_linear_map(model, z, y)

    def square(matrix):
        model.core.matrix = matrix
        weighted = (y - model(z[:, None])[:, 0]) / y.std(0)
        return float((weighted - weighted.mean(0)).square().sum())

    with torch.no_grad():
        best = model.core.matrix.clone()
        least = square(best)
        for seed in range(20):
            weight = torch.from_numpy(np.random.default_rng(seed).normal(size=(4, 4, 1)))
            X = model.core.projected(weight)
            for size in (1e-3, -1e-3):
                assert square(torch.linalg.matrix_exp(size * X) @ best) > least


def test_left_out_pairs_are_predicted_by_the_others():
    """The closed form is the error of fits that leave a pair out, one by one."""
    rng = np.random.default_rng(0)
    z, y = rng.normal(size=(2, 14, 6))
    alike = (Pattern(6, 1, is_alike=True), Pattern(6, is_alike=True))
    for pattern in (Pattern(), Pattern(6, 1), Pattern(6, 1, is_ring=False), *alike):
        squares = []
        for k in range(len(z)):
            others = np.arange(len(z)) != k
            change = fit_pattern(z[others], y[others], pattern).change
            rest = (y - z - z @ change.T)[others].mean(0)
            rest = rest.mean() if pattern.is_alike else rest
            squares.append((((z[k] + z[k] @ change.T + rest - y[k]) / y.std(0)) ** 2).mean())
        found = fit_pattern(z, y, pattern)
        assert np.isclose(found.error, np.sqrt(np.mean(squares)), rtol=1e-6)


def test_fewer_pairs_than_components_suffice_on_a_ring():
    before = profiles(12, seed=0)
    model = vp.models.LinearMap(dim=SITES, sites=SITES)
    fit_linear_map(model, torch.from_numpy(before), torch.from_numpy(advected(before)))
    unseen = profiles(50, seed=1)
    assert error_of(model, unseen, advected(unseen)) < 1e-10


def test_neighbours_along_a_chain_suffice_where_sites_differ(tmp_path):
    """A tridiagonal matrix from half as many pairs as components have entries."""
    rng = np.random.default_rng(0)
    A = np.eye(30) + np.triu(np.tril(rng.normal(size=(30, 30)), 1), -1) / 5
    A /= abs(np.linalg.det(A)) ** (1 / 30)
    before = rng.normal(size=(31, 30))
    data = imported(before, before @ A.T, tmp_path / "a.h5")
    found = searched(data)
    assert found.error < 1e-12 and "ring" in found.summary


def test_a_map_that_is_not_linear_is_left_to_others(tmp_path):
    before = np.random.default_rng(0).uniform(-1, 1, (100, 2))
    p = before[:, 1] + 0.3 * np.sin(before[:, 0])
    after = np.stack([before[:, 0] + p, p], 1)
    data = imported(before, after, tmp_path / "a.h5", components=["q", "p"])
    tasks = {name: made(data, name) for name in ("sgf", "linear")}
    known = SearchTask(TrainingData(data), SearchOptions(), tasks["sgf"], linear=tasks["linear"])
    found = search(known)
    assert found.model.name == "sgf" and found.error < 1e-8
    assert "linear maps" in found.summary


def test_training_solves_for_a_linear_map(tmp_path):
    before = np.random.default_rng(0).normal(size=(60, 4))
    data = imported(before, before @ oscillators(2).T, tmp_path / "a.h5", structure="symplectic")
    model = vp.models.build(data.system, "linear")
    history = vp.train(model, data)
    assert history.optimizer == "linear" and history.test_error < 1e-12


def test_refusals():
    z = torch.zeros(5, 2).double()
    with pytest.raises(InputError, match="no linear map"):
        fit_linear_map(vp.models.VolumePreservingFeedForward(dim=2), z, z)
    with pytest.raises(InputError, match="two or more pairs of finite states"):
        fit_linear_map(vp.models.LinearMap(dim=2), z[:1], z[:1])
    with pytest.raises(InputError, match="window must be 1"):
        vp.models.LinearMap(dim=2, window=2)
