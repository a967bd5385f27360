"""The systems of the benchmarks that are not in the catalogue: they load, and are what they say."""

import numpy as np
import pytest

import vpintegrator as vp
from tests.scripts.conftest import BENCHMARKS

FILES = sorted((BENCHMARKS / "systems").glob("*.toml"))
# largest component of any state, reversing symmetries
KNOWN = {
    "dipole": (1.5, 2),
    "elastic-pendulum": (2.0, 2),
    "guiding-centre": (200.0, 1),
    "gyrostat": (1.3, 0),
    "kicked-oscillator": (2.0, 2),
    "lennard-jones-cluster": (3.0, 2),
    "product-oscillator": (2.5, 3),
    "relativistic-oscillator": (4.5, 2),
    "restricted-three-body": (6.0, 1),
    "schroedinger-ring": (3.3, 2),
    "schwarzschild": (40.0, 1),
    "storage-ring": (0.4, 2),
    "stretch-twist-fold": (1.0, 0),
}


def test_every_file_is_known_here():
    assert [path.stem for path in FILES] == sorted(KNOWN)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_trajectories_are_finite_bounded_and_keep_what_is_claimed(path, tmp_path):
    """Loading checks divergence, symplecticity, invariants and symmetries as identities."""
    system = vp.load_system(path)
    bound, reversing = KNOWN[path.stem]
    assert len(system.reversing_symmetries) == reversing
    assert system.divergence_free and system.description and system.reference
    assert system.is_canonical == (system.dim != 3)
    vp.generate(path, tmp_path / "data.h5", count=12, steps=40)
    states = vp.open_dataset(tmp_path / "data.h5").states("train")
    assert np.isfinite(states).all() and np.abs(states).max() < bound
    for invariant in system.invariants.values():
        values = invariant(states)
        assert np.ptp(values, axis=1).max() < 1e-9 * np.abs(values).max()


def test_numbers_in_descriptions():
    ring = vp.load_system(BENCHMARKS / "systems" / "storage-ring.toml")
    cell = vp.load_system(BENCHMARKS / "systems" / "storage-ring.toml", cells=1)
    slope = vp.maps.ExactMap(cell).derivative(np.zeros((1, 1, 4)))[0]
    for plane, phase in enumerate((0.264, 0.3155)):
        block = slope[np.ix_([plane, plane + 2], [plane, plane + 2])]
        np.testing.assert_allclose(np.trace(block) / 2, np.cos(2 * np.pi * phase), atol=1e-13)
    whole = vp.maps.ExactMap(ring).derivative(np.zeros((1, 1, 4)))[0]
    np.testing.assert_allclose(whole, np.linalg.matrix_power(slope, 20), atol=1e-9)
    pendulum = vp.load_system(BENCHMARKS / "systems" / "elastic-pendulum.toml")
    assert pendulum.periods == {1: 2 * np.pi}
    dipole = vp.load_system(BENCHMARKS / "systems" / "dipole.toml")
    assert dipole.invariants["energy"](np.array([2.0, 0.0, 0.0, 0.0])) == 1 / 32
    cluster = vp.load_system(BENCHMARKS / "systems" / "lennard-jones-cluster.toml")
    still = np.append(cluster.parameters["q0"], np.zeros(21))
    assert np.abs(cluster.vector_field(still)).max() < 1e-4
    assert abs(cluster.invariants["energy"](still) + 16.505384) < 1e-6  # Wales, Doye, table 1
