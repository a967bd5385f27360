"""Generating functions of combinations of the components."""

import numpy as np
import pytest
import torch

import vpintegrator as vp
from tests.nn.laws import assert_close, randomise, sample, symplecticity_defect
from vpintegrator.models import SymplecticGeneratingFunctionMap

RELATIVE = [[1, 0, 0, 0], [-1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
TURN = 2 * np.pi
REVERSAL = np.diag([1, 1, -1, -1]).tolist()
PARITY = np.diag([-1, -1, 1, 1]).tolist()  # reverses time, too


def pendula(**options):
    """A map of two angles and their momenta, with random coefficients."""
    arguments = {"degree": 4, "periodic": {0: TURN, 1: TURN}, "combinations": RELATIVE}
    model = SymplecticGeneratingFunctionMap(dim=4, **(arguments | options))
    return randomise(model, 0.003, 1)


def test_the_function_is_one_of_differences_of_angles():
    """Weights leave harmonics of the difference alone: a turn of both angles moves nothing else."""
    model = pendula(cyclic=[0], weights=[4, 0.5, 1, 1])
    assert model.core.potential.terms.highest[:2] == [0, 8]
    z = sample(6, 1, 4)
    shift = torch.tensor([0.7, 0.7, 0.0, 0.0]).double()
    assert_close(model(z + shift), model(z) + shift, 1e-12)
    assert float((model(z + shift) - model(z)).detach().abs().max()) > 0.5
    moved = (model(z) - z).detach()
    assert_close(moved[..., 2], -moved[..., 3], 1e-13)  # the sum of the momenta is kept


def test_angles_keep_their_period_and_the_map_its_form():
    model = pendula()
    z = sample(5, 1, 4)
    for turns in ([1, 0, 0, 0], [0, -2, 0, 0], [3, 1, 0, 0]):
        shift = TURN * torch.tensor(turns).double()
        assert_close(model(z + shift), model(z) + shift, 1e-12)
    assert symplecticity_defect(model, z[0]) < 1e-12


def test_symmetries_are_those_of_the_components():
    model = pendula(reversing_symmetries=[REVERSAL, PARITY])
    z = sample(5, 1, 4)
    for matrix in (REVERSAL, PARITY):
        rho = torch.tensor(matrix).double()
        assert_close(model(model(z) @ rho) @ rho, z, 1e-12)
    swap = np.eye(4)[[1, 0, 3, 2]] @ np.array(REVERSAL)  # q1 - q0 changes its sign, q0 is lost
    with pytest.raises(vp.InputError, match="sign flips and permutations"):
        pendula(reversing_symmetries=[swap.tolist()])


def test_all_combinations_of_linear_components_give_the_same_polynomials():
    """Of one total degree: a fit to pairs does not depend on the combinations."""
    before = np.random.default_rng(0).uniform(-1, 1, (400, 2))
    turn = np.array([[0.8, -0.6], [0.6, 0.8]])
    kind = vp.training.search
    plain, other = (
        vp.fit((before, before @ turn), [kind("sgf", {"degree": 2, **own})], step=0.1)
        for own in ({}, {"combinations": [[1, 0.5], [0.2, 2]]})
    )
    assert max(plain.error, other.error) < 1e-13


def test_files_and_machine_code_have_the_combinations(tmp_path):
    from vpintegrator.compiled import CompiledModel

    model = pendula()
    path = tmp_path / "pendula.safetensors"
    vp.save(model, path)
    z = sample(5, 1, 4)
    with torch.no_grad():
        model.core.settle(z[:, 0])
        assert torch.equal(vp.load(path)(z), model(z))
        states, _ = CompiledModel(model, 5).predict(z.numpy(), 1)
        assert_close(torch.from_numpy(states), model.predict(z), 1e-12)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (np.eye(3), "combinations must be a list of regular 4 x 4 matrices"),
        (np.ones((4, 4)), "combinations must be a list of regular 4 x 4 matrices"),
        (np.diag([2.0, 1, 1, 1]), "combinations of angles must be integer"),
        (np.eye(4) + np.eye(4)[::-1] / 2, "combinations of angles must be integer"),
    ],
)
def test_wrong_combinations_are_refused(rows, words):
    with pytest.raises(vp.InputError, match=words):
        pendula(combinations=rows)
    with pytest.raises(vp.InputError, match="polynomials alone"):
        pendula(hamiltonian="z[2]**2/2 + z[3]**2/2 - cos(z[0])")


# quadratic invariants

MOMENTUM = np.zeros((5, 5))  # q[0] p[1] - q[1] p[0] about the point (0.2, -0.3)
MOMENTUM[1, 4] = MOMENTUM[4, 1] = 0.5
MOMENTUM[2, 3] = MOMENTUM[3, 2] = -0.5
MOMENTUM[0, 4] = MOMENTUM[4, 0] = -0.1
MOMENTUM[0, 3] = MOMENTUM[3, 0] = -0.15


def turning(degree=6, forms=(MOMENTUM,), dim=4):
    forms = [form.tolist() for form in forms]
    model = SymplecticGeneratingFunctionMap(dim=dim, degree=degree, quadratic_invariants=forms)
    return randomise(model, 0.002, 1)


def iterated(model, z, steps):
    """States (orbit, step, dim) of the map."""
    states = []
    for _ in range(steps):
        z = model.predict(z).detach()
        states.append(z[:, 0].numpy())
    return np.stack(states, 1)


def test_the_iterated_map_keeps_quadratic_invariants_at_any_weights():
    model = turning(4)
    z = sample(20, 1, 4) / 4
    start = np.concatenate([np.ones((20, 1)), z[:, 0].numpy()], 1)
    states = iterated(model, z, 500)
    assert np.ptp(states, axis=1).max() > 0.3
    after = np.concatenate([np.ones((20, 500, 1)), states], 2)
    before = np.einsum("ni,ij,nj->n", start, MOMENTUM, start)
    values = np.einsum("nti,ij,ntj->nt", after, MOMENTUM, after)
    assert np.abs(values - before[:, None]).max() < 3e-14
    assert symplecticity_defect(model, z[0]) < 1e-12
    assert model.remark == "keeps 1 quadratic invariant"
    assert_close(model.inverse(model(z)), z, 1e-12)


def test_files_and_machine_code_have_the_invariants(tmp_path):
    from vpintegrator.compiled import CompiledModel

    model = turning(4)
    path = tmp_path / "turning.safetensors"
    vp.save(model, path)
    z = sample(5, 1, 4) / 2
    with torch.no_grad():
        model.core.settle(z[:, 0])
        other = vp.load(path)
        assert torch.equal(other(z), model(z))
        assert other.remark == model.remark
        states, _ = CompiledModel(model, 5).predict(z.numpy(), 1)
        assert_close(torch.from_numpy(states), model.predict(z), 1e-12)


def test_what_moves_quadratic_invariants_takes_the_claim_away():
    model = turning(4)
    model.core.set_linear(torch.diag(torch.tensor([2.0, 1, 0.5, 1]).double()))
    assert model.remark == ""
    other = turning(4)
    other.keep(vp.nn.PolynomialInvariants(dim=4, count=1, degree=2, dtype=torch.float64))
    assert "quadratic" not in other.remark


def test_quadratic_invariants_stand_alone():
    forms = [MOMENTUM.tolist()]
    for others in ({"weights": [1, 2]}, {"cyclic": [0]}, {"reversing_symmetries": [REVERSAL]}):
        with pytest.raises(vp.InputError, match="quadratic_invariants stand alone"):
            SymplecticGeneratingFunctionMap(dim=4, quadratic_invariants=forms, **others)
