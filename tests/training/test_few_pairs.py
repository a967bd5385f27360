"""Few pairs of measured states: all count, and cross-validation chooses."""

import numpy as np
import pytest
import torch

import vpintegrator as vp
from tests.training.conftest import fits_of, images
from vpintegrator.data.pairs import Pair, Pairs
from vpintegrator.training import Couplings, GeneratingFunctions, TrainingOptions
from vpintegrator.training.linear import fit_pairs, layer_pairs
from vpintegrator.training.regression import fit_few_pairs
from vpintegrator.training.results import best
from vpintegrator.training.training_data import FEW, TrainingData


def twist(z):
    """Return the images of a symplectic map that p -> -p and q -> -q reverse."""
    q, p = z.T
    for _ in range(8):
        q = q + 0.1 * p
        p = p - 0.2 * np.sin(q)
        q = q + 0.1 * p
    return np.stack([q, p], 1)


def pairs(folder, count=60, noise=0.0):
    rng = np.random.default_rng(0)
    before = rng.uniform(-0.8, 0.8, (count, 2))
    both = before, twist(before) + noise * rng.normal(size=before.shape)
    return vp.import_dataset(both, folder / "a.h5", pairs=True, components=["q", "p"])


FRESH = np.random.default_rng(99).uniform(-0.7, 0.7, (200, 2))


def normalised(data, name="spff", **arguments):
    sizes = {"functions": "polynomial", "depth": 2} if name == "spff" else {}
    model = vp.models.build(data.system, name, sizes | arguments, seed=0)
    data.normalise(model)
    return model


def test_all_pairs_but_those_of_the_test_group_are_known(tmp_path):
    data = TrainingData(pairs(tmp_path))
    before, after, _, folds = data.known_pairs
    assert len(before) == 51 and len(set(folds)) == 51
    np.testing.assert_allclose(after, twist(before.numpy()))
    assert data.is_few
    orbits = np.random.default_rng(0).normal(size=(40, 3, 2))
    orbits = vp.import_dataset(orbits, tmp_path / "orbits.h5", step=1.0)
    assert not TrainingData(orbits).known_pairs.are_single
    known = vp.generate("pendulum", tmp_path / "pendulum.h5", count=10, steps=4)
    assert not TrainingData(known).is_few


def test_the_leave_one_out_error_tells_the_error_on_fresh_states(tmp_path):
    data = TrainingData(pairs(tmp_path, 120, noise=1e-3))
    model = normalised(data, degree=6)
    before, after, *_ = data.known_pairs
    fit = fit_few_pairs(model, Pair(before[:, None], after[:, None]))
    true = twist(FRESH)
    wrong, noise = (images(model, FRESH) - true) / true.std(0), 1e-3 / true.std(0)
    expected = np.sqrt((wrong**2).mean() + (noise**2).mean())
    assert fit.error == pytest.approx(expected, rel=0.25)
    own = (images(model, before) - after.numpy()) / after.numpy().std(0)
    assert np.sqrt((own**2).mean()) < fit.error


def test_few_pairs_suffice_for_couplings(tmp_path):
    fits = fits_of(Couplings(architecture="spff"), pairs(tmp_path))
    error = np.sqrt(((images(best(fits).model, FRESH) - twist(FRESH)) ** 2).mean())
    assert error < 1e-4 and best(fits).model.structure.is_symplectic
    assert {fit.judged_by for fit in fits} == {"left out"}
    assert best(fits).deviation > 0


def test_pairs_are_left_out_of_few_data_alone(tmp_path):
    """Another loss is no fit to all pairs."""
    for count, training in ((2 * FEW, TrainingOptions()), (60, TrainingOptions(loss="relative"))):
        (tmp_path / f"{count}").mkdir()
        data = pairs(tmp_path / f"{count}", count)
        fits = fits_of(Couplings({"degree": 2, "depth": 1}, training=training), data, epochs=10)
        assert {fit.judged_by for fit in fits} == {"held out"}


def test_blocks_of_an_orbit_are_left_out_together(tmp_path):
    orbit = [np.array([[0.5, 0.3]])]
    for _ in range(60):
        orbit.append(twist(orbit[-1]))
    states = np.concatenate(orbit)[None]
    data = vp.import_dataset(states, tmp_path / "orbit.h5", step=1.0, fractions=(1, 0, 0))
    (*_, fit) = fits_of(Couplings({"degree": 5, "depth": 3}), data)
    assert fit.judged_by == "blocks"
    # the equations are linearised: the map itself may err more at the pairs that it is fitted to
    assert fit.error >= 0.999 * TrainingData(data).known_error(fit.model)
    before, after, _, folds = TrainingData(data).known_pairs
    pair = Pair(before[:, None], after[:, None])
    singly = fit_few_pairs(fit.model, pair, iterations=1)
    blocks = fit_few_pairs(fit.model, pair, folds, iterations=1)
    assert blocks.error > singly.error


def test_kinds_are_compared_without_the_pairs_at_the_edge(tmp_path):
    """One pair that is left out has an image far off: its square decides the mean."""
    data = TrainingData(pairs(tmp_path))
    model = normalised(data, "sgf", degree=6)
    fit = fit_pairs(model, layer_pairs(model, data, 60))
    assert 0 < fit.typical < fit.error
    found = vp.fit(data.dataset, [GeneratingFunctions({"degree": 6})], progress=False)
    assert found.tried[0].error == pytest.approx(fit.typical)


@pytest.mark.parametrize("name", ["sgf", "spff"])
def test_equal_pairs_count_once_and_keep_their_folds(name, tmp_path):
    data = TrainingData(pairs(tmp_path, 80, noise=1e-3))
    before, after, *_ = data.known_pairs
    folds = np.arange(len(before)) % 5
    errors = []
    for places in (torch.arange(len(before)), torch.arange(2 * len(before)) // 2):
        model = normalised(data, name, degree=4)
        z, image, numbers = before[places], after[places], folds[places.numpy()]
        if name == "spff":
            fit = fit_few_pairs(model, Pair(z[:, None], image[:, None]), numbers)
        else:
            fit = fit_pairs(model, Pairs.of_tensors(z[:, None], image[:, None]), folds=numbers)
        errors.append(fit.error)
    assert errors[0] == errors[1] > 1e-3
