"""Windows of observations: regression on them, and how many of them determine the next."""

import importlib
import warnings

import numpy as np
import pytest
import torch

import vpintegrator as vp
from tests.training.conftest import fits_of
from vpintegrator.compiled import CompiledModel
from vpintegrator.data import Observation
from vpintegrator.data.pairs import Pairs
from vpintegrator.errors import InputError
from vpintegrator.training import (
    DiscreteLagrangians,
    GeneratingFunctions,
    LinearMaps,
    PolynomialRegression,
)
from vpintegrator.training.orbits import follow
from vpintegrator.training.regression import fit_polynomial, solve
from vpintegrator.training.training_data import TrainingData
from vpintegrator.training.windows import WindowSearch, shared_error

FIT = importlib.import_module("vpintegrator.training.fit")  # the name is that of the function


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def observed(system, components=(), *, count=60, steps=12, vary=None, name="a.h5", **options):
    observe = Observation(tuple(components), **options)
    return vp.generate(
        system, name, count=count, steps=steps, observe=observe, vary=vary or {}, overwrite=True
    )


def solved_by(dataset, window, degree):
    model = vp.models.build(dataset.system, "polynomial", {"window": window, "degree": degree})
    data = TrainingData(dataset)
    data.normalise(model)
    return model, solve(model, data)


def orbits_of(model, dataset, steps):
    """Orbits from the first windows of the test group, (orbit, time, dim)."""
    first = dataset.states("test")[:, : model.window]
    with np.errstate(all="ignore"):
        return np.concatenate(
            [first, *CompiledModel(model, len(first)).advance(first, steps)], axis=1
        )


def recurrence(coefficients, count=30, times=10, dim=1):
    """Orbits (orbit, time, dim) of a recurrence, the coefficient of the oldest state first."""
    states = [*np.random.default_rng(0).uniform(-1, 1, (len(coefficients), count, dim))]
    while len(states) < times:
        window = states[-len(coefficients) :]
        new = sum(c * z for c, z in zip(coefficients, window, strict=True))
        states.append(new + 0.1 * window[0] * window[-1])
    return np.stack(states, axis=1)


@pytest.mark.parametrize("coefficients", [[0.9], [-0.8, 1.1], [0.3, -0.5, 0.7]])
@pytest.mark.parametrize("dim", [1, 2])
def test_recurrences_are_recovered_to_rounding(coefficients, dim):
    """Of any number of states; products of two states are polynomials of degree two."""
    states = recurrence(coefficients, dim=dim)
    window = len(coefficients)
    model = vp.models.PolynomialMap(dim=dim, window=window, degree=2)
    pair = Pairs.of_states(states[:20], window, 1).pair(slice(None))
    inputs = pair.inputs if window > 1 else pair.inputs[:, 0]
    model.adapt(pair.inputs.flatten(0, 1))
    fit = fit_polynomial(model, inputs, pair.targets[:, -1])
    assert fit.error < 1e-12
    first = states[20:, :window]
    orbits = np.concatenate([first, *model.advance(first, 10 - window)], axis=1)
    np.testing.assert_allclose(orbits, states[20:], atol=1e-11)


def test_windows_of_angles_go_by_the_shortest_way():
    """A turn more of every state, and a turn more of one, leave the change as it is."""
    t = 0.3 * np.arange(12) + np.arange(30)[:, None]
    states = (2.5 * np.sin(t))[..., None]
    pair = Pairs.of_states(states, 2, 1).pair(slice(None))
    model = vp.models.PolynomialMap(dim=1, window=2, degree=6, periodic={0: 2 * np.pi})
    fit_polynomial(model, pair.inputs, pair.targets[:, -1])
    windows, turn = states[:, :2], 2 * np.pi
    change = model.map(windows)[:, 1] - windows[:, 1]
    for turns in ([[turn], [turn]], [[turn], [0.0]], [[0.0], [-3 * turn]]):
        moved = windows + turns
        np.testing.assert_allclose(model.map(moved)[:, 1] - moved[:, 1], change, atol=1e-11)


def test_an_unseen_component_of_the_rigid_body_is_found_in_two_observations():
    dataset = observed("rigid-body", ["z1", "z2"], count=120, steps=22)
    model, fit = solved_by(dataset, 2, 7)
    states = dataset.states("test")
    orbits = orbits_of(model, dataset, 2000)
    spread = states.std()
    assert fit.error < 1e-11
    assert np.abs(orbits[:, 2] - states[:, 2]).max() < 1e-11 * spread
    assert np.abs(orbits[:, 21] - states[:, 21]).max() < 1e-9 * spread
    inside = np.abs(orbits) < 2 * np.abs(dataset.states("train")).max()
    assert inside.all()  # no orbit is lost


