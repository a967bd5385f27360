"""The drawing of a model's layers, and the paragraph on its training."""

import json
import platform
from dataclasses import replace

import pytest
import torch
from click.testing import CliRunner

import vpintegrator as vp
from tests.models.cases import CASES, made
from vpintegrator.cli.plot import main
from vpintegrator.cli.show import main as show
from vpintegrator.errors import InputError
from vpintegrator.plotting.figures.architecture import (
    ArchitectureFigure,
    Box,
    box_of,
    layers_of,
    methods_paragraph,
    units_of,
)
from vpintegrator.plotting.figures.models import model_scene

CHOSEN = ("vpt", "vpt, heads", "vpmt", "reversible", "transformer", "resnet", "hnn", "lstm", "sgf")


@pytest.mark.parametrize("case", CHOSEN)
def test_boxes_have_all_parameters(case):
    assert case in CASES
    model = made(case)
    figure = ArchitectureFigure(model_scene(model))
    boxes = [(box, unit.repeats) for unit in figure.units for box in unit.boxes]
    weights = sum(p.numel() for p in model.parameters())
    assert sum(times * box.parameters for box, times in boxes) == weights
    assert sum(times for _, times in boxes) == len([*layers_of(model.core)])
    drawn = " ".join(text.get_text() for text in figure.draw().axes[0].texts)
    for box, _ in boxes:
        assert box.name in drawn and f"{box.parameters:,}" in drawn
    assert f"{model.dim} components" in drawn


@pytest.mark.parametrize(
    ("letters", "expected"),
    [
        ("a", [("a", 1)]),
        ("aaaa", [("a", 4)]),
        ("abab", [("ab", 2)]),
        ("cababab", [("c", 1), ("ab", 3)]),
        ("aabaab", [("aab", 2)]),
        ("abcd", [("a", 1), ("b", 1), ("c", 1), ("d", 1)]),
    ],
)
def test_units_that_repeat_are_drawn_once(letters, expected):
    units = units_of([Box(letter, "", 0) for letter in letters])
    assert [("".join(box.name for box in u.boxes), u.repeats) for u in units] == expected


def test_sizes_are_those_of_the_layers():
    assert box_of(torch.nn.Linear(3, 7)) == Box("Linear", "3 → 7", 28)
    model = vp.models.HamiltonianNetwork(dim=2, width=5, substeps=2)
    assert box_of(model.core).sizes == "method rk4, substeps 2, 2 → 5, 5 → 5, 5 → 1"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("architecture")
    data = vp.generate("pendulum", folder / "p.h5", count=20, steps=5)
    model = vp.models.GradientSympNet(dim=2, depth=2, width=3)
    history = vp.train(model, data, epochs=3, seed=7, compiled=False)
    vp.save(model, folder / "net.safetensors")
    return folder / "net.safetensors", data, history


def test_the_paragraph_says_how_it_was_trained(trained):
    path, data, history = trained
    words = methods_paragraph(model_scene(path))
    for part in (
        "net is a sympnet-g (dim 2, depth 2, width 3",
        "with 36 parameters in float64: symplectic",
        f"Training data: Mathematical pendulum: {data.description}, fingerprint "
        f"{data.fingerprint[:12]}",
        "3 epochs in ",
        "in PyTorch on cpu, seed 7, stopped by epochs",
        f"validation {history.best_validation_error:.2e} (epoch {history.best_epoch})",
        f"test error {history.test_error:.2e} ± ",
        f"Python {platform.python_version()}, vpintegrator {vp.__version__}, torch ",
    ):
        assert part in words, part
    assert methods_paragraph(model_scene(vp.models.GradientSympNet(dim=2))) == ""


def test_the_record_holds_data_and_versions(trained, tmp_path):
    path, data, _ = trained
    result = CliRunner().invoke(show, [str(path), "--json", "--quiet"])
    facts = json.loads(result.stdout)["record"]
    assert facts["data"] == data.description
    assert f"torch {torch.__version__}" in facts["versions"]
    model = vp.load(path)
    model.record = replace(model.record, versions=(1,))
    vp.save(model, tmp_path / "damaged.safetensors")
    with pytest.raises(InputError, match="the record of its training is damaged"):
        vp.load(tmp_path / "damaged.safetensors")


def test_the_command_draws_it_where_it_is_named(trained, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = str(trained[0])
    options = ("--figure", "architecture", "--format", "svg", "--format", "pdf")
    result = CliRunner().invoke(main, [path, "-o", "f", *options])
    assert result.exit_code == 0, result.output
    names = {each.name for each in (tmp_path / "f").iterdir()}
    assert names == {"architecture.svg", "architecture.pdf", "architecture.md"}
    result = CliRunner().invoke(main, [path, "-o", "g", "--format", "svg"])
    assert result.exit_code == 0 and "1 figure: training" in result.output
    captions = (tmp_path / "g" / "captions.md").read_text()
    assert "## methods" in captions and "architecture" not in captions
    vp.save(vp.models.GradientSympNet(dim=2), "new.safetensors")  # one without a training
    result = CliRunner().invoke(main, ["new.safetensors", "-o", "h", *options])
    assert result.exit_code == 0, result.output
