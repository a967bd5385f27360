"""The reproductions of published studies, with hardly any training."""

import csv
import dataclasses
import functools
import importlib
import inspect
import json
import math
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

import vpintegrator as vp
from vpintegrator import plotting

SCRIPTS = Path(__file__).parents[2] / "scripts"
STUDIES = ("reproduce_rigid_body", "reproduce_coupled_oscillators")
SECONDS = "0.3"
PARAMETERS = {
    "reproduce_rigid_body": {"feed-forward": 135, "VPT": 180, "standard transformer": 189},
    "reproduce_coupled_oscillators": {"feed-forward": 304, "VPT": 352, "standard transformer": 108},
}


def draw(report, folder, **options):
    """In place of vp.draw, which has tests of its own and takes seconds."""
    inspect.signature(plotting.draw).bind(report, folder, **options)
    folder.mkdir(exist_ok=True)
    (folder / "overview.pdf").write_text(repr(report))


@pytest.fixture(scope="module")
def command():
    """Runs a study of few data and short orbits, and draws little."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(SCRIPTS)
        patch.setattr(vp, "draw", draw)
        patch.setattr(importlib.import_module("reproduction"), "FIGURE", ("pdf",))

        def run(script, folder, *arguments):
            module = importlib.import_module(script)
            study = module.STUDY
            changes = {"trajectories": {"train": 20, "validation": 5, "test": 5}, "steps": 20}
            with pytest.MonkeyPatch.context() as inner:
                changed = dataclasses.replace(study, time=6.0, changes={**study.changes, **changes})
                inner.setattr(module, "STUDY", changed)
                return CliRunner().invoke(module.main, ["-o", str(folder), *arguments])

        yield run


@pytest.fixture(scope="module")
def finished(command, tmp_path_factory):
    """Script, folder and output of a finished study."""

    @functools.cache
    def finished(script):
        folder = tmp_path_factory.mktemp("study") / script
        result = command(script, folder, "--seconds", SECONDS)
        assert result.exit_code == 0, result.output
        return script, folder, result.output

    return finished


@pytest.fixture(params=STUDIES)
def study(request, finished):
    return finished(request.param)


def rows(folder):
    with open(folder / "table.csv", newline="") as file:
        return {row["method"]: row for row in csv.DictReader(file)}


def test_everything_is_written(study):
    _, folder, output = study
    networks = {path.name for path in folder.glob("*.safetensors")}
    assert networks == {
        *("feed-forward.safetensors", "vpt.safetensors", "standard-transformer.safetensors"),
        *("reversible-feed-forward.safetensors", "reversible-vpt.safetensors"),
    }
    others = {path.name for path in folder.iterdir()} - networks
    tables = {"table.md", "table.tex", "table.csv"}
    assert others == {"dataset.h5", "rollout.h5", "study.pdf", "figures"} | tables
    assert (folder / "figures" / "overview.pdf").exists()
    assert "reversible VPT" in output and "used again" not in output


def test_the_numbers_are_those_of_the_rollout(study):
    script, folder, _ = study
    report, table = vp.open_rollout(folder / "rollout.h5"), rows(folder)
    titles = [run.title for run in report.runs.values()]
    assert titles == [name for name, row in table.items() if row["time per step"]]
    for name, run in report.runs.items():
        row, summary = table[run.title], report.summary(name)
        errors = [float(row["RMSE orbit 1"]), float(row["RMSE orbit 2"])]
        assert errors == pytest.approx(run.root_mean_square_error, rel=1e-12)
        assert float(row["energy"]) == pytest.approx(summary.invariants["energy"], rel=1e-9)
        assert float(row["volume"]) == pytest.approx(summary.volume["step"], rel=1e-6, abs=1e-12)
    for name, count in PARAMETERS[script].items():
        model = vp.load(folder / f"{name.replace(' ', '-').lower()}.safetensors")
        trained = json.loads(model.metadata["training"])
        assert int(table[name]["parameters"]) == trained["parameters"] == count
        assert float(table[name]["error"]) == trained["test_error"]
        assert table[name]["training"] == "ours"
    # one accurate classical method, and what keeps volume by construction
    assert max(report.run("rk4").root_mean_square_error) < 0.1
    assert abs(float(table["reversible VPT"]["volume"])) < 1e-10
    assert float(table["VPT"]["volume"]) > 1e-10


def test_tables_agree(study):
    _, folder, output = study
    table = rows(folder)
    lines = (folder / "table.md").read_text().splitlines()
    cells = [[c.strip() for c in line.strip("|").split("|")] for line in lines if "|" in line]
    cells = [row for row in cells if row[0] in table]
    assert [row[0] for row in cells] == list(table)
    column = lines[2].strip("| ").split(" | ").index("RMSE orbit 1")
    for row in cells:
        assert float(row[column]) == pytest.approx(float(table[row[0]]["RMSE orbit 1"]), rel=0.06)
    tex = (folder / "table.tex").read_text()
    assert tex.count(r"\\") == len(table) + 1
    assert r"\toprule" in tex and "e-0" not in tex
    for name in table:
        assert name.replace("–", "--") in tex and name in output


def test_published_values_stand_beside_ours(study):
    script, folder, _ = study
    table = rows(folder)
    published = {name: row for name, row in table.items() if name.endswith(", published")}
    if script == "reproduce_coupled_oscillators":
        assert not published  # nobody published any
        return
    transformer = published["VPT, published"]
    assert float(transformer["error"]) == 1.7e-3
    assert [float(transformer[f"RMSE orbit {k}"]) for k in (1, 2)] == [0.68, 0.21]
    assert transformer["parameters"] == table["VPT"]["parameters"]
    assert list(table).index("VPT, published") == list(table).index("VPT") + 1
    assert "arXiv 2312.11166" in (folder / "table.md").read_text()


def test_networks_are_used_again(finished, command, tmp_path):
    script, original, _ = finished("reproduce_coupled_oscillators")
    folder = tmp_path / "copy"
    shutil.copytree(original, folder)
    (folder / "vpt.safetensors").unlink()  # as after an interrupt
    (folder / "table.csv").unlink()
    kept = {path: path.read_bytes() for path in folder.glob("*.safetensors")}
    first = vp.open_rollout(folder / "rollout.h5")
    result = command(script, folder, "--seconds", SECONDS)
    assert result.exit_code == 0, result.output
    assert result.output.count("used again") == 1 + len(kept)  # the data and all but one network
    assert all(path.read_bytes() == content for path, content in kept.items())
    assert (folder / "vpt.safetensors").exists()
    second = vp.open_rollout(folder / "rollout.h5")
    for name in ("reversible VPT", "rk4"):
        assert (first.run(name).states == second.run(name).states).all()
    assert set(rows(folder)) == set(rows(original))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seconds", "0.4"], "seconds = 0.3"),
        (["--seconds", SECONDS, "--seed", "1"], "seed = 0"),
        (["--seconds", SECONDS, "--published-training"], "training = ours"),
        (["--quick", "--seconds", "1"], "--quick or --seconds"),
        (["--seconds", "0"], "0"),
    ],
)
def test_nothing_is_replaced_unasked(finished, command, arguments, message):
    script, folder, _ = finished("reproduce_coupled_oscillators")
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    result = command(script, folder, *arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())
    assert before == {path: path.stat().st_mtime_ns for path in folder.iterdir()}


def test_other_folders(command, tmp_path):
    script = "reproduce_rigid_body"
    (tmp_path / "table.md").write_text("mine")
    result = command(script, tmp_path)
    assert result.exit_code == 2 and "table.md exists" in " ".join(result.output.split())
    result = command(script, tmp_path / "no" / "folder")
    assert result.exit_code == 2 and "does not exist" in result.output
    other = tmp_path / "other"
    other.mkdir()
    vp.generate("rigid-body", other / "dataset.h5", count=5)
    result = command(script, other)
    assert result.exit_code == 2 and "other data" in " ".join(result.output.split())


def test_published_training(command, tmp_path):
    script = "reproduce_coupled_oscillators"
    result = command(script, tmp_path, "--seconds", SECONDS, "--published-training")
    assert result.exit_code == 0, result.output
    table = rows(tmp_path)
    for name, training in (("VPT", "as published"), ("reversible VPT", "ours")):
        assert table[name]["training"] == training
        model = vp.load(tmp_path / f"{name.replace(' ', '-').lower()}.safetensors")
        optimizer = json.loads(model.metadata["training"])["optimizer"]
        assert (optimizer == "adam") == (training == "as published")
        assert (model.scale == 1).all() == (training == "as published")
        assert math.isfinite(float(table[name]["error"]))
    assert "Adam" in (tmp_path / "table.md").read_text()
