"""The table of one step: errors and costs of models beside classical methods of the same step."""

import math
import time

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import vpintegrator as vp
from vpintegrator.cli import show
from vpintegrator.cli import train as train_command
from vpintegrator.errors import InputError
from vpintegrator.measure.rows import OneStep, OneStepTable, Rival
from vpintegrator.measure.steps import METHODS
from vpintegrator.training import ClassicalMethods
from vpintegrator.training.training_data import TrainingData

COSTS = st.one_of(st.floats(1e-9, 1e-3), st.just(math.nan))
ROWS = st.builds(OneStep, st.just("map"), st.just("model"), st.floats(1e-16, math.inf), COSTS)


@pytest.fixture(scope="module")
def pendulum(tmp_path_factory):
    path = tmp_path_factory.mktemp("one-step") / "pendulum.h5"
    return vp.generate("pendulum", path, count=40, steps=10)


def trained(dataset, degree):
    model = vp.models.build(dataset.system, "sgf", {"degree": degree})
    vp.train(model, dataset, optimizer="linear")
    return model


def error_of(data, group, method, substeps=1):
    """Error one step ahead of a classical method with substeps."""
    states, step = data.dataset.states(group), data.dataset.step / substeps
    first, images = (part.reshape(-1, states.shape[2]) for part in (states[:, :-1], states[:, 1:]))
    wrong = vp.integrate(data.system, method, first, step, substeps)[:, -1] - images
    moving, spread = data.error_scale
    return np.sqrt((wrong[:, list(moving)] ** 2).sum(1).mean()) / spread


def test_errors_are_those_of_one_step_on_the_test_group(pendulum):
    model = trained(pendulum, 8)
    table = vp.one_step(model, pendulum, seconds=0)
    for row in table.methods:
        error = error_of(TrainingData(pendulum, equations=True), "test", row.name)
        assert row.error == pytest.approx(error, rel=0.3)
    known = model.record.history.test_error
    assert [row.error for row in table.models] == [pytest.approx(known)]
    assert [row.error for row in table.methods] == sorted(row.error for row in table.methods)
    assert {row.name for row in table.methods} == {*METHODS}
    assert all(math.isnan(row.cost) and row.note for row in table.rows)


def test_methods_take_the_fewest_substeps_that_err_as_little_as_the_model(pendulum):
    start = time.process_time()
    model, data = trained(pendulum, 5), TrainingData(pendulum, equations=True)
    table = vp.one_step(model, pendulum, seconds=60)
    assert time.process_time() - start < 10
    (own,) = table.models
    assert {rival.name for rival in own.rivals} == {r.name for r in table.methods if not r.note}
    for rival in own.rivals:
        if rival.name in ("rk4", "blanes-moan-6", "dormand-prince-8"):
            assert error_of(data, "test", rival.name, rival.substeps) <= 1.01 * own.error
            fewer = rival.substeps - 1
            assert not fewer or error_of(data, "test", rival.name, fewer) > 0.99 * own.error
            assert 0 < rival.cost < 1
    assert own.cheapest_rival.words in table.sentence and table.sentence.startswith("sgf errs by ")
    assert all(0 < row.cost < 1 for row in table.rows)


def test_the_error_is_the_test_error_on_more_windows_than_those_of_the_methods(tmp_path):
    data = vp.generate("pendulum", tmp_path / "many.h5", count=60, steps=60)
    model = vp.models.build(data.system, "vpff", {"width": 4})
    history = vp.train(model, data, epochs=2, compiled=False)
    (row,) = vp.one_step(model, data, methods=(), seconds=0).rows
    states = TrainingData(data).test_windows(model).inputs
    assert len(states) > 500 and row.error == history.test_error
    window = vp.models.build(data.system, "vpt", {"window": 3, "width": 4})
    vp.train(window, data, epochs=1, compiled=False)
    (row,) = vp.one_step(window, data, methods=(), seconds=0).rows
    assert row.error == pytest.approx(TrainingData(data).test_error(window)[0], rel=1e-12)
    assert len(row.lead_time_errors) == window.prediction_window == 3


def test_maps_of_any_kind_stand_in_the_table(pendulum):
    def euler(z):
        return z + pendulum.step * np.stack([z[:, 1], -np.sin(z[:, 0])], axis=1)

    fine = vp.classical("rk4", pendulum.system, pendulum.step, substeps=3)
    maps = {"mine": vp.Map.from_function(euler, pendulum.step, 2), "fine": fine}
    table = vp.one_step(maps, pendulum, methods=["explicit-euler"], seconds=60)
    rows = {row.name: row for row in table.rows}
    assert [row.kind for row in table.rows] == ["classical"] * 3 and table.rows[0].name == "fine"
    assert rows["mine"].error == pytest.approx(rows["explicit-euler"].error, rel=0.3)
    data = TrainingData(pendulum, equations=True)
    assert rows["fine"].error == pytest.approx(error_of(data, "test", "rk4", 3), rel=1e-6)
    assert all(0 < row.cost < 1 for row in table.rows)
    assert rows["mine"].note == "euler is no model and no classical method"
    assert not rows["fine"].note and table.cheapest(1e-6).name == "fine"
    (alone,) = vp.one_step(fine, pendulum, methods=(), seconds=0).rows
    assert (alone.name, alone.note) == ("rk4@3", "not measured in time")


def test_a_family_is_timed_in_the_middle_of_its_ranges(tmp_path):
    vary = {"step": (0.05, 0.2), "I1": (1.6, 2.4)}
    data = vp.generate("rigid-body", tmp_path / "family.h5", count=60, steps=1, vary=vary)
    own = TrainingData(data)
    options = {"functions": "polynomial", "degree": 2, "depth": 1}
    model = vp.models.build(own.system, "vpff", options)
    history = vp.train(model, data, epochs=1, compiled=False)
    (row,) = vp.one_step(model, data, seconds=60).rows
    assert row.error == history.test_error and 0 < row.cost < 1 and not row.note


