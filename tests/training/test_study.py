"""Studies: all combinations, resumed after any end, with data that vary, and their records."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch

import vpintegrator as vp
from vpintegrator.data import DatasetPart
from vpintegrator.errors import InputError
from vpintegrator.storage.studies import read_study, thinned
from vpintegrator.training import Network

MODULE = sys.modules[vp.study.__module__]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return vp.generate("pendulum", tmp_path_factory.mktemp("study") / "p.h5", count=20, steps=5)


@pytest.fixture(autouse=True)
def no_costs(monkeypatch):
    """No machine code of the models, which takes seconds each."""
    monkeypatch.setattr(MODULE, "_cost", lambda model, data: 1e-7)


def widths(data, folder, values=(2, 3), **options):
    return vp.study(data, "sympnet-g", vary={"width": values}, folder=folder, epochs=2, **options)


def test_every_combination_is_the_training_by_itself(data, tmp_path):
    vary = {"width": [2, 3], "depth": [1, 2]}
    frame, models = vp.study(
        data, "sympnet-g", vary=vary, seeds=2, seed=4, folder=tmp_path / "a", epochs=3
    )
    points = [(w, d, s) for w in (2, 3) for d in (1, 2) for s in (4, 5)]
    assert [*frame[["width", "depth", "seed"]].itertuples(index=False, name=None)] == points
    for place in (1, 6):
        width, depth, seed = points[place]
        arguments = {"width": width, "depth": depth}
        alone = vp.fit(data, [Network(arguments, architecture="sympnet-g")], epochs=3, seed=seed)
        assert frame["error"][place] == alone.history.test_error
        assert frame["validation_error"][place] == alone.error
        weights = alone.model.state_dict()
        assert all(torch.equal(weights[k], v) for k, v in models[place].state_dict().items())
    assert {*frame["cost"]} == {1e-7}
    assert (tmp_path / "a" / "study.csv").read_text().count("\n") == 9


def test_models_budgets_and_optimizers_vary(data, tmp_path):
    vary = {"model": ["sympnet-g", "henonnet"], "epochs": [1, 2], "optimizer": ["adam"]}
    frame, models = vp.study(data, vary=vary, folder=tmp_path / "a", arguments={"width": 3})
    assert [model.name for model in models] == ["sympnet-g"] * 2 + ["henonnet"] * 2
    assert [*frame["epochs"]] == [1, 2, 1, 2]
    assert all(model.arguments["width"] == 3 for model in models)


def test_a_study_goes_on_and_grows(data, tmp_path, monkeypatch):
    folder = tmp_path / "a"
    lines = []
    widths(data, folder, progress=lambda *line: lines.append(line[1:]))
    assert lines == [(1, 2), (2, 2)]
    before = {path: path.stat().st_mtime_ns for path in folder.glob("*.safetensors")}
    (folder / "width-2_seed-0.safetensors").unlink()
    frame, _ = widths(data, folder, (3, 4), seeds=2, progress=lambda row, *_: lines.append(row))
    assert [(row["width"], row["seed"]) for row in lines[2:]] == [(3, 1), (4, 0), (4, 1)]
    assert [*frame["width"]] == [3, 3, 4, 4]
    kept = folder / "width-3_seed-0.safetensors"
    assert kept.stat().st_mtime_ns == before[kept]
    record = read_study(folder)
    assert record.varied == {"width": [2, 3, 4]} and record.seeds == [0, 1]


def test_a_training_that_is_interrupted_is_not_recorded(data, tmp_path, monkeypatch):
    calls = []

    def fit(*arguments, **options):
        calls.append(options["seed"])
        if len(calls) == 2:
            signal.raise_signal(signal.SIGINT)
        return vp.fit(*arguments, **options)

    monkeypatch.setattr(MODULE, "fit", fit)
    with pytest.raises(KeyboardInterrupt):
        widths(data, tmp_path / "a", seeds=2)
    assert len(read_study(tmp_path / "a").rows) == 1
    widths(data, tmp_path / "a", seeds=2)
    assert len(calls) == 5 and len(read_study(tmp_path / "a").rows) == 4


SCRIPT = """
import sys, vpintegrator as vp
if __name__ == "__main__":
    vp.study(sys.argv[1], "sympnet-g", vary={"width": [2, 3]}, seeds=2, folder=sys.argv[2],
             epochs=10, workers=2)
