"""The model classical: an explicit method with substeps, as any other model."""

import numpy as np
import pytest
import torch

import vpintegrator as vp
from tests.nn.laws import assert_close
from vpintegrator.errors import InputError
from vpintegrator.names import EXPLICIT

SYSTEMS = {"pendulum": "hamiltonian", "rigid-body": "field", "chirped-pendulum": "hamiltonian"}


def states(system, count=6):
    return system.sample_initial(count, np.random.default_rng(0))


@pytest.mark.parametrize("method", EXPLICIT)
@pytest.mark.parametrize("name", SYSTEMS)
def test_it_is_the_method_in_equal_substeps(name, method):
    system = vp.load_system(name)
    first = states(system)
    model = vp.models.build(system, "classical", {"method": method, "substeps": 3})
    assert SYSTEMS[name] in model.arguments and not list(model.parameters())
    model.set_advance(0.15)
    model.set_normalisation(first.mean(0), first.std(0) + 0.1)
    expected = vp.integrate(system, method, first, 0.05, 3)[:, -1]
    assert_close(model(torch.from_numpy(first[:, None]))[:, 0], torch.from_numpy(expected), 1e-12)


def test_machine_code_iterates_one_substep(tmp_path):
    system = vp.load_system("rigid-body")
    sources = []
    for substeps in (1, 50):
        model = vp.models.build(
            system, "classical", {"method": "strang-splitting", "substeps": substeps}
        )
        model.set_advance(0.1)
        windows = states(system)[:, None]
        machine = vp.compiled.CompiledModel(model, len(windows), windows)
        found = machine.predict(windows, 2)[0]
        expected = model(model(torch.from_numpy(windows)))[:, 0]
        assert_close(torch.from_numpy(found[:, -1]), expected, 1e-12)
        sources.append(sum(map(len, machine.source.units)))
    assert sources[1] < 1.1 * sources[0]


@pytest.mark.parametrize(
    ("name", "method", "structure"),
    [
        ("pendulum", "blanes-moan-6", (True, True)),
        ("rigid-body", "blanes-moan-6", (False, True)),
        ("pendulum", "dormand-prince-8", (False, False)),
    ],
)
def test_structure_is_what_holds(name, method, structure):
    system = vp.load_system(name)
    model = vp.models.build(system, "classical", {"method": method, "substeps": 2})
    model.set_advance(0.8)
    assert (model.structure.is_symplectic, model.structure.keeps_volume) == structure
    assert model.invertible == structure[1]
    z = torch.from_numpy(states(system, 1)[:, None])
    D = torch.func.jacrev(lambda x: model(x)[0, 0])(z)[:, 0, 0]
    defect = abs(D.det().item() - 1)
    assert defect < 1e-13 if structure[1] else defect > 1e-9
    if model.invertible:
        assert_close(model.inverse(model(z)), z, 1e-13)


def test_equations_that_do_not_fit_are_refused():
    damped = vp.load_system("double-pendulum")
    with pytest.raises(InputError, match="no position together with its own momentum"):
        vp.models.build(damped, "classical", {"method": "strang-splitting"})
    with pytest.raises(InputError, match=r"method = 'rk5'|'rk5'"):
        vp.models.build(damped, "classical", {"method": "rk5"})
    with pytest.raises(InputError, match="either a hamiltonian or a field"):
        vp.models.ClassicalIntegrator(dim=2)
