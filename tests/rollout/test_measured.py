"""Data without equations: training, rolling out, comparing with what was measured."""

import numpy as np
import pytest

import vpintegrator as vp
from tests.rollout.test_compare import same
from vpintegrator.errors import InputError
from vpintegrator.rollout import open_rollout

MEASURED = """
title = "Laboratory"
measured = true
state = ["q", "p"]
divergence_free = true
[invariants]
energy = "(q**2 + p**2)/2"
[[reversing_symmetry]]
p = "-p"
"""
TIMES = 0.1 * np.arange(60)


def orbits(count=12, seed=0):
    """Oscillations (trajectory, time, 2)."""
    generator = np.random.default_rng(seed)
    size, phase = generator.uniform(0.5, 1.5, (count, 1)), generator.uniform(0, 6, (count, 1))
    return np.stack([size * np.cos(TIMES + phase), -size * np.sin(TIMES + phase)], axis=-1)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "a.h5"
    return vp.import_dataset(orbits(), path, step=0.1, system=vp.load_system(MEASURED))


def trained(dataset, architecture, epochs=15, **options):
    model = architecture(dim=2, **options)
    vp.train(model, dataset, epochs=epochs)
    return model


@pytest.fixture(scope="module")
def one_step(dataset):
    return trained(dataset, vp.models.VolumePreservingFeedForward, width=4)


@pytest.fixture(scope="module")
def window(dataset):
    architecture = vp.models.VolumePreservingTransformer
    return trained(dataset, architecture, window=3, width=4, depth=1)


def test_errors_are_those_from_the_measured_states(dataset, one_step, window):
    states = dataset.states("test")
    report = vp.compare({"one": one_step, "three": window}, reference=states)
    assert list(report.runs) == ["one", "three"]
    assert report.is_reference_given
    np.testing.assert_array_equal(report.reference, states)
    np.testing.assert_allclose(report.times, TIMES)
    for name, model in (("one", one_step), ("three", window)):
        expected = vp.rollout(model, states[:, : model.window], 59)
        np.testing.assert_allclose(report.run(name).states, expected, atol=1e-12)
        distance = np.linalg.norm(report.run(name).states - states, axis=-1)
        np.testing.assert_allclose(report.run(name).error, distance, atol=1e-12)
        assert "step" in report.run(name).volume
        assert "energy" in report.run(name).invariants
        assert report.run(name).reversibility is not None
    # a window is made from its first state by equations only
    assert "phase-space" in report.run("one").volume
    assert "phase-space" not in report.run("three").volume
    assert report.run("three").lyapunov is None


def test_it_is_stored_and_drawn(dataset, window, tmp_path):
    report = vp.compare(window, reference=dataset.states("test"), steps=40)
    report.save(tmp_path / "a.h5")
    again = open_rollout(tmp_path / "a.h5")
    assert again.system.is_measured
    assert again.is_reference_given
    assert again.table() == report.table()
    vp.draw(again, tmp_path / "figures", formats=["png"])
    captions = (tmp_path / "figures" / "captions.md").read_text()
    assert "Reference: the states given." in captions
    assert "nan" not in captions


def test_states_that_are_missing_count_for_nothing(dataset, one_step):
    states = dataset.states("test")[:2]
    whole = vp.compare(one_step, reference=states)
    gaps = states.copy()
    gaps[0, 5:9] = np.nan
    gaps[1, 50:] = np.nan
    report = vp.compare(one_step, reference=gaps)
    error, full = report.run("vpff").error, whole.run("vpff").error
    known = np.isfinite(gaps).all(axis=-1)
    np.testing.assert_array_equal(np.isnan(error), ~known)
    np.testing.assert_allclose(error[known], full[known], rtol=1e-12)
    squares = np.sum((whole.run("vpff").states - states) ** 2, axis=-1)
    expected = [np.sqrt(squares[k][known[k]].mean() / 2) for k in range(2)]
    np.testing.assert_allclose(report.run("vpff").root_mean_square_error, expected, rtol=1e-12)
    # known at the end for one of them only
    assert report.summary("vpff").final_error == pytest.approx(error[0, -1])


def test_without_a_reference(one_step, window, dataset):
    report = vp.compare(one_step, initial=[[1.0, 0.0]], steps=20)
    assert report.reference_time == 0
    assert not report.is_compared("vpff")
    assert "energy" in report.run("vpff").invariants
    with pytest.raises(InputError, match=r"no equations of laboratory .* give --dataset"):
        vp.compare(window, steps=20, initial=[[1.0, 0.0]])
    own = vp.compare(one_step, steps=20)  # beside the data of the training
    np.testing.assert_array_equal(own.reference, dataset.states("test")[:, :21])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"against": ["rk4"]}, "rk4 needs the equations of laboratory"),
        ({"work_precision": True}, "work_precision needs the equations"),
        ({"reference": np.zeros((2, 5, 3))}, r"reference has shape \(2, 5, 3\)"),
        ({"reference": np.zeros((2, 3, 2))}, "at 4 times or more: a model reads 3"),
        ({"reference": np.full((2, 9, 2), np.nan)}, "begins with 3 states that are all observed"),
    ],
)
def test_mistakes(dataset, window, options, message):
    with pytest.raises(InputError, match=message):
        vp.compare(window, **{"reference": dataset.states("test"), **options})


def test_a_dataset_is_where_to_start_from(dataset, one_step):
    """Of measured states all are compared with, of others those of the initial times are taken."""
    whole = vp.compare(one_step, dataset=dataset)
    assert same(whole.reference, dataset.states("test")[: len(whole.reference)])
    assert same(vp.compare(one_step, dataset=str(dataset.path)).reference, whole.reference)
    two = vp.compare(one_step, reference="dataset", trajectories=2)  # that of the training
    assert same(two.reference, whole.reference[:2])
    system = vp.load_system("harmonic-oscillator")
    options = {"system": system, "step": 0.1, "steps": 5, "dataset": dataset}
    report = vp.compare(None, "rk4", trajectories=3, **options)
    assert same(report.run("rk4").states[:, 0], dataset.states("test")[:3, 0])
    assert not report.is_reference_given
    for changes, message in (
        ({"initial": [[1.0, 0.0]]}, "leave out others"),
        ({"reference": np.ones((2, 9, 2))}, "leave out others"),
        ({"trajectories": 0}, "trajectories = 0"),
        ({"dataset": "none.h5"}, "no file none.h5"),
    ):
        with pytest.raises(InputError, match=message):
            vp.compare(None, "rk4", **(options | changes))
    with pytest.raises(InputError, match=r"--reference solution needs the equations"):
        vp.compare(one_step, reference="solution", dataset=dataset)
    with pytest.raises(InputError, match="without a model, give the dataset"):
        vp.compare(None, "rk4", system=system, reference="dataset")