"""


def test_a_study_that_is_killed_loses_at_most_what_was_running(data, tmp_path):
    script = tmp_path / "run.py"
    script.write_text(SCRIPT)
    folder = tmp_path / "a"
    process = subprocess.Popen([sys.executable, script, data.path, folder])
    while process.poll() is None and len(list(folder.glob("*.safetensors"))) < 2:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    rows = read_study(folder).rows
    written = {path.name for path in folder.glob("width*.safetensors")}
    assert {row["file"] for row in rows} <= written and len(written) - len(rows) <= 2
    lines = []
    frame, models = vp.study(
        data,
        "sympnet-g",
        vary={"width": [2, 3]},
        seeds=2,
        folder=folder,
        epochs=10,
        progress=lambda row, *_: lines.append(row),
    )
    assert len(lines) == 4 - len(rows) and len(frame) == len(models) == 4


def test_parts_of_a_dataset(data):
    part = DatasetPart(data, 4, 0.1, seed=3)
    whole = data.states("train")
    difference = DatasetPart(data, noise=0.1, seed=3).states("train") - whole
    relative = difference.std((0, 1)) / whole.std((0, 1))
    assert np.allclose(relative, 0.1, rtol=0.25)
    assert part.shapes["train"][0] == 4 and part.states("train").shape == (4, *whole.shape[1:])
    assert np.array_equal(part.states("train", slice(1, 3), slice(2)).shape, (2, 2, 2))
    assert not np.array_equal(part.states("validation"), data.states("validation"))
    assert np.array_equal(part.states("test"), data.states("test"))
    assert np.array_equal(DatasetPart(data, 4).states("train"), whole[:4])
    others = DatasetPart(data, noise=0.1, seed=4).states("train")
    assert not np.allclose(others, whole + difference)
    with pytest.raises(InputError, match="15 training trajectories, not 99"):
        DatasetPart(data, 99)


def test_less_data_and_more_noise_reach_the_training(data, tmp_path):
    vary = {"count": [3, 14], "noise": [0.0, 0.2]}
    frame, _ = vp.study(data, "polynomial", vary=vary, folder=tmp_path / "a")
    error = frame.set_index(["count", "noise"])["error"]
    assert error[3, 0.0] > error[14, 0.0] and error[14, 0.2] > 10 * error[14, 0.0]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"vary": {}}, "a study varies something"),
        ({"vary": {"widht": [2]}}, "cannot vary 'widht'; did you mean 'width'"),
        ({"vary": {"width": [2, 2]}}, "each of them once"),
        ({"vary": {"width": []}}, "each of them once"),
        ({"vary": {"width": [2]}, "arguments": {"width": 3}}, "varies width: do not give"),
        ({"vary": {"epochs": [2]}, "epochs": 3}, "varies epochs: do not give"),
        ({"vary": {"width": [[2]]}}, "varies numbers and words"),
        ({"vary": {"width": ["a"]}}, "width must be"),
        ({"vary": {"count": [2, 99]}}, "15 training trajectories, not 99"),
        ({"vary": {"count": [0]}}, "count = 0 must be"),
        ({"vary": {"noise": [-1.0]}}, "noise = -1.0 must"),
        ({"vary": {"optimizer": ["adma"]}}, "did you mean 'adam'"),
        ({"vary": {"model": ["gru"]}}, "give one of both"),
        ({"model": None, "vary": {"width": [2]}}, "give one of both"),
        ({"model": None, "vary": {"model": ["gru", "linear"], "width": [2]}}, "linear has no such"),
        ({"model": None, "vary": {"model": ["grru"]}}, "there is no model 'grru'"),
        ({"vary": {"width": [2]}, "workers": 0}, "workers = 0 must be"),
        ({"vary": {"width": [2]}, "seeds": 0}, "seeds = 0 must be"),
        ({"model": "gru", "vary": {"window": [2, 40]}}, "too few for windows of 40 states"),
    ],
)
def test_mistakes_are_told_before_anything_is_trained(data, tmp_path, options, words):
    folder = tmp_path / "a"
    given = {"model": "sympnet-g", "folder": folder} | options
    with pytest.raises(InputError, match=words):
        vp.study(data, **given)
    assert not folder.exists()


def test_other_studies_and_damaged_ones_are_refused(data, tmp_path):
    folder = tmp_path / "a"
    widths(data, folder, (2,))
    with pytest.raises(InputError, match="another study, which differs in epochs"):
        vp.study(data, "sympnet-g", vary={"width": [2]}, folder=folder, epochs=3)
    with pytest.raises(InputError, match="another study, which differs in what varies"):
        vp.study(data, "sympnet-g", vary={"depth": [2]}, folder=folder, epochs=2)
    record = folder / "study.json"
    text = record.read_text()
    table = json.loads(text)
    row = table["trainings"][0]
    damaged = {
        "it is damaged": text[:-20],
        "its format is not": json.dumps(table | {"format": "x"}),
        "format version 99": json.dumps(table | {"version": 99}),
        "it has no 'seeds'": json.dumps(table | {"seeds": None}),
        "a training has no error": json.dumps(table | {"trainings": [row | {"error": "x"}]}),
        "a training has no width": json.dumps(
            table | {"trainings": [{k: v for k, v in row.items() if k != "width"}]}
        ),
        "another folder": json.dumps(table | {"trainings": [row | {"file": "../../x"}]}),
        "curve": json.dumps(table | {"trainings": [row | {"curve": [[1]]}]}),
    }
    for words, content in damaged.items():
        record.write_text(content)
        with pytest.raises(InputError, match=words):
            widths(data, folder, (2,))
    assert len(widths(data, folder, (2,), overwrite=True)[0]) == 1
    with pytest.raises(InputError, match="there is no folder"):
        read_study(tmp_path / "none")
    with pytest.raises(InputError, match=r"there is no study\.json in"):
        read_study(tmp_path)


def test_files_of_others_stay(data, tmp_path):
    own = tmp_path / "width-2_seed-0.safetensors"
    own.write_text("precious")
    with pytest.raises(InputError, match="exists already"):
        widths(data, tmp_path, (2,))
    assert own.read_text() == "precious"


def test_curves_keep_their_ends_and_fall():
    seconds = np.arange(1, 5001) / 10
    errors = 1 / seconds * (1 + 0.5 * np.sin(seconds))
    curve = np.array(thinned(seconds, errors))
    assert (
        len(curve) <= 60 and (np.diff(curve[:, 0]) > 0).all() and (np.diff(curve[:, 1]) <= 0).all()
    )
    assert curve[0].tolist() == [0.1, errors[0]] and curve[-1].tolist() == [500.0, errors.min()]
    assert thinned([1.0, 2.0], [float("nan"), 0.5]) == [[2.0, 0.5]]
