"""vp-show: lists, systems, methods, architectures, files; and vp.show in Python."""

import inspect
import json

import pytest

import vpintegrator as vp
from tests.cli.conftest import refused
from vpintegrator.cli.gen import main as gen
from vpintegrator.cli.rollout import main as rollout
from vpintegrator.cli.show import main
from vpintegrator.cli.train import main as train
from vpintegrator.models import ARCHITECTURES
from vpintegrator.overview import GIVEN_OTHERWISE
from vpintegrator.rollout import METHODS


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("systems", ("rigid-body", "36", "divergence-free", "pendulum")),
        ("recipes", ("rigid-body-circles", "coupled-oscillators")),
        ("methods", tuple(METHODS)),
        ("models", tuple(ARCHITECTURES)),
        ("rk4", ("order          4", "Kutta")),
        ("rigid-body-circles", ("system = ", "steps = ")),
    ],
)
def test_lists_and_names(done, name, texts):
    output = done(main, name)
    for text in texts:
        assert text in output
    assert json.loads(done(main, name, "--json", "--quiet"))


def test_a_system(done):
    output = done(main, "rigid-body", "-p", "I1=5")
    for text in ("ż₁ = z₂⋅z₃⋅", "I1 = 5", "z1 → -z1", "div f = 0"):
        assert text in output
    assert "strang-splitting" in output and "boris" not in output  # the methods that apply
    facts = json.loads(done(main, "pendulum", "--json", "--quiet"))
    assert facts["invariants"] == ["energy"]


def test_a_return_map(done, tmp_path):
    poincare = vp.return_map("henon-heiles", "q[0] = 0", energy=0.1)
    (tmp_path / "map.toml").write_text(poincare.text)
    for line in ("symplectic map", "Return map", "energy = 0.1", "p[1] → -p[1]"):
        assert line in done(main, "map.toml")
    assert str(vp.show(poincare)).splitlines()[2:] == done(main, "map.toml").splitlines()[2:]


@pytest.mark.parametrize("name", list(ARCHITECTURES))
def test_an_architecture_shows_every_argument_with_its_default(name):
    overview = vp.show(name)
    for argument, parameter in inspect.signature(ARCHITECTURES[name]).parameters.items():
        lines = [line for line in str(overview).splitlines() if line.split()[:1] == [argument]]
        assert bool(lines) == (argument not in GIVEN_OTHERWISE), argument
        if lines and isinstance(parameter.default, int | float | str):
            assert str(parameter.default).lower() in lines[0].lower()
            assert len(overview.facts[argument]["meaning"]) > 5


def test_files(done, run, tmp_path):
    done(gen, "pendulum", "--count", "30", "-o", "a.h5")
    done(train, "a.h5", "--model", "vpff", "--epochs", "2", "-o", "a.safetensors")
    done(rollout, "a.safetensors", "--steps", "5", "-o", "b.h5")
    dataset, model = done(main, "a.h5", "-o", "a.png"), done(main, "a.safetensors", "-o", "m.svg")
    report = done(main, "b.h5", "-o", "b.pdf")
    for text, output in (
        *((text, dataset) for text in ("pendulum", "seed", "DOP853", "energy: train")),
        *((text, model) for text in ("vpff", "volume-preserving", "step", "test_error")),
        *((text, report) for text in ("Rollout: Mathematical pendulum", "RMSE")),
    ):
        assert text in output
    for name in ("a.png", "m.svg", "b.pdf"):
        assert (tmp_path / name).stat().st_size > 5_000
    assert refused(run(main, "a.h5", "-o", "a.png"), "--overwrite")
    facts = json.loads(done(main, "a.safetensors", "--json", "--quiet"))
    assert facts["model"] == "vpff" and facts["origin"]["system"] == "pendulum"
    text = str(vp.show("a.h5"))
    assert text == str(vp.show(vp.open_dataset("a.h5")))
    assert dataset == f"{text}\npicture written to a.png\n"
    assert vp.show(vp.open_rollout("b.h5")).facts["table"][0]["method"] == "a"
