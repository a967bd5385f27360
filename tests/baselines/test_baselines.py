"""Baselines on cases with known answers, and their table."""

import json
import math

import numpy as np
import pytest
from click.testing import CliRunner

import vpintegrator as vp
from vpintegrator.baselines import (
    BaselineData,
    BaselineTable,
    GaussianProcess,
    HamiltonianNetwork,
    LeastSquaresMap,
    SparseRegression,
    compare,
    hamiltonian_network,
)
from vpintegrator.cli.gen import main as generate
from vpintegrator.cli.train import main
from vpintegrator.errors import InputError

STEP = 0.1
QUICK = [LeastSquaresMap, GaussianProcess]


def rotated(z, angle=STEP):
    c, s = math.cos(angle), math.sin(angle)
    return z @ np.array([[c, -s], [s, c]])


def oscillator(count=15, times=8, seed=0):
    """Exact states of a harmonic oscillator."""
    states = [np.random.default_rng(seed).uniform(-1, 1, (count, 2))]
    for _ in range(times - 1):
        states.append(rotated(states[-1]))
    return BaselineData(np.stack(states, 1), STEP, is_canonical=True)


@pytest.fixture(scope="module")
def pendulum(tmp_path_factory):
    path = tmp_path_factory.mktemp("baselines") / "pendulum.h5"
    return vp.generate("pendulum", path, count=20, steps=8)


def largest_error(step):
    z = np.random.default_rng(1).uniform(-0.9, 0.9, (50, 2))
    return np.abs(step(z) - rotated(z)).max()


def defect(step, z, eps=1e-3):
    """Largest departure of a determinant from 1, by central differences."""
    rows = [(step(z + eps * e) - step(z - eps * e)) / (2 * eps) for e in np.eye(2)]
    return np.abs(np.linalg.det(np.stack(rows, -1)) - 1).max()


def test_a_linear_map_is_found():
    assert largest_error(LeastSquaresMap().fit(oscillator())) < 1e-13


def test_a_vector_field_is_found():
    pytest.importorskip("pysindy")
    assert largest_error(SparseRegression().fit(oscillator())) < 3e-6  # differences of order four
    pairs = BaselineData(oscillator().states[:, :2], STEP)
    assert largest_error(SparseRegression().fit(pairs)) < 2e-4  # central differences


def test_a_vector_field_in_an_angle(pendulum):
    pytest.importorskip("pysindy")
    found = compare(pendulum, baselines=[SparseRegression])
    assert found.rows[0].error < 1e-3


def test_without_pysindy_the_row_says_how_to_install_it(pendulum, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    found = compare(pendulum, baselines=[SparseRegression])
    assert "pip install 'vpintegrator[bench]'" in str(found)
    assert math.isnan(found.rows[0].error)


def test_a_generating_function_is_found():
    step = GaussianProcess().fit(oscillator())
    assert largest_error(step) < 1e-6
    assert defect(step, np.random.default_rng(2).uniform(-0.9, 0.9, (20, 2))) < 1e-5


def test_a_generating_function_of_an_angle(pendulum):
    found = compare(pendulum, baselines=[GaussianProcess]).rows[0]
    assert found.error < 1e-6
    assert found.rollout < 1e-5


def test_a_hamiltonian_is_found(monkeypatch):
    monkeypatch.setattr(hamiltonian_network, "_ITERATIONS", 300)
    monkeypatch.setattr(hamiltonian_network, "_WIDTH", 16)
    monkeypatch.setattr(hamiltonian_network, "_BATCH", 100)
    data = oscillator(count=40)
    step = HamiltonianNetwork().fit(data)
    assert largest_error(step) < 0.2 * STEP  # the motion is of size STEP
    assert defect(step, np.random.default_rng(2).uniform(-0.9, 0.9, (20, 2))) < 1e-5
    again = HamiltonianNetwork().fit(data)
    z = oscillator(seed=3).before
    assert (again(z) == step(z)).all()
    other = HamiltonianNetwork().fit(data, seed=1)
    assert not (other(z) == step(z)).all()


def test_the_limit_of_seconds_ends_a_training():
    HamiltonianNetwork().fit(oscillator(), seconds=0.01)
    GaussianProcess().fit(oscillator(), seconds=0.01)


def test_angles_are_continued_over_their_jumps():
    states = np.array([[[3.1, 0.0], [-3.1, 0.0]]])
    data = BaselineData(states, 1.0, {0: 2 * math.pi})
    assert data.after[0, 0] == pytest.approx(2 * math.pi - 3.1)


def test_one_table_with_the_model(pendulum):
    model = vp.models.build(pendulum.system, "sgf", degree=6)
    history = vp.train(model, pendulum, optimizer="linear")
    found = compare(pendulum, model, baselines=QUICK)
    assert [row.name for row in found.rows] == ["sgf", "linear map", "Gaussian process"]
    own = found.rows[0]
    assert own.error == history.test_error
    assert own.structure == "symplectic"
    assert own.rollout < 20 * own.error
    assert BaselineTable.from_text(found.text, "x") == found
    assert "errors by test group" in str(found)
    with pytest.raises(InputError, match="x is not what a training writes"):
        BaselineTable.from_text("{}", "x")


def test_without_a_test_group_errors_are_cross_validated(tmp_path):
    data = vp.import_dataset(
        oscillator().states, tmp_path / "o.h5", step=STEP, fractions=[0.8, 0.2, 0.0]
    )
    found = compare(data, baselines=[LeastSquaresMap])
    assert found.judged_by == "5-fold cross-validation"
    assert found.rows[0].error < 1e-12


def test_states_that_are_not_canonical(tmp_path):
    data = vp.generate("rigid-body", tmp_path / "r.h5", count=20, steps=5)
    found = compare(data, baselines=[HamiltonianNetwork])
    assert found.rows[0].reason == "states are not (q, p)"


def test_families_are_refused(tmp_path):
    data = vp.generate(
        "harmonic-oscillator", tmp_path / "f.h5", count=20, steps=2, vary={"k": (1, 2)}
    )
    with pytest.raises(InputError, match="no family"):
        compare(data)
    result = CliRunner().invoke(main, [str(data.path), "--baselines"])
    assert result.exit_code == 2
    assert "no family" in result.output


def test_the_command_prints_and_keeps_the_table(pendulum, tmp_path, monkeypatch):
    monkeypatch.setattr("vpintegrator.baselines.table.BASELINES", (LeastSquaresMap,))
    monkeypatch.setattr(
        "vpintegrator.baselines.table.compare.__kwdefaults__",
        {**compare.__kwdefaults__, "baselines": (LeastSquaresMap,)},
    )
    path = tmp_path / "m.safetensors"
    arguments = [str(pendulum.path), "--model", "sgf", "--degree", "4", "-o", str(path)]
    result = CliRunner().invoke(main, [*arguments, "--baselines", "--no-verdict", "--json"])
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert [row["name"] for row in told["baselines"]["rows"]] == ["sgf", "linear map"]
    assert "linear map" in CliRunner().invoke(generate, ["--inspect", str(path)]).output
