"""vp-train --study: the combinations, its folder, and what is refused."""

import json
import sys

import pytest

import vpintegrator as vp
from tests.cli.conftest import refused
from vpintegrator.cli.train import main as train

STUDY = ("--model", "sympnet-g", "--epochs", "2")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli")
    return vp.generate("pendulum", folder / "p.h5", count=20, steps=5).path


@pytest.fixture(autouse=True)
def no_costs(monkeypatch):
    """No machine code of the models, which takes seconds each."""
    module = sys.modules[vp.study.__module__]
    monkeypatch.setattr(module, "_cost", lambda model, data: 1e-7)


def test_a_study_and_how_it_goes_on(done, data, tmp_path):
    varied = ("--study", "width=2,3", "--study", "noise=0,1e-3")
    output = done(train, data, *STUDY, *varied, "--set", "depth=1")
    assert "4 of 4: width 3, noise 0.001, seed 0: error " in output
    folder = tmp_path / "p-sympnet-g-study"
    assert len([*folder.glob("*.safetensors")]) == 4
    assert (folder / "study.csv").read_text().startswith("width,noise,seed,model,error,")
    again = done(train, data, *STUDY, *varied, "--set", "depth=1", "--seeds", "2")
    assert " of 8: " in again and "seed 0" not in again
    assert "error of 8 trainings:" in again and "median" in again
    facts = done(train, data, *STUDY, *varied, "--set", "depth=1", "--json", "--quiet")
    rows = json.loads(facts)["trainings"]
    assert [(row["width"], row["noise"]) for row in rows] == [
        (2, 0),
        (2, 0.001),
        (3, 0),
        (3, 0.001),
    ]
    assert vp.load(folder / rows[2]["file"]).arguments["depth"] == 1
    done(train, data, "--study", "model=henonnet,gru", "--epochs", "1", "-o", "b")
    assert len([*(tmp_path / "b").glob("model-*.safetensors")]) == 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--study", "widht=2"), "cannot vary 'widht'; did you mean 'width'"),
        (("--study", "width"), "give NAME=VALUE,VALUE,..., such as window=2,3,5"),
        (("--study", "width=2,,3"), "give NAME=VALUE,VALUE"),
        (("--study", "width=2", "--study", "width=3"), "width is given twice"),
        (("--study", "width=2,2"), "each of them once"),
        (("--study", "width=x"), "width must be an integer"),
        (("--study", "width=2", "--width", "3"), "varies width: do not give it a value, too"),
        (("--study", "epochs=2"), "varies epochs: do not give it a value, too"),
        (("--study", "width=2", "--start", "a.safetensors"), "--start has no part in a study"),
        (("--study", "width=2", "--search"), "--search has no part in a study"),
        (("--study", "width=2", "--target", "1e-3"), "--target has no part in a study"),
        (("--study", "width=2", "--workers", "0"), "workers = 0 must be"),
        (("--workers", "2"), "--workers is for trainings of a study"),
        (("--study", "model=gru"), "give one of both"),
    ],
)
def test_mistakes(run, data, tmp_path, options, words):
    assert refused(run(train, data, *STUDY, *options), words)
    assert not [*tmp_path.iterdir()]


def test_a_folder_of_others_is_refused(run, done, data, tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "study.json").write_text("[1, 2")
    options = (*STUDY, "--study", "width=2", "-o", "a")
    assert refused(run(train, data, *options), "a/study.json is no record of a study")
    done(train, data, *options, "--overwrite")
    more = (*STUDY[:2], "--epochs", "3", *options[4:])
    assert refused(run(train, data, *more), "another study, which differs in epochs")
