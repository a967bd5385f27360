"""Bands of models drawn from a posterior, in comparisons and rollouts."""

import numpy as np
import pytest
import torch

import vpintegrator as vp
from vpintegrator.errors import InputError
from vpintegrator.plotting.captions import caption
from vpintegrator.plotting.figures import FIGURES
from vpintegrator.plotting.scene import Scene
from vpintegrator.rollout.diagnostics.bands import quantiles
from vpintegrator.rollout.draws import DrawnTrajectories

DRAWS = 12


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "p.h5"
    data = vp.generate("pendulum", path, count=20, steps=8, observation={"noise": 0.02})
    model = vp.models.build(data.system, "sgf", degree=4)
    vp.train(model, data, optimizer="linear")
    return model


@pytest.fixture(scope="module")
def initial():
    return vp.load_system("pendulum").sample_initial(3, np.random.default_rng(0))


@pytest.fixture(scope="module")
def report(model, initial):
    return vp.compare(model, "rk4", initial=initial, steps=20, samples=DRAWS, compiled=False)


def test_bands_are_quantiles_of_the_rollouts_of_draws(model, initial, report):
    each = [vp.rollout(m, initial, 20, compiled=False) for m in model.sample(DRAWS)]
    low, high = quantiles(np.array(each))
    run = report.runs["sgf"]
    np.testing.assert_allclose(run.state_low, low, atol=1e-12)
    np.testing.assert_allclose(run.state_high, high, atol=1e-12)
    distance = np.linalg.norm(np.array(each) - report.reference, axis=-1)
    np.testing.assert_allclose(run.error_high, quantiles(distance)[1], atol=1e-12)
    rmse = np.sqrt((distance**2).mean(-1) / 2)
    np.testing.assert_allclose(run.rmse_low, quantiles(rmse)[0], atol=1e-12)
    assert report.runs["rk4"].state_low is None


def test_every_stored_time_has_its_band(model, initial, report):
    thinned = vp.compare(
        model, "rk4", initial=initial, steps=20, every=5, samples=DRAWS, compiled=False
    )
    run = thinned.runs["sgf"]
    np.testing.assert_array_equal(run.state_high, report.runs["sgf"].state_high[:, ::5])
    largest = report.runs["sgf"].error_high[:, 1:].reshape(3, 4, 5).max(-1)
    assert (run.error_high[:, 1:] >= largest - 1e-12).all()


def test_a_further_draw_is_in_the_band_with_probability_nine_tenths():
    values = np.random.default_rng(0).normal(size=(64, 20_000))
    low, high = quantiles(values[:63])
    assert ((low <= values[63]) & (values[63] <= high)).mean() == pytest.approx(0.9, abs=0.01)


def test_a_draw_that_diverged_counts_as_infinite():
    values = np.ones((20, 3))
    values[:2, 0] = np.nan
    assert np.isinf(quantiles(values)[1]).tolist() == [True, False, False]


def test_table_and_file_hold_the_bands(tmp_path, report):
    report.save(tmp_path / "r.h5")
    row, other = vp.open_rollout(tmp_path / "r.h5").table()
    assert row["error 5%"] < row["error 95%"]
    assert 0 <= row["in band"] <= 1 and other["in band"] is None
    assert vp.open_rollout(tmp_path / "r.h5").runs["sgf"].samples == DRAWS


def test_uncertain_states_widen_the_band(model, initial, report):
    options = {"initial": initial, "steps": 3, "compiled": False}
    run = vp.compare(model, "rk4", samples=DRAWS, uncertain_start=True, **options).runs["sgf"]
    width = run.state_high - run.state_low
    assert width[:, 0].min() > 0
    assert report.runs["sgf"].state_high[:, 0].tolist() == initial.tolist()


@pytest.mark.parametrize("name", ["coordinates", "errors", "overview"])
def test_figures_show_the_bands_and_say_so(report, name):
    scene = Scene(report)
    FIGURES[name].draw(scene)
    assert f"5 % to 95 % of {DRAWS} models" in caption(scene, FIGURES[name])


def test_rollouts_of_draws(model, initial):
    states = vp.rollout(model, initial, 5, samples=4, seed=1)
    each = [vp.rollout(m, initial, 5) for m in model.sample(4, seed=1)]
    np.testing.assert_allclose(states, each, atol=1e-13)
    tensor = vp.rollout(model, torch.from_numpy(initial), 5, samples=4, seed=1)
    assert torch.equal(tensor, torch.from_numpy(states))


def test_machine_code_takes_the_weights_of_draws(model, initial):
    plain = vp.rollout(model, initial, 5, samples=3)
    np.testing.assert_allclose(vp.rollout(model, initial, 5, compiled=True, samples=3), plain)


def test_draws_that_need_more_iterations_are_found(model, initial):
    layer = model.core
    iterations, layer.iterations = layer.iterations, 2
    try:
        windows = torch.from_numpy(initial)[None, :, None].expand(3, -1, -1, -1)
        found = DrawnTrajectories(model.sample(3), windows).advance(4)
    finally:
        layer.iterations = iterations
    np.testing.assert_allclose(found, vp.rollout(model, initial, 4, samples=3)[:, :, 1:])


@pytest.mark.parametrize(
    "options, words",
    [
        ({"samples": 1}, "no band"),
        ({"samples": -2}, "samples"),
        ({"uncertain_start": True}, "samples"),
    ],
)
def test_arguments_of_bands_are_checked(model, initial, options, words):
    with pytest.raises(InputError, match=words):
        vp.compare(model, initial=initial, steps=3, **options)


def test_models_without_posterior_are_refused(initial):
    other = vp.models.VolumePreservingFeedForward(dim=2)
    with pytest.raises(InputError, match="holds no posterior"):
        vp.compare(other, system="pendulum", initial=initial, steps=3, samples=8)
    with pytest.raises(InputError, match="give a model"):
        vp.compare(None, "rk4", system="pendulum", initial=initial, steps=3, samples=8)
    with pytest.raises(InputError, match="holds no posterior"):
        vp.rollout(other, initial, 3, samples=8)
