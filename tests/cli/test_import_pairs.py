"""vp-gen --pairs for every kind of file, and --columns with new names."""

import h5py
import numpy as np
import pytest

import vpintegrator as vp
from tests.cli.conftest import refused
from tests.data.test_import_pairs import AFTER, BEFORE, NAMES, expected, pairs_of
from vpintegrator.cli.gen import main
from vpintegrator.cli.train import main as train
from vpintegrator.errors import InputError


def write_npz(folder):
    np.savez(folder / "ring.npz", first=BEFORE, second=AFTER, dt=0.25)
    return ["--from", "ring.npz", "--pairs", "first,second", "--columns", ",".join(NAMES)]


def write_h5(folder):
    with h5py.File(folder / "ring.hdf5", "w") as file:
        file["run/first"], file["run/second"] = BEFORE, AFTER
    return ["--from", "ring.hdf5", "--pairs", "run/first, run/second", "--columns", "x,px,y,py"]


def write_mat(folder):
    with h5py.File(folder / "ring.mat", "w", userblock_size=512) as file:
        for name, states in (("first", BEFORE), ("second", AFTER)):
            file[name] = states.T
            file[name].attrs["MATLAB_class"] = np.bytes_("double")
    return ["--from", "ring.mat", "--pairs", "first,second", "--columns", "x,px,y,py"]


def _table(path, names, states):
    rows = [",".join(names), *(",".join(repr(float(v)) for v in row) for row in states)]
    path.write_text("\n".join(rows) + "\n")


def write_csv(folder):
    both = np.concatenate([BEFORE, AFTER], axis=1)
    _table(folder / "ring.csv", [*NAMES, *(f"{n}_after" for n in NAMES)], both)
    return ["--from", "ring.csv", "--pairs", "before,after"]


def write_csv_with_particles(folder):
    order = [*range(4, 8), *range(4)]
    both = np.concatenate([np.arange(40)[:, None], BEFORE, AFTER], axis=1)
    names = ["id", *(f"in_{n}" for n in NAMES), *(f"out_{n}" for n in NAMES)]
    columns = [0, *(k + 1 for k in order)]
    _table(folder / "ring.csv", [names[k] for k in columns], both[:, columns])
    return ["--from", "ring.csv", "--pairs", "in,out"]


def write_two_tables(folder):
    _table(folder / "in.csv", NAMES, BEFORE)
    _table(folder / "out.csv", NAMES[::-1], AFTER[:, ::-1])
    return ["--pairs", "in.csv,out.csv"]


def write_two_arrays(folder):
    np.save(folder / "in.npy", BEFORE)
    np.save(folder / "out.npy", AFTER)
    return ["--pairs", "in.npy,out.npy", "--columns", "x,px,y,py"]


@pytest.mark.parametrize(
    "write",
    [
        *(write_npz, write_h5, write_mat, write_csv, write_csv_with_particles),
        *(write_two_tables, write_two_arrays),
    ],
)
def test_every_kind_of_file(write, run, tmp_path):
    result = run(main, *write(tmp_path), "-o", "a.h5")
    assert result.exit_code == 0, result.output
    assert "taken for symplectic" in result.output
    dataset = vp.open_dataset(tmp_path / "a.h5")
    np.testing.assert_array_equal(pairs_of(dataset), expected())
    assert dataset.step == (0.25 if write is write_npz else 1.0)


def test_mistakes_are_told(run, tmp_path):
    write_csv(tmp_path), write_npz(tmp_path), write_two_tables(tmp_path)
    _table(tmp_path / "half.csv", NAMES, BEFORE[:20])
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
    with pytest.raises(InputError, match="fewer pairs than components"):
        vp.import_pairs(BEFORE[:8].T, AFTER[:8].T, tmp_path / "b.h5")
    with pytest.raises(InputError, match="3 components are named"):
        vp.import_pairs(BEFORE, AFTER, tmp_path / "b.h5", components=["x", "px", "y"])


def test_columns_are_renamed(run, tmp_path):
    times = 0.1 * np.arange(12)
    rows = [[r, t, np.cos(t + r), np.sin(t + r)] for r in range(6) for t in times]
    _table(tmp_path / "lab.csv", ["Versuch", "Zeit s", "angle", "rate"], rows)
    columns = "Versuch=run,Zeit s=time,angle=theta"
    result = run(main, "--from", "lab.csv", "--columns", columns)
    assert result.exit_code == 0, result.output
    dataset = vp.open_dataset(tmp_path / "lab.h5")
    assert dataset.system.components == ("theta", "rate")
    assert dataset.step == pytest.approx(0.1)
    assert sum(shape[0] for shape in dataset.shapes.values()) == 6
    for columns, message in (
        ("Versuchung=run", "has no column 'Versuchung' to be renamed; did you mean 'Versuch'?"),
        ("angle=rate", "two columns would be named 'rate'"),
        ("angle=theta,rate", "expected OLD=NEW"),
    ):
        refusal = run(main, "--from", "lab.csv", "--columns", columns, "-o", "b.h5")
        assert refused(refusal, message)


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
    assert model.symplectic
    pairs = vp.open_dataset("ring.h5").states("test")
    states = vp.rollout(model, pairs[:, :1], 1)
    assert np.abs(np.asarray(states)[:, -1] - pairs[:, 1]).max() < 1e-12
