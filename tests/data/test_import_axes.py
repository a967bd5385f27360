"""Axes of arrays: times first, smooth along both, particles; files of other programs."""

import subprocess
import sys

import h5py
import numpy as np
import pytest

import vpintegrator as vp
from tests.data.test_importing import all_states, notes
from vpintegrator.errors import InputError

SIZES, T = np.linspace(0.5, 1.5, 24)[:, None], 0.1 * np.arange(60)


def pendulums():
    initial = np.stack([0.3 + 2 * (SIZES[:, 0] - 0.5), 0 * SIZES[:, 0]], axis=-1)
    return vp.solve(vp.load_system("pendulum"), initial, T[:30])


SMOOTH = {
    "amplitudes": lambda: np.stack([SIZES * np.cos(T), -SIZES * np.sin(T)], axis=-1),
    "factors": lambda: np.stack([3**SIZES * np.cos(T), -(3**SIZES) * np.sin(T)], axis=-1),
    "phases": lambda: np.stack([np.cos(T + SIZES), -np.sin(T + SIZES)], axis=-1),
    "decay": lambda: np.stack([SIZES * np.exp(-T), SIZES**2 * np.exp(-2 * T)], axis=-1),
    "pendulums": pendulums,
}


@pytest.mark.parametrize("name", SMOOTH)
def test_smoothness_along_both_axes_is_an_error_or_a_note(name, tmp_path):
    states = SMOOTH[name]()
    named = {"path": tmp_path / "a.h5", "step": 0.1, "overwrite": True}
    right = vp.import_dataset(states, **named)
    np.testing.assert_array_equal(all_states(right), states)  # never refused
    swapped = states.swapaxes(0, 1)
    try:
        assert "say --axes time" in notes(vp.import_dataset(swapped, **named))
    except InputError as error:
        assert "looks like (time, trajectory, dim); say --axes time" in str(error)
    said = vp.import_dataset(swapped, axes="time", **named)
    np.testing.assert_array_equal(all_states(said), states)
    assert "axes" not in notes(said)


def test_states_that_follow_no_map_along_time_are_refused(tmp_path):
    for name in ("amplitudes",):
        with pytest.raises(InputError, match="looks like"):
            vp.import_dataset(SMOOTH[name]().swapaxes(0, 1), tmp_path / "a.h5", step=0.1)


def test_two_or_three_trajectories_with_times_first_are_noted(tmp_path):
    for count in (2, 3):
        swapped = SMOOTH["amplitudes"]()[:count].swapaxes(0, 1)
        found = vp.import_dataset(swapped, tmp_path / "a.h5", step=0.1, overwrite=True)
        assert "say --axes time" in notes(found)


def test_random_starts_and_tables_are_not_doubted(tmp_path):
    dataset = vp.generate("pendulum", tmp_path / "a.h5", count=40, steps=30)
    found = vp.import_dataset(dataset.states("train"), tmp_path / "b.h5", step=dataset.step)
    assert "axes" not in notes(found)


FRAMES, ATOMS = 40, 7


def molecule(path):
    """Write a file as MDTraj does; return positions and velocities (frame, atom, 3)."""
    x, v = np.random.default_rng(0).normal(size=(2, FRAMES, ATOMS, 3)).astype(np.float32)
    with h5py.File(path, "w") as file:
        file.attrs["conventions"] = np.bytes_("Pande")
        file["coordinates"], file["velocities"] = x, v
        file["time"] = np.float32(0.5) * np.arange(FRAMES, dtype=np.float32)
        file["cell_lengths"], file["cell_angles"] = np.ones((FRAMES, 3)), np.ones((FRAMES, 3))
        file["topology"] = np.array([b'{"chains": []}'])
    return x.astype(float), v.astype(float)


def test_frames_of_atoms_are_trajectories_of_atoms_or_one_of_all(tmp_path):
    x, v = molecule(tmp_path / "md.h5")
    source, path = tmp_path / "md.h5", tmp_path / "a.h5"
    with pytest.raises(InputError, match=r"found .*coordinates \(40, 7, 3\).*--variable"):
        vp.import_dataset(source, path)
    with pytest.raises(InputError, match=r"--axes time .*, or --axes particles") as error:
        vp.import_dataset(source, path, variable="coordinates")
    assert "axes='time'" in str(error.value)
    atoms = vp.import_dataset(source, path, variable="coordinates", axes="time")
    np.testing.assert_array_equal(all_states(atoms), x.swapaxes(0, 1))
    whole = vp.import_dataset(
        source, path, variable="coordinates", axes="particles", overwrite=True
    )
    joined = np.concatenate([whole.states(group) for group in whole.shapes], axis=1)
    np.testing.assert_array_equal(joined, x.reshape(1, FRAMES, 21))
    assert whole.step == 0.5
    both = vp.import_dataset(
        source, path, variable="coordinates,velocities", axes="particles", overwrite=True
    )
    joined = np.concatenate([both.states(group) for group in both.shapes], axis=1)
    expected = np.concatenate([x.reshape(FRAMES, 21), v.reshape(FRAMES, 21)], axis=1)
    np.testing.assert_array_equal(joined[0], expected)
    assert both.system.components[20:22] == ("coordinates21", "velocities1")


def test_several_runs_of_particles(tmp_path):
    states = np.random.default_rng(0).normal(size=(6, 20, 5, 2))
    found = vp.import_dataset(states, tmp_path / "a.h5", step=1, axes="particles")
    np.testing.assert_array_equal(all_states(found), states.reshape(6, 20, 10))
    with pytest.raises(InputError, match="with the axes of particles an array has the shape"):
        vp.import_dataset(
            {"x": states[0, :, 0]}, tmp_path / "b.h5", variable="x", step=1, axes="particles"
        )


WRITER = """
import h5py, os, sys
file = h5py.File(sys.argv[1], "w", libver="latest")
file["x"] = [[[0.0, 1.0]] * 5] * 6
if sys.argv[2] != "writing":
    file.swmr_mode = True
file.flush()
print("ready", flush=True)
if sys.argv[2] == "killed":
    os._exit(0)
sys.stdin.read()
"""


@pytest.mark.parametrize("how", ["writing", "swmr", "killed"])
def test_a_file_that_another_program_writes_is_not_called_damaged(how, tmp_path):
    path = tmp_path / "run.h5"
    command = [sys.executable, "-c", WRITER, str(path), how]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdout.readline() == b"ready\n"
        for read in (
            lambda: vp.import_dataset(path, tmp_path / "a.h5", step=1),
            lambda: vp.open_dataset(path),
            lambda: vp.fit(path, step=1),
        ):
            with pytest.raises(InputError, match="is open for writing in another program") as error:
                read()
            assert "damaged" not in str(error.value) and "\n" not in str(error.value)
        writer.stdin.close()
    if how != "killed":
        assert vp.import_dataset(path, tmp_path / "a.h5", step=1).shapes["train"] == (4, 5, 2)