def test_several_models_stand_in_their_order_under_names_of_their_own(pendulum):
    models = {name: trained(pendulum, degree) for name, degree in (("coarse", 4), ("fine", 6))}
    table = vp.one_step(models, pendulum, methods=["heun"], seconds=0)
    assert [row.name for row in table.rows] == ["coarse", "fine", "heun"]
    assert vp.one_step(models["fine"], pendulum, methods=(), seconds=0).sentence == ""
    with pytest.raises(InputError, match="boris needs"):
        vp.one_step(models, pendulum, methods=["boris"])


RIVALS = (("rk4", 9, 2.1e-7), ("<gauss>", 1, 7e-6))
NONE = ("rk4", None, math.nan, "rounding")


def table_of(cost=2e-7, note="", rivals=RIVALS, error=1e-9):
    model = OneStep("sgf", "model", error, cost, note, tuple(Rival(*rival) for rival in rivals))
    return OneStepTable((model, OneStep("rk4", "classical", 1e-5, 1e-8, "no compiler")))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "The cheapest classical method with this error is rk4 with 9 substeps, at about the"),
        ({"cost": 1e-6}, "rk4 with 9 substeps, at 0.21 times the cost."),
        ({"rivals": RIVALS[1:]}, "<gauss> with 1 substep, at 35 times the cost."),
        ({"note": "too large"}, "Its cost is not compared: too large."),
        ({"rivals": [NONE]}, "No classical method of the table reaches this error."),
        ({"error": 1e-16}, "The cheapest classical method with an error at rounding is rk4"),
        ({"rivals": [("rk4", 9)]}, "No cost of a classical method with this error was measured"),
        ({"rivals": ()}, ""),
    ],
)
def test_sentences(options, sentence):
    assert sentence in table_of(**options).sentence


def test_texts_are_read_again_and_others_refused():
    table = table_of(error=math.inf, rivals=[*RIVALS, NONE])
    again = OneStepTable.from_text(table.text, "the file")
    assert str(again) == str(table) and again.rows[1:] == table.rows[1:]
    assert again.models[0].rivals[:2] == table.models[0].rivals[:2]
    for text in ("[1", '{"rows": 1}', '{"rows": [{"name": "a"}]}'):
        with pytest.raises(InputError, match="the file"):
            OneStepTable.from_text(text, "the file")


@given(st.lists(ROWS, min_size=1), st.floats(1e-15, 1.0))
def test_none_below_the_error_is_cheaper_than_what_is_taken(rows, target):
    taken = OneStepTable(tuple(rows)).cheapest(target)
    if below := [row for row in rows if row.error <= target]:
        assert taken in below
        assert not any(row.cost < taken.cost for row in below)
        assert math.isfinite(taken.cost) or not any(math.isfinite(row.cost) for row in below)
    else:
        assert taken.error == min(row.error for row in rows)


def test_the_command_says_and_keeps_it(pendulum, tmp_path, monkeypatch):
    monkeypatch.setattr("vpintegrator.cli.train.VERDICT_SECONDS", 60.0)
    path = tmp_path / "model.safetensors"
    arguments = [str(pendulum.path), "-o", str(path), "--model", "sgf", "--set", "degree=10"]
    result = CliRunner().invoke(train_command.main, [*arguments, "-v"])
    assert result.exit_code == 0, result.output
    assert "one step ahead" in result.output and "The cheapest classical method" in result.output
    kept = OneStepTable.of_values(vp.load(path).record.one_step, "the model")
    assert kept.sentence in result.output
    shown = CliRunner().invoke(show.main, [str(path)])
    assert " ".join(kept.sentence.split()) in " ".join(shown.output.split())


# classical methods as candidates


@pytest.mark.parametrize("name", ["pendulum", "rigid-body", "chirped-pendulum"])
def test_candidates_are_the_fewest_substeps_below_the_error(name, tmp_path):
    dataset = vp.generate(name, tmp_path / "a.h5", count=20, steps=10)
    data = TrainingData(dataset, equations=True)
    fits = vp.fit(
        data.dataset, [ClassicalMethods()], prefer="cost", target=1e-9, equations=True
    ).tried
    assert {"rk4", "dormand-prince-8"} <= {fit.model.method.name for fit in fits}
    for fit in fits:
        method, substeps = fit.model.method.name, fit.model.substeps
        error = error_of(data, "validation", method, substeps)
        assert fit.error <= 1e-9 and fit.error == pytest.approx(error, rel=1e-4)
        assert substeps == 1 or error_of(data, "validation", method, substeps - 1) > 1e-9


def test_the_cheapest_map_is_no_dearer_than_a_classical_method(pendulum):
    result = vp.fit(pendulum, prefer="cost", target=1e-6, equations=True, progress=False)
    assert result.error <= 1e-6 and "cheapest step below 1e-06" in result.reason
    assert {"classical methods", "splittings"} <= {fit.kind for fit in result.tried}


def test_there_are_none_for_maps_or_below_rounding(pendulum, tmp_path):
    with pytest.raises(vp.InputError):
        vp.fit(pendulum, [ClassicalMethods()], target=1e-17, equations=True)
    standard = vp.generate("standard-map", tmp_path / "map.h5", count=20, steps=10)
    with pytest.raises(vp.InputError, match="no equations of one step"):
        vp.fit(standard, [ClassicalMethods()], target=1e-3, equations=True)
