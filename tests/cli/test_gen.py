"""vp-gen."""

import json
import subprocess
import sys

import pytest

from tests.cli.conftest import refused
from vpintegrator.cli.gen import main
from vpintegrator.data import open_dataset

SYSTEM = """
title = "Duffing oscillator"
state = ["q", "p"]
hamiltonian = "p**2/2 - q**2/2 + b*q**4/4"
[parameters]
b = 1
[initial_conditions]
distribution = "uniform"
low = -1
high = 1
[defaults]
step = 0.1
steps = 9
"""


def test_generate(run, tmp_path):
    result = run(main, "rigid-body", "--count", "30", "--steps", "5", "-p", "I1=3")
    assert result.exit_code == 0, result.output
    assert "23 train, 2 validation, 5 test; 5 steps of 0.2" in result.output
    assert "squared momentum" in result.output
    dataset = open_dataset(tmp_path / "rigid-body.h5")
    assert dataset.parameters["I1"] == 3


@pytest.mark.thorough
def test_each_trajectory_has_its_own_step_and_parameters(run):
    vary = ["--vary", "step=0.05:0.4", "--vary", "I1=1.5:2.5:log"]
    result = run(main, "rigid-body", "--count", "30", "--steps", "5", *vary)
    assert result.exit_code == 0, result.output
    assert "5 steps of 0.05 to 0.4 each, I1 1.5 to 2.5" in result.output
    dataset = open_dataset("rigid-body.h5")
    assert dataset.varied == {"step": (0.05, 0.4), "I1": (1.5, 2.5)}
    assert "log = true" in dataset.recipe
    result = run(main, "--inspect", "rigid-body.h5")
    assert result.exit_code == 0, result.output
    for text in ("step           0.05 to 0.4", "I1 from 1.5 to 2.5", "t/step = 0 to 5"):
        assert text in result.output
    result = run(main, "--inspect", "rigid-body.h5", "--overwrite", "--json")
    assert json.loads(result.stdout)["varied"] == {"step": [0.05, 0.4], "I1": [1.5, 2.5]}


def test_a_file_of_ones_own(run, tmp_path):
    (tmp_path / "duffing.toml").write_text(SYSTEM)
    result = run(main, "duffing.toml", "--count", "20", "-o", "a.h5")
    assert result.exit_code == 0, result.output
    assert open_dataset("a.h5").system.title == "Duffing oscillator"


def test_list(run):
    result = run(main, "--list")
    assert result.exit_code == 0
    for name in ("rigid-body-circles", "coupled-oscillators", "pendulum", "divergence-free"):
        assert name in result.output


def test_a_length_from_the_command_line(run):
    assert run(main, "toda", "-p", "n=5", "--count", "5", "--steps", "3").exit_code == 0
    assert open_dataset("toda.h5").system.dim == 10
    assert refused(
        run(main, "--show", "toda", "-p", "n=2.5"), "the length of 'q' is 2.5, not a whole"
    )


def test_show(run):
    result = run(main, "--show", "rigid-body", "-p", "I1=5")
    assert result.exit_code == 0
    for text in ("ż₁ = z₂⋅z₃⋅", "I1 = 5", "(z1, z2, z3) → (-z1, z2, z3)", "div f = 0"):
        assert text in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rigid-bdy"], "did you mean 'rigid-body'"),
        ([], "say what to generate"),
        (["rigid-body", "-p", "I1"], "NAME=VALUE"),
        (["rigid-body", "-p", "I9=1"], "no parameter 'I9'"),
        (["rigid-body", "--vary", "I1=3"], "expected NAME=LOW:HIGH, such as step=0.05:0.4"),
        (["rigid-body", "--vary", "I9=1:2"], "no parameter 'I9' that could vary"),
        (["rigid-body", "--vary", "I1=1:2", "-p", "I1=3"], "leave -p I1=... out"),
        (["rigid-body", "--vary", "step=1:2", "--step", "1"], "leave --step out"),
        (["--show", "rigid-body", "-p", "I1=__import__('os')"], "unknown function"),
    ],
)
def test_mistakes(run, tmp_path, arguments, message):
    assert refused(run(main, *arguments), message)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("p**2/2", "__import__('os').system('touch hacked')", "is not allowed in an expression"),
        ("[parameters]", "[parameters", "not valid TOML"),
        ("[parameters]", '[invariants]\nq = "q"\n[parameters]', "not constant along solutions"),
    ],
)
def test_mistakes_in_a_file(run, tmp_path, old, new, message):
    (tmp_path / "duffing.toml").write_text(SYSTEM.replace(old, new))
    assert refused(run(main, "duffing.toml"), message)
    assert [path.name for path in tmp_path.iterdir()] == ["duffing.toml"]


def test_existing_output_is_kept(run, tmp_path):
    (tmp_path / "a.h5").write_text("precious")
    assert refused(run(main, "pendulum", "-o", "a.h5"), "--overwrite")
    assert (tmp_path / "a.h5").read_text() == "precious"
    assert run(main, "pendulum", "-o", "a.h5", "--overwrite", "--count", "9").exit_code == 0
    assert open_dataset("a.h5").shapes["train"][0] == 7


@pytest.mark.parametrize("command", ["gen", "train", "rollout", "plot"])
def test_help_needs_nothing_slow(command):
    """``--help`` answers at once because torch, SymPy, SciPy and matplotlib are not imported."""
    code = (
        f"import sys; from vpintegrator.cli.{command} import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "slow = {'torch', 'sympy', 'scipy', 'matplotlib', 'numpy', 'h5py'} & set(sys.modules)\n"
        "assert not slow, slow"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert "Usage:" in result.stdout


@pytest.mark.parametrize("low", [-2, -1])
def test_initial_states_outside_of_the_domain(run, tmp_path, low):
    text = SYSTEM.replace("- q**2/2 + b*q**4/4", "- log(q) + b*q").replace(
        "low = -1", f"low = {low}"
    )
    (tmp_path / "log.toml").write_text(text.replace("high = 1", f"high = {low + 1.5}"))
    result = run(main, "log.toml", "--count", 10, "-o", "log.h5")
    if low == -2:
        assert refused(result, "is outside of the domain of log(q); change the distribution")
    else:
        assert result.exit_code == 0, result.output
        assert "drawn again: q = -" in result.output
