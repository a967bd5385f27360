"""Training of models that learn in context."""

import numpy as np
import pytest

import vpintegrator as vp
from vpintegrator.errors import InputError
from vpintegrator.training import Budget, find_in_context
from vpintegrator.training.context_errors import context_errors

WELL = """
title = "Double well of unknown depth and mass"
state = ["q", "p"]
hamiltonian = "p**2/(2*m) + a*(q**2 - 1)**2"

[parameters]
a = 1.0
m = 1.0

[[reversing_symmetry]]
p = "-p"

[[reversing_symmetry]]
q = "-q"

[initial_conditions]
distribution = "uniform"
low = [-1.4, -1.0]
high = [1.4, 1.0]

[defaults]
step = 0.1
"""


@pytest.fixture(scope="module")
def well(tmp_path_factory):
    folder = tmp_path_factory.mktemp("well")
    (folder / "well.toml").write_text(WELL, encoding="utf-8")
    vary = {"a": (0.7, 1.3), "m": (0.7, 1.3)}
    return vp.generate(folder / "well.toml", folder / "w.h5", count=430, steps=12, vary=vary)


@pytest.mark.thorough
def test_without_labels_constants_and_map_are_found_together(well):
    lines = []
    found = find_in_context(well, Budget(epochs=3), latent=2, known=False, tell=lines.append)
    model = found.model
    assert model.stepper.symplectic and len(model.stepper.reversing_symmetries) == 2
    assert found.error < 1e-4 and len(lines) == len(found.tried) == 3
    assert found.history.test_error < 1e-4
    # the constants are functions of the parameters, whatever their coordinates are
    k = model.infer(well.states("test")).values.numpy()
    a, m = well.conditions("test").T
    basis = np.stack([a**i * m**j for i in range(4) for j in range(4 - i)], 1)
    left = k - basis @ np.linalg.lstsq(basis, k, rcond=None)[0]
    assert np.median(np.abs(left)) < 0.05 * k.std()
    errors = [each.error for each in context_errors(model, well, [2, 4, 8])]
    assert max(errors) < 1e-4


@pytest.mark.thorough
def test_with_labels_the_family_is_solved_for(well):
    found = find_in_context(well, degree=12)
    model = found.model
    assert model.latent == 2 and model.stepper.arguments["degree"] == 12
    assert found.error < 1e-5
    # of a trajectory's constants, those of its equations: 0.1/m and 0.1 a
    k = model.infer(well.states("test")).values.numpy()
    a, m = well.conditions("test").T
    assert np.median(np.abs(k - 0.1 * np.stack([1 / m, a], 1))) < 1e-5


def test_one_constant_too_few_is_noticed(well):
    few = find_in_context(well, Budget(epochs=1), latent=1)
    assert few.error > 1e-3


def test_what_cannot_be_learned_in_context(tmp_path):
    steps = vp.generate("pendulum", tmp_path / "a.h5", count=20, steps=3, vary={"step": (0.1, 0.2)})
    with pytest.raises(InputError, match="is for one step"):
        find_in_context(steps)
    angles = vp.import_dataset(steps.states("train")[..., :1], tmp_path / "c.h5", step=0.1)
    with pytest.raises(InputError, match="two components or more"):
        find_in_context(angles)
    one = vp.generate("pendulum", tmp_path / "b.h5", count=20, steps=1)
    with pytest.raises(InputError, match="three states or more"):
        find_in_context(one, window=2)
    with pytest.raises(InputError, match="holds no parameters"):
        find_in_context(one, known=True)
