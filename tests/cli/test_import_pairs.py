"""vp-gen --pairs with arrays, columns and files."""

import numpy as np
import pytest

import vpintegrator as vp
from tests.cli.conftest import refused
from tests.data.test_import_pairs import AFTER, BEFORE, NAMES, expected, pairs_of, table
from vpintegrator.cli.gen import main
from vpintegrator.cli.train import main as train


def write(folder):
    np.savez(folder / "ring.npz", first=BEFORE, second=AFTER, dt=0.25)
    table(NAMES, BEFORE).to_csv(folder / "in.csv", index=False)
    table(NAMES, AFTER).to_csv(folder / "out.csv", index=False)
    both = table([*NAMES, *(f"{n}_after" for n in NAMES)], BEFORE, AFTER)
    both.to_csv(folder / "ring.csv", index=False)


@pytest.mark.parametrize(
    "options",
    [
        ["--from", "ring.npz", "--pairs", "first,second", "--columns", ",".join(NAMES)],
        ["--from", "ring.csv", "--pairs", "before,after"],
        ["--pairs", "in.csv,out.csv"],
    ],
)
def test_arrays_columns_and_files(options, run, tmp_path):
    write(tmp_path)
    result = run(main, *options, "--step", "0.25", "-o", "a.h5")
    assert result.exit_code == 0, result.output
    assert "taken for symplectic" in result.output
    dataset = vp.open_dataset(tmp_path / "a.h5")
    np.testing.assert_array_equal(pairs_of(dataset), expected())
    assert dataset.step == 0.25


def test_mistakes_are_told(run, tmp_path):
    write(tmp_path)
    table(NAMES, BEFORE[:20]).to_csv(tmp_path / "half.csv", index=False)
    for options, message in (
        (["--from", "ring.npz", "--pairs", "first"], "expected two names"),
        (["--from", "ring.npz", "--pairs", "first,third"], "has no variable 'third'"),
        (["--from", "ring.npz"], "name states before and after with --pairs"),
        (["--from", "ring.csv", "--pairs", "before,behind"], "expected columns such as x and"),
        (["--pairs", "in.csv,half.csv"], "states before have shape (40, 4), after (20, 4)"),
        (["--pairs", "in.csv,none.csv"], "there is no file none.csv"),
        (["--pairs", "in.csv,out.csv", "--system", "pendulum"], "--system is not for --pairs"),
        (["rigid-body", "--pairs", "in.csv,out.csv"], "leave out 'rigid-body'"),
        (["rigid-body", "--structure", "none"], "--structure is an option of --from"),
    ):
        assert refused(run(main, *options, "-o", "b.h5"), message)
        assert not (tmp_path / "b.h5").exists()


@pytest.mark.thorough
def test_pairs_of_a_ring_become_a_symplectic_map(run, tmp_path):
    rng = np.random.default_rng(0)
    before = rng.uniform(-0.5, 0.5, (400, 2))
    kicked = before[:, 1] - 0.1 * before[:, 0] ** 2
    turn = np.array([[0.8, 0.6], [-0.6, 0.8]])
    np.savez("ring.npz", a=before, b=np.stack([before[:, 0], kicked], axis=1) @ turn.T)
    result = run(main, "--from", "ring.npz", "--pairs", "a,b", "--columns", "x,px")
    assert result.exit_code == 0, result.output
    # couplings and a generating function both reach rounding: which is taken is left to the search
    result = run(train, "ring.h5", "-o", "turn.safetensors")
    assert result.exit_code == 0, result.output
    model = vp.load(tmp_path / "turn.safetensors")
    assert model.structure.is_symplectic
    pairs = vp.open_dataset("ring.h5").states("test")
    states = vp.rollout(model, pairs[:, :1], 1)
    assert np.abs(np.asarray(states)[:, -1] - pairs[:, 1]).max() < 1e-12
