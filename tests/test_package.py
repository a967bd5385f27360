"""The package itself: what it offers before anything is imported."""

import inspect
import pkgutil
import pydoc
import re
import subprocess
import sys

import numpy as np
import pytest
from torch import nn

import vpintegrator as vp
from vpintegrator import names
from vpintegrator.dynamics.compositions import FACTORS
from vpintegrator.nn.layer import ACTIVATIONS
from vpintegrator.rollout import METHODS

NAMES = [module.name for module in pkgutil.iter_modules(vp.__path__)] + ["systems", "datasets"]


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)


@pytest.mark.thorough
def test_everything_in_the_package_is_an_attribute_from_the_start():
    found = run(
        "import vpintegrator as vp\n"
        f"for name in {NAMES}:\n"
        "    assert getattr(vp, name).__name__ == 'vpintegrator.' + name\n"
        "assert not hasattr(vp, 'nonsense')"
    )
    assert found.stderr == ""


def test_the_package_is_imported_without_what_it_needs_later():
    run(
        "import sys\nimport vpintegrator as vp\ndir(vp), vp.errors, vp.list_systems()\n"
        "heavy = {'torch', 'sympy', 'scipy', 'numpy', 'h5py', 'matplotlib'} & sys.modules.keys()\n"
        "assert not heavy, heavy"
    )


def test_names_for_the_commands_are_those_of_what_they_name():
    assert tuple(METHODS) == names.CLASSICAL_METHODS
    assert tuple(FACTORS) == names.SPLITTINGS
    assert tuple(ACTIVATIONS) == names.ACTIVATIONS


@pytest.mark.parametrize(
    ("other", "name"), [*names.OTHER_NAMES.items(), ("Velocity Verlet", "stoermer-verlet")]
)
def test_other_names_of_the_literature_lead_to_methods(other, name):
    assert names.method_name(other) == name
    assert vp.rollout.find_method(other) is vp.rollout.find_method(name)
    assert names.method_name(f"{other}@64") == f"{name}@64"


def test_other_names_are_those_of_the_same_maps():
    """By the formulas of the literature, one step of a pendulum."""
    q, p, h = 1.0, 0.3, 0.2
    kick = p - h / 2 * np.sin(q)
    moved = q + h * kick
    half = q + h / 2 * p
    kicked = p - h * np.sin(half)
    drifted = q + h * p
    expected = {
        "leapfrog": (moved, kick - h / 2 * np.sin(moved)),
        "velocity-verlet": (moved, kick - h / 2 * np.sin(moved)),
        "position-verlet": (half + h / 2 * kicked, kicked),
        "symplectic-euler": (drifted, p - h * np.sin(drifted)),
        "euler": (drifted, p - h * np.sin(q)),
    }
    for other, state in expected.items():
        found = vp.integrate("pendulum", other, [[q, p]], h, 1)[0, 1]
        np.testing.assert_allclose(found, state, rtol=1e-14)
    report = vp.compare(None, ["leapfrog", "rk4"], system="pendulum", steps=3, trajectories=1)
    assert list(report.runs) == ["stoermer-verlet", "rk4"]
    assert vp.show("leapfrog").facts["method"] == "stoermer-verlet"
    data = vp.load_recipe("pendulum", method="leapfrog", count=10)
    assert data.method == "stoermer-verlet" and data.is_classical


def test_no_model_has_the_name_of_a_method():
    """Both are arguments of one command."""
    methods = {*METHODS, *names.OTHER_NAMES}
    assert not methods & {*vp.models.ARCHITECTURES}


def test_help_of_a_callable_module_is_that_of_the_call():
    text = pydoc.plain(pydoc.render_doc(vp.rollout))
    start = text[: text.index("PACKAGE CONTENTS")]
    for name in inspect.signature(vp.rollout).parameters:
        assert re.search(rf"^ +(\w+, )?{name}\b", start, re.M), name
    assert "rollout(map" in start and start.index("rollout(map") < start.index("Raises")


def test_help_of_a_layer_or_model_names_each_argument():
    kinds = [getattr(vp.nn, name) for name in vp.nn.__all__]
    kinds += [kind for kind in vars(vp.models).values() if inspect.isclass(kind)]
    layers = [kind for kind in kinds if inspect.isclass(kind) and issubclass(kind, nn.Module)]
    assert len(layers) > 30
    for kind in layers:
        described = re.findall(r"^\*?(\w[\w, ]*?)(?: :.*)?$", inspect.getdoc(kind), re.M)
        known = {name for line in described for name in line.split(", ")}
        missing = set(inspect.signature(kind).parameters) - known
        assert not missing, (kind, missing)
