"""Rollout files that are damaged, or made to do harm, are refused in a sentence."""

import json
import shutil

import h5py
import numpy as np
import pytest

import vpintegrator as vp
from tests.rollout.test_compare import same
from vpintegrator.errors import InputError
from vpintegrator.plotting import latex_table
from vpintegrator.plotting.figures import FIGURES
from vpintegrator.plotting.scene import Scene
from vpintegrator.plotting.style import PAPER
from vpintegrator.storage.hdf5 import write_attributes


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A file with all that a rollout can hold."""
    report = vp.compare(
        None,
        ["stoermer-verlet", "rk4"],
        system="coupled-oscillators",
        steps=30,
        trajectories=2,
        section="q[0] = 0.1",
        work_precision=True,
    )
    path = tmp_path_factory.mktemp("sound") / "rollout.h5"
    report.save(path)
    return path


def attribute(where, key, value):
    def change(file):
        del file[where].attrs[key]
        write_attributes(file[where], {} if value is None else {key: value})

    return change


def dataset(where, value):
    def change(file):
        del file[where]
        if value is not None:
            file[where] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (attribute("/", "every", None), "'every' is missing"),
        (attribute("rk4", "structure", None), "'structure' is missing"),
        (attribute("/", "step", "abc"), "'step' must be a positive number"),
        (attribute("/", "methods", '["a"]'), "there is no group 'a'"),
        (attribute("/", "section", '["r", 0, 1]'), "section: the system has no component 'r'"),
        (attribute("/", "section", "[1]"), "damaged or incomplete"),
        (attribute("rk4", "kind", "alien"), "'kind' must be one of learned"),
        (dataset("rk4/state", None), "there is no dataset 'state'"),
        (dataset("rk4/state", np.zeros((2, 31, 3))), "expected the shape"),
        (dataset("rk4/error", np.zeros((2, 31), complex)), "expected real numbers"),
        (dataset("reference/state", np.zeros((2, 32, 4))), "does not fit methods of 31 times"),
        (dataset("rk4/step_log_determinant", np.zeros((0, 31))), "of no trajectory"),
        (dataset("work-precision/rk4", None), None),
    ],
)
def test_damage_is_told(sound, tmp_path, change, message):
    path = shutil.copy(sound, tmp_path)
    with h5py.File(path, "r+") as file:
        change(file)
    if message is None:
        vp.open_rollout(path)
        return
    with pytest.raises(InputError, match=message.replace("(", r"\(")) as refusal:
        vp.open_rollout(path)
    assert str(path) in str(refusal.value)


@pytest.mark.parametrize(
    ("where", "value"), [("reference/state", np.inf), ("everything", np.nan), ("everything", 1e308)]
)
def test_numbers_out_of_all_bounds_are_drawn(sound, tmp_path, where, value):
    path = shutil.copy(sound, tmp_path)
    with h5py.File(path, "r+") as file:
        names = []
        file.visititems(lambda name, found: names.append(name) if hasattr(found, "dtype") else None)
        for name in names:
            changed = name == where or (where == "everything" and not name.endswith("time"))
            if changed and file[name].dtype.kind == "f":
                file[name][...] = value
    report = vp.open_rollout(path)
    assert json.dumps(report.table())
    assert latex_table(report)
    scene = Scene(report)
    with PAPER.applied(), np.errstate(all="ignore"):
        for name in ("overview", "poincare", "work-precision"):
            if FIGURES[name](scene).applies():
                FIGURES[name](scene).draw().draw_without_rendering()
                assert FIGURES[name](scene).caption()


# names of invariants, none of which may meet another in the file
NASTY = [
    *("a_b", "a b", "x", "error_x", "error_error_x", "1", "", ".", "..", "/", "a/b", "a/", "step"),
    *("trajectory", "phase-space", "kind", "method", "error", "drift"),
]


def test_every_series_is_in_the_file(tmp_path):
    """Each invariant is another multiple of the energy, so that none is taken for another."""
    values = "\n".join(f'"{name}" = "{k + 2}*(q**2 + p**2)/2"' for k, name in enumerate(NASTY))
    text = f'state = ["q", "p"]\nhamiltonian = "(q**2 + p**2)/2"\n[invariants]\n{values}\n'
    # relative where energy is not zero; a start at rest makes the changes absolute
    initial, system = [[1.0, 0.5], [0.0, 0.0]], vp.System(text, "nasty")
    report = vp.compare(
        None, "explicit-euler", system=system, initial=initial, step=0.1, steps=5, tangent_steps=0
    )
    report.save(tmp_path / "rollout.h5")
    assert same(report, vp.open_rollout(tmp_path / "rollout.h5"))
