"""Classical methods with several equal substeps in a step."""

import numpy as np
import pytest
import torch

import vpintegrator as vp
from tests.rollout.systems import initial, system
from vpintegrator.compiled import CompiledMethod, machine_code
from vpintegrator.errors import InputError
from vpintegrator.maps import METHODS, ClassicalMap, OneStepMethod
from vpintegrator.rollout.diagnostics import count_evaluations

ONE_STEP = [name for name, method in METHODS.items() if isinstance(method, OneStepMethod)]
PLACES = {"boris": "charged-particle", "stoermer-verlet": "coupled-oscillators"}


def case(name, substeps, step=0.3):
    which = PLACES.get(name, "rigid-body")
    map = vp.classical(name, system(which), step, substeps=substeps)
    return map, vp.classical(name, system(which), step / substeps), initial(which, 5)[:, None]


@pytest.mark.parametrize("name", ONE_STEP)
@pytest.mark.parametrize("substeps", [1, 3])
def test_a_step_is_so_many_substeps(name, substeps):
    map, part, z = case(name, substeps)
    fine = next(part.advance(z, 4 * substeps))
    expected = fine[:, substeps - 1 :: substeps]
    np.testing.assert_array_equal(next(map.advance(z, 4)), expected)
    np.testing.assert_allclose(map.map(z)[:, 0], expected[:, 0], rtol=0, atol=1e-14)
    image = map(torch.from_numpy(z))
    np.testing.assert_allclose(image.numpy(), expected[:, :1], rtol=0, atol=1e-13)
    jacobians = [
        torch.autograd.functional.jacobian(map, each) for each in torch.from_numpy(z[:, 0])
    ]
    np.testing.assert_allclose(map.derivative(z), torch.stack(jacobians), rtol=0, atol=1e-11)
    assert map.structure == part.structure and map.step == 0.3


@pytest.mark.parametrize("name", ["rk4", "strang-splitting", "gauss-legendre-4", "boris"])
@pytest.mark.parametrize("substeps", [2, 7])
def test_machine_code_gives_the_states_at_whole_steps(name, substeps):
    map, _, z = case(name, substeps)
    machine = machine_code(map, z[:, 0], True)
    expected = next(map.advance(z, 30))
    np.testing.assert_allclose(next(machine.advance(z, 30)), expected, rtol=0, atol=1e-12)
    parts = np.concatenate([*machine.advance(z, 30, chunk=7)], axis=1)
    np.testing.assert_array_equal(parts, next(machine.advance(z, 30)))
    of_windows = machine_code(map, z, True)
    np.testing.assert_array_equal(next(of_windows.advance(z, 30)), next(machine.advance(z, 30)))


@pytest.mark.parametrize("substeps", [None, 5])
def test_another_step_keeps_the_substeps_or_takes_others(substeps):
    map, _, z = case("rk4", 2)
    machine = CompiledMethod(map.method, map.system, z[:, 0], map.step, map.substeps)
    expected = ClassicalMap(map.method, map.system, 0.1, substeps or 2)
    for each in (map, machine):
        other = each.at_step(0.1, substeps)
        assert (other.name, other.title) == (expected.name, expected.title)
        found, wanted = (next(one.advance(z, 3)) for one in (other, expected))
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-13)
    assert machine.name == "rk4@2" and machine.step == 0.3


def test_names_and_evaluations_say_the_substeps():
    assert vp.classical("leapfrog@4", "pendulum", 0.1).name == "stoermer-verlet@4"
    assert vp.classical("rk4@4", "pendulum", 0.1).title.endswith(", 4 substeps")
    assert vp.classical("rk4", "pendulum", 0.1, substeps=1).name == "rk4"
    assert count_evaluations(vp.classical("rk4@3", "pendulum", 0.1), np.ones((2, 2))) == 12
    midpoint, fine = (
        count_evaluations(vp.classical(name, "pendulum", 0.1), np.ones((1, 2)))
        for name in ("gauss-legendre-2", "gauss-legendre-2@4")
    )
    assert 2 < fine / midpoint <= 4


def test_substeps_beside_a_model_of_the_same_step():
    report = vp.compare(
        None, ["rk4", "rk4@8"], system="pendulum", step=0.2, steps=20, trajectories=2
    )
    coarse, fine = (np.abs(report.runs[n].states - report.reference).max() for n in report.runs)
    assert fine < coarse / 1000
    assert report.table()[1]["evaluations per step"] == 32


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("rk4@0", "pendulum"), {}, "number of substeps behind @"),
        (("rk4@x", "pendulum"), {}, "number of substeps behind @"),
        (("rk4", "pendulum"), {"substeps": 0}, "substeps = 0"),
        (("rk4", "pendulum"), {"substeps": 2.5}, r"substeps = 2.5"),
        (("lsoda@2", "pendulum"), {}, "adaptive step size"),
    ],
)
def test_substeps_that_do_not_exist(arguments, options, message):
    with pytest.raises(InputError, match=message):
        vp.classical(*arguments, **options)