@pytest.mark.parametrize("hidden", [{"I1": [1.5, 2.5]}, {"step": [0.15, 0.25]}])
def test_the_penalty_loses_few_orbits_where_one_step_does_not_need_it(hidden):
    """The least one-step error alone gives a map that leaves the true windows."""
    dataset = observed("rigid-body", vary=hidden, hide=tuple(hidden), count=100, steps=12)
    data = TrainingData(dataset)
    model, fit = solved_by(dataset, 3, 2)
    assert follow(model, data, steps=100).lost <= 1
    pair = data.pairs(model).pair(slice(None))
    other = vp.models.build(dataset.system, "polynomial", {"window": 3, "degree": 2})
    data.normalise(other)
    least = fit_polynomial(other, pair.inputs, pair.targets[:, -1])
    assert least.error < fit.error < 0.05
    assert follow(other, data, steps=100).lost > 5


@pytest.mark.parametrize("components", [("z1", "z2"), ("z2", "z3")])
def test_a_leapfrog_follows_observations_and_keeps_the_volume_of_windows(components):
    dataset = observed("rigid-body", components, count=120, steps=22)
    data = TrainingData(dataset)
    model = vp.models.build(dataset.system, "window-leapfrog", {"window": 3, "degree": 5})
    data.normalise(model)
    solve(model, data)
    states = dataset.states("test")
    orbits = orbits_of(model, dataset, 1000)
    spread = states.std()
    assert data.held_out_error(model)[0] < 1e-5
    assert np.abs(orbits[:, 3] - states[:, 3]).max() < 1e-5 * spread
    assert np.abs(orbits[:, 21] - states[:, 21]).max() < 1e-3 * spread
    inside = np.abs(orbits).max((1, 2)) < 2 * np.abs(states).max()
    assert inside.mean() > 0.7
    determinants = np.linalg.det(model.derivative(states[:5, :3]))
    np.testing.assert_allclose(np.abs(determinants), 1.0, atol=1e-10)
    assert model.structure.form == "volume" and model.structure.space == "windows"


def test_the_volume_of_windows_is_taken_where_it_is_asked_for():
    """A more accurate map without it does not end the search."""
    dataset = observed("rigid-body", ["z1", "z2"], count=60, steps=12)
    kinds = [vp.training.search("polynomial", {"window": 2, "degree": 7})]
    kinds.append(vp.training.search("window-leapfrog", {"window": 3, "degree": 3}))
    free = vp.fit(dataset, kinds, seconds=600, progress=False)
    assert free.kind == "polynomial regression" and free.error < 1e-9
    result = vp.fit(dataset, kinds, structure="volume", seconds=600, progress=False)
    assert result.kind == "leapfrogs" and result.structured
    assert result.model.structure.keeps_volume and free.error < result.error < 1e-2


