"""vp-gen of maps and return maps: options, what is shown, what is refused."""

import pytest

from tests.cli.conftest import refused
from tests.dynamics.test_discrete import KICKED
from vpintegrator.cli.gen import main
from vpintegrator.data import open_dataset

SECTION = ["--section", "q[0] = 0", "--count", "9", "--steps", "2"]


def test_maps_by_formula(run, tmp_path):
    (tmp_path / "kicked.toml").write_text(KICKED)
    result = run(main, "--show", "kicked.toml")
    assert result.exit_code == 0, result.output
    for text in ("symplectic map", "stage 2:", "ρ M ρ M = 1", "DMᵀ J DM = J", "steps 5"):
        assert text in result.output
    result = run(main, "kicked.toml", "--count", "20")
    assert result.exit_code == 0 and "exact but for rounding" in result.output, result.output
    result = run(main, "--inspect", "kicked.h5")
    assert result.exit_code == 0 and "iterated by formula" in result.output, result.output
    assert refused(run(main, "kicked.toml", "--step", "0.1", "-o", "a.h5"), "one iteration")


def test_return_maps_by_section(run):
    result = run(main, "henon-heiles", *SECTION, "-p", "energy=0.1", "--direction", "down")
    assert result.exit_code == 0, result.output
    dataset = open_dataset("henon-heiles-map.h5")
    assert dataset.parameters == {"energy": 0.1}
    assert dataset.system.equations.returns.sign == -1
    result = run(main, "--inspect", "henon-heiles-map.h5")
    assert "of q[0] = 0 downwards; canonical coordinates (q[1], p[1])" in result.output
    result = run(main, "henon-heiles", *SECTION, "--vary", "energy=0.02:0.12", "-o", "family.h5")
    assert result.exit_code == 0, result.output
    assert open_dataset("family.h5").varied == {"energy": (0.02, 0.12)}


@pytest.mark.parametrize(("step", "crossings"), [("period", 1), ("2*period", 2)])
def test_stroboscopic_maps(run, step, crossings):
    result = run(main, "forced-duffing", "--step", step, "--count", "9", "--steps", "1")
    assert result.exit_code == 0, result.output
    system = open_dataset("forced-duffing-map.h5").system
    assert system.equations.returns.crossings == crossings and system.components == ("q", "p")


def test_a_stroboscopic_map_of_what_a_recipe_describes(run):
    result = run(main, "field-lines-two", "--step", "period", "--count", "9", "--steps", "1")
    assert result.exit_code == 0, result.output
    dataset = open_dataset("field-lines-two-map.h5")
    assert dataset.parameters["m"] == [2, 5] and dataset.system.components == ("Z", "u")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["henon-heiles", *SECTION], "of a Hamiltonian flow have an energy"),
        (["henon-heiles", *SECTION, "-p", "energy=0.1", "--step", "0.2"], "one return"),
        (["henon-heiles", "--direction", "up"], "--direction is that of crossings"),
        (["pendulum", "--step", "period"], "no period in time"),
        (["forced-duffing", "--step", "period", "--section", "q = 0"], "leave out --section"),
        (["forced-duffing", "--section", "q = 0"], "is stroboscopic"),
        (["henon-heiles", *SECTION, "-p", "energy=-1"], "too small for any momentum"),
        (["henon-heiles", *SECTION, "-p", "energy=0.1", "--vary", "energy=0:1"], "leave -p"),
        (["--from", "x.csv", "--step", "period"], "give the step as a number"),
    ],
)
def test_what_makes_no_map_is_refused(run, arguments, message):
    assert refused(run(main, *arguments), message)


def test_a_return_map_is_shown(run, tmp_path):
    run(main, "henon-heiles", *SECTION, "-p", "energy=0.1")
    text = open_dataset("henon-heiles-map.h5").system.text
    (tmp_path / "map.toml").write_text(text)
    result = run(main, "--show", "map.toml")
    assert result.exit_code == 0, result.output
    for line in ("symplectic map", "Return map", "energy = 0.1", "(q[1], p[1]) → (q[1], -p[1])"):
        assert line in result.output
