"""The package itself: what it offers before anything is imported."""

import pkgutil
import subprocess
import sys

import pytest

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
