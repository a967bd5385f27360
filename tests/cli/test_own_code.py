"""Commands with MODULE:NAME in the place of a system."""

import sys

import numpy as np
import pytest

import vpintegrator as vp
from tests.cli.conftest import refused
from vpintegrator.cli import gen, rollout, show, train

MODULE = """
import numpy as np
import vpintegrator as vp

def swing(t, y, g=1.0):
    return [y[1], -g * np.sin(y[0])]

def spring(t, y):
    q, p = y[..., 0], y[..., 1]
    return np.stack([p, -(1 + 3 * (q > 0)) * q], axis=-1)

pendulum = vp.System.from_function(
    swing, 2, step=0.1, components=["q", "p"], parameters={"g": 2.0}
)
system = vp.System.from_function(spring, 2, step=0.1)
"""


@pytest.fixture
def folder(run, tmp_path):
    (tmp_path / "my_physics.py").write_text(MODULE)
    (tmp_path / "broken.py").write_text("1/0")
    (tmp_path / "lacking.py").write_text("import no_such_library")
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name in ("my_physics", "broken", "lacking"):
            del sys.modules[name]


def test_a_function_from_data_to_a_rollout(done, folder):
    done(gen.main, "my_physics:system", "--count", "20", "--steps", "8", "-o", "spring.h5")
    assert vp.open_dataset(folder / "spring.h5").system.function == "my_physics:spring"
    done(train.main, "spring.h5", "--model", "vpff", "--epochs", "2", "-o", "m.safetensors")
    asked = ["--against", "rk4", "--steps", "5", "-o", "r.h5", "-v"]
    output = done(rollout.main, "m.safetensors", "--system", "my_physics:system", *asked)
    assert "RK4" in output and "finite differences" in " ".join(output.split())
    assert vp.open_rollout(folder / "r.h5").system.derivatives == "finite differences"
    assert "a Python function, my_physics:spring" in done(show.main, "my_physics:system")


def test_formulas_of_a_function(done, folder):
    done(gen.main, "my_physics.py:pendulum", "--count", "10", "--steps", "3", "-p", "g=3")
    assert vp.open_dataset(folder / "pendulum.h5").system.parameters == {"g": 3}
    assert "sin(q)" in done(show.main, "my_physics:pendulum")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("my_physic:pendulum", "there is no module 'my_physic' in this folder"),
        ("my_physics:pendulam", "my_physics has no 'pendulam'; did you mean 'pendulum'?"),
        ("my_physics:spring", "is of type function; name a System"),
        ("broken:system", "broken cannot be imported: ZeroDivisionError: division by zero"),
        ("lacking:system", "lacking needs the module 'no_such_library'"),
        ("missing.py:system", "there is no file missing.py"),
    ],
)
def test_what_cannot_be_imported_is_said_in_a_sentence(run, folder, text, message):
    assert refused(run(gen.main, text), message)
    assert not list(folder.glob("*.h5"))


def test_a_name_in_a_file_is_not_imported(run, folder):
    text = """
    state = ["q", "p"]
    measured = true
    function = "trap:system"
    derivatives = "autograd"
    """
    (folder / "trap.py").write_text("open('sprung', 'w').close()")
    (folder / "trap.toml").write_text(text)
    result = run(show.main, "trap.toml")
    assert "a Python function, trap:system" in result.output
    message = "integrating needs the Python function of trap, which files do not hold"
    assert refused(run(gen.main, "trap.toml", "--step", "1"), message)
    assert refused(run(rollout.main, "--system", "trap.toml", "--against", "rk4"), "--dataset")
    assert not (folder / "sprung").exists()


def test_a_dataset_takes_its_function_back(folder):
    def kicked(t, y):
        return [y[1], -(1 + 3 * (y[0] > 0)) * y[0]]

    system = vp.System.from_function(kicked, 2, step=0.1)
    made = vp.generate(system, folder / "data.h5", count=10, steps=5)
    assert made.system is system
    assert vp.open_dataset(folder / "data.h5").system.is_measured
    again = vp.open_dataset(folder / "data.h5", system=system)
    assert again.system is system
    np.testing.assert_array_equal(again.states("train"), made.states("train"))
    file = vp.load_system("harmonic-oscillator")
    with pytest.raises(vp.InputError, match="its components are q, p"):
        made.with_system(file)
    with pytest.raises(vp.InputError, match="must be a System, not a function"):
        made.with_system(kicked)
    with pytest.raises(vp.InputError, match="kicked does not give the trajectories"):
        made.with_system(vp.open_dataset(folder / "data.h5").system)
