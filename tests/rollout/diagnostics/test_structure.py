"""Defects of symplecticity and reversibility."""

import math

import numpy as np
import pytest
import torch

from tests.nn.laws import randomise
from tests.rollout.diagnostics.linear_models import linear_model, rotation
from tests.rollout.systems import as_map, initial, system
from vpintegrator.dynamics import load_system
from vpintegrator.dynamics.structure import component_scales, form_defect
from vpintegrator.models import SymplecticTransformer, VolumePreservingTransformer
from vpintegrator.rollout.diagnostics import (
    first_windows,
    reversibility_defect,
    symplecticity_defect,
    window_symplecticity_defect,
)


@pytest.mark.parametrize("name", ["stoermer-verlet", "implicit-midpoint", "gauss-legendre-4"])
@pytest.mark.parametrize("of", ["pendulum", "coupled-oscillators"])
def test_symplectic_and_symmetric_methods(name, of):
    flow = as_map(name, system(of), 0.3)
    windows = initial(of, 20)[:, None]
    assert symplecticity_defect(flow, windows) < 1e-14
    assert reversibility_defect(flow, windows, flow.system.reversing_symmetries) < 1e-14


def test_defects_of_linear_maps():
    h, s = 0.5, system("harmonic-oscillator")
    windows = initial("harmonic-oscillator", 4)[:, None]
    # in the plane D^T J D = det(D) J
    euler = as_map("explicit-euler", s, h)
    assert symplecticity_defect(euler, windows) == pytest.approx(h**2, rel=1e-14)
    rk4 = abs(sum((1j * h) ** k / math.factorial(k) for k in range(5))) ** 2
    defect = symplecticity_defect(as_map("rk4", s, h), windows)
    assert defect == pytest.approx(1 - rk4, rel=1e-12)
    # R (I + hA) R (I + hA) = (I - hA)(I + hA) = (1 + h^2) I
    largest = np.abs(windows).max()
    for scale in (1.0, 2.0):
        found = reversibility_defect(euler, windows, s.reversing_symmetries, np.full(2, scale))
        assert found == pytest.approx(h**2 * largest / scale, rel=1e-14)


@pytest.mark.parametrize("new", [1, 2, 3])
def test_a_model_that_predicts_exactly_is_symplectic(new):
    # from the newest state alone, so it is far from any form on the product space
    h, s = 0.3, system("harmonic-oscillator")
    matrix = np.zeros((6, 6))
    for k in range(3):
        matrix[2 * k : 2 * k + 2, 4:] = rotation((k - 2 + new) * h)
    flow = as_map(linear_model(matrix, 2, h, new), s)
    windows = first_windows(flow, initial("harmonic-oscillator", 4))
    assert symplecticity_defect(flow, windows) < 1e-12
    assert (
        reversibility_defect(flow, windows, flow.system.reversing_symmetries) < 1e-12
    )  # on solutions, where it is measured
    matrix[4:] *= 1.5
    flow = as_map(linear_model(matrix, 2, h, new), s)
    assert symplecticity_defect(flow, windows) == pytest.approx(1.25, rel=1e-10)


def test_the_form_of_windows_is_not_that_of_phase_space():
    """A symplectic transformer keeps that of windows, far from solutions too."""
    torch.manual_seed(0)
    s = system("coupled-oscillators")
    model = randomise(SymplecticTransformer(dim=4, window=3, depth=1, width=4), 0.3, 1)
    flow = as_map(model, s, 0.3)
    windows = np.random.default_rng(0).standard_normal((5, 3, 4))
    assert window_symplecticity_defect(flow, windows) < 1e-13
    assert symplecticity_defect(flow, windows) > 1e-2
    other = randomise(VolumePreservingTransformer(dim=4, window=3, depth=1), 0.3, 1)
    assert window_symplecticity_defect(as_map(other, s, 0.3), windows) > 1e-2
    verlet = as_map("stoermer-verlet", s, 0.3)
    assert window_symplecticity_defect(verlet, windows[:, :1]) is None


def test_of_many_components_the_frobenius_norm_is_estimated():
    s = load_system("fput", n=65)
    windows = s.sample_initial(3, np.random.default_rng(0))[:, None]
    assert symplecticity_defect(as_map("stoermer-verlet", s, 0.1), windows) < 1e-12
    flow = as_map("rk4", s, 0.5)
    D = flow.derivative(windows)
    form = np.kron([[0.0, 1.0], [-1.0, 0.0]], np.eye(65))
    norm = np.linalg.norm(D.transpose(0, 2, 1) @ form @ D - form, axis=(1, 2)).max()
    assert symplecticity_defect(flow, windows) == pytest.approx(norm, rel=0.5)  # 28 pairs
    scales, pairs = component_scales(windows), s.structure.pairs
    complete = form_defect(flow.tangent, windows, pairs, scales, 130, largest_size=130)
    assert complete < norm


def test_reversible_network():
    torch.manual_seed(0)
    s = system("rigid-body")
    plain = VolumePreservingTransformer(dim=3, window=3)
    reversible = VolumePreservingTransformer(
        dim=3, window=3, reversing_symmetries=s.reversing_symmetries
    )
    windows = first_windows(as_map(plain, s, 0.2), initial("rigid-body", 5))
    rhos, reversible_flow = s.reversing_symmetries, as_map(reversible, s, 0.2)
    assert reversibility_defect(reversible_flow, windows, rhos) < 1e-13
    assert reversibility_defect(as_map(plain, s, 0.2), windows, rhos) > 1e-3
    # for systems that are not Hamiltonian there is no form
    assert symplecticity_defect(as_map(plain, s, 0.2), windows) is None