def found(dataset, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return vp.fit(dataset, progress=False, **({"seconds": 1000, "epochs": 1} | options))


@pytest.mark.parametrize(
    ("system", "components", "window"),
    [
        ("rigid-body", ["z1", "z3"], 2),
        ("henon-heiles", ["q1", "q2"], 2),
        ("pendulum", ["q"], 2),
        ("rigid-body", ["z1", "z2", "z3"], 1),
        ("pendulum", ["q", "p"], 1),
    ],
)
def test_the_default_finds_the_window(system, components, window):
    result = found(observed(system, components, count=90, steps=14))
    assert result.model.window == window
    assert result.error < 1e-9
    if window == 1:
        assert [*result.windows] == [1] and not result.window_words
    else:
        assert result.windows[1] > 1e-3 and result.windows[2] < 1e-9
        words = f"two observations determine the next: error {result.windows[1]:.1e} with one, "
        assert f"  {words}{result.windows[2]:.1e} with two" in str(result).splitlines()


def test_a_hidden_moment_is_found_in_windows(monkeypatch):
    """Small regressions compare windows before any other map takes its time."""
    kinds = (LinearMaps(), GeneratingFunctions(form="volume"), PolynomialRegression())
    monkeypatch.setattr(FIT, "KINDS", kinds)
    monkeypatch.setattr(
        FIT, "kinds_of_windows", lambda window: (PolynomialRegression({"window": window}),)
    )
    vary = {"I1": [1.5, 2.5]}
    dataset = observed("rigid-body", vary=vary, hide=("I1",), count=100, steps=12)
    result = found(dataset, kinds=kinds)
    assert result.model.window == 3 and result.error < 3e-4 < 1e-3 < result.windows[1]
    assert not any(fit.kind == "generating functions" for fit in result.tried)
    assert follow(result.model, TrainingData(dataset)).lost == 0


def test_the_volume_of_windows_is_no_structure_of_an_observed_system():
    """So a discrete Lagrangian, which keeps the form of the positions, comes before."""
    dataset = observed("henon-heiles", ["q1", "q2"], count=90, steps=9, noise=1e-3)
    kinds = [vp.training.search("vpt", {"window": 2}), DiscreteLagrangians(highest=4)]
    fits = vp.fit(dataset, kinds, epochs=1).tried
    claims = {fit.model.name: fit.structured for fit in fits}
    assert claims == {"vpt": False, "lagrangian": True}


def test_the_window_does_not_grow_with_noise(monkeypatch):
    """By solves: refined orbits and couplings take a minute, and have tests of their own."""
    lagrangians = DiscreteLagrangians(refined=0, highest=4)
    solved = (LinearMaps(), PolynomialRegression(), lagrangians)

    def of_windows(window):
        pairs = (lagrangians,) if window == 2 else ()
        return (*pairs, PolynomialRegression({"window": window}))

    monkeypatch.setattr(FIT, "KINDS", solved)
    monkeypatch.setattr(FIT, "kinds_of_windows", of_windows)
    dataset = observed("rigid-body", ["z1", "z2"], count=40, steps=9, noise=1e-3)
    result = found(dataset, kinds=solved)
    assert 2 <= result.model.window <= 3 and max(result.windows) <= 4
    other = observed("rigid-body", count=40, steps=9, noise=1e-3, name="b.h5")
    complete = found(other, kinds=solved)
    assert complete.model.window == 1 and max(complete.windows) <= 2


def test_noise_alone_is_said_to_be_undetermined():
    noise = np.random.default_rng(0).normal(size=(40, 8, 2))
    dataset = vp.import_dataset(noise, "noise.h5", step=1.0)
    with pytest.warns(UserWarning, match="no window of up to .* observations determines the next"):
        result = vp.fit(dataset, seconds=60, epochs=1, progress=False)
    assert "no window of up to" in str(result)


def test_claims_and_equations_are_not_doubted():
    complete = TrainingData(vp.generate("rigid-body", "body.h5", count=12, steps=6))
    kind = PolynomialRegression({"window": 2})
    assert not complete.may_be_incomplete
    assert "one determines the next" in kind.admits(complete)
    states = np.random.default_rng(0).normal(size=(10, 6, 2))
    claimed = vp.import_dataset(states, "b.h5", step=1.0, structure="volume")
    assert not TrainingData(claimed).may_be_incomplete
    result = vp.fit(vp.open_dataset("body.h5"), seconds=60, epochs=1, progress=False)
    assert not result.windows and result.model.window == 1


@pytest.mark.parametrize(
    ("system", "components", "is_complete"),
    [
        ("kepler", ["q1", "q2", "p1", "p2"], True),
        ("double-pendulum", ["q1", "q2", "p1", "p2"], True),
        ("double-pendulum", ["q1", "q2"], False),
        ("rigid-body", ["z1"], False),
    ],
)
def test_an_error_that_close_states_share_is_that_of_a_map_too_simple(
    system, components, is_complete
):
    """Two complete states follow a smooth flow better than one, and are not taken."""
    dataset = observed(system, components, count=200, steps=8)
    data = TrainingData(dataset)
    model, _ = solved_by(dataset, 1, 3)
    search = WindowSearch({1: data.held_out_error(model)[0]}, shared=shared_error(model, data))
    assert search.errors[1] > 1e-3
    assert search.goes_on == (not is_complete)


def test_noise_is_not_shared():
    states = np.random.default_rng(0).normal(size=(200, 8, 2))
    dataset = vp.import_dataset(states, "noise.h5", step=1.0)
    model, _ = solved_by(dataset, 1, 1)
    assert abs(shared_error(model, TrainingData(dataset))) < 0.2


def test_few_windows_are_judged_by_trajectories_that_are_left_out():
    states = recurrence([-0.8, 1.1], count=20, times=8)
    dataset = vp.import_dataset(states, "few.h5", step=1.0)
    data = TrainingData(dataset)
    assert data.is_few
    before, after, _, folds = data.known_windows(2)
    trajectories = sum(dataset.shapes[group][0] for group in ("train", "validation"))
    assert before.shape == (6 * trajectories, 2, 1) and after.shape == (6 * trajectories, 1)
    assert len(set(folds.tolist())) == trajectories
    for place in range(len(before) - 1):
        if folds[place] == folds[place + 1]:
            assert torch.equal(before[place + 1, -1], after[place])
    fits = fits_of(PolynomialRegression({"window": 2}), data)
    best = min(fits, key=lambda fit: fit.error)
    assert best.judged_by == "blocks" and best.error < 1e-11
    assert best.size.startswith("window 2, degree 2, ")


def test_a_window_as_long_as_the_orbits_is_refused():
    dataset = vp.import_dataset(recurrence([0.9], times=3), "short.h5", step=1.0)
    with pytest.raises(InputError, match="a window of 3 states and its prediction"):
        vp.fit(dataset, window=3, seconds=10, progress=False)


@pytest.mark.parametrize(
    ("errors", "window", "goes_on"),
    [
        ({1: 1e-7}, 1, False),
        ({1: 1e-2}, 1, True),
        ({1: 1e-2, 2: 9e-3}, 1, False),
        ({1: 1e-1, 2: 2e-2}, 1, True),  # not yet ten times better
        ({1: 1e-1, 2: 2e-2, 3: 1e-6}, 3, True),
        ({1: 1e-1, 2: 2e-4, 3: 1.5e-4}, 2, False),
        ({1: 1e-1, 2: 1e-10}, 2, False),
    ],
)
def test_a_search_goes_on_while_the_error_falls_by_half(errors, window, goes_on):
    search = WindowSearch(dict(errors))
    assert (search.window, search.goes_on) == (window, goes_on)
