"""MATLAB's files as scipy.io writes them, and positions and momenta in arrays of their own."""

import h5py
import numpy as np
import pytest
import scipy.io

from tests.cli.conftest import refused
from vpintegrator.cli.gen import main
from vpintegrator.cli.train import main as train
from vpintegrator.data import import_dataset, open_dataset
from vpintegrator.data.split import GROUPS
from vpintegrator.errors import InputError

RANDOM = np.random.default_rng(0)
TIMES = 0.25 * np.arange(9)
Q, P = RANDOM.normal(size=(2, 6, 9, 2))


def write(path, arrays, **options):
    """Write named arrays in the format of the ending."""
    if path.suffix == ".npz":
        np.savez(path, **arrays)
    elif path.suffix == ".mat":
        scipy.io.savemat(path, arrays, **options)
    else:
        with h5py.File(path, "w") as file:
            for name, values in arrays.items():
                file[name] = values


def all_states(dataset):
    """Trajectories of all groups, cut in time, put together again."""
    return np.concatenate([dataset.states(group) for group in GROUPS], axis=1)


@pytest.mark.parametrize("options", [{"format": "4"}, {}, {"do_compression": True}])
def test_files_of_versions_4_to_7(options, tmp_path):
    arrays = {"X": Q[0], "t": TIMES, "note": "swing"}
    write(tmp_path / "a.mat", arrays, **options)
    dataset = import_dataset(tmp_path / "a.mat", tmp_path / "a.h5")
    assert dataset.step == 0.25
    np.testing.assert_array_equal(all_states(dataset)[0], Q[0])


def test_columns_single_precision_and_parameters_of_matlab(tmp_path):
    lengths = RANDOM.uniform(1, 2, (6, 1))
    arrays = {"x": np.single(Q[..., 0]), "v": np.single(P[..., 0]), "l": lengths, "dt": 0.25}
    write(tmp_path / "a.mat", arrays | {"cell": np.array([{}], dtype=object)})
    dataset = import_dataset(
        tmp_path / "a.mat", tmp_path / "a.h5", variable="x,v", parameter_columns=["l"], split="time"
    )
    np.testing.assert_array_equal(all_states(dataset)[..., 1], np.single(P[..., 0]))
    np.testing.assert_array_equal(dataset.conditions("train"), lengths)


@pytest.mark.parametrize("ending", ["npz", "mat", "h5"])
def test_positions_and_momenta_are_joined(ending, tmp_path):
    write(tmp_path / f"a.{ending}", {"q": Q, "p": P, "time": TIMES})
    dataset = import_dataset(
        tmp_path / f"a.{ending}", tmp_path / "b.h5", variable="q,p", split="time"
    )
    np.testing.assert_array_equal(all_states(dataset), np.concatenate([Q, P], axis=-1))
    assert dataset.system.components == ("q1", "q2", "p1", "p2")
    assert dataset.system.structure == "measured, symplectic"


def test_a_dictionary_is_joined_as_well(tmp_path):
    source = {"x": Q[..., :1], "momentum": P[..., :1], "z": Q}
    dataset = import_dataset(source, tmp_path / "a.h5", step=1, variable="x,momentum", split="time")
    assert dataset.system.components == ("x", "momentum")
    np.testing.assert_array_equal(all_states(dataset)[..., 1], P[..., 0])


@pytest.mark.parametrize("ending", ["npz", "mat", "h5"])
def test_joined_arrays_through_the_commands(run, ending, tmp_path):
    angle = np.linspace(0, 2 * np.pi, 6)[:, None] + TIMES
    arrays = {"q": np.cos(angle)[..., None], "p": -np.sin(angle)[..., None], "time": TIMES}
    write(tmp_path / f"a.{ending}", arrays)
    result = run(main, "--from", f"a.{ending}", "--variable", "q,p", "-o", "b.h5")
    assert result.exit_code == 0, result.output
    assert open_dataset("b.h5").system.components == ("q", "p")
    result = run(train, "b.h5", "--model", "linear", "-o", "b.safetensors")
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("arrays", "variable", "message"),
    [
        (
            {"q": Q, "p": P[:, :8]},
            "q,p",
            r"same trajectories and times, .* q \(6, 9, 2\), p \(6, 8",
        ),
        ({"q": Q, "p": P[..., 0]}, "q,p", r"same trajectories and times, .* p \(6, 9\)"),
        ({"q": Q, "p": P}, "q,v", r"has no variable 'v' \(it has: [qp], [qp]"),
        ({"q": Q, "p": P}, None, "several arrays that may be the states, "),
    ],
)
@pytest.mark.parametrize("ending", ["npz", "mat", "h5"])
def test_mistakes(ending, arrays, variable, message, tmp_path, run):
    write(tmp_path / f"a.{ending}", arrays)
    with pytest.raises(InputError, match=message):
        import_dataset(tmp_path / f"a.{ending}", tmp_path / "b.h5", step=1, variable=variable)
    options = () if variable is None else ("--variable", variable)
    assert refused(run(main, "--from", f"a.{ending}", "--step", "1", *options, "-o", "b.h5"), "a.")
    assert not (tmp_path / "b.h5").exists()


def test_a_damaged_file_of_matlab_is_refused(run, tmp_path):
    write(tmp_path / "a.mat", {"x": Q[0]})
    whole = (tmp_path / "a.mat").read_bytes()
    for part in (whole[:150], whole[:250], b"no such thing" * 20):
        (tmp_path / "a.mat").write_bytes(part)
        assert refused(run(main, "--from", "a.mat", "--step", "1", "-o", "b.h5"), "a.mat")
