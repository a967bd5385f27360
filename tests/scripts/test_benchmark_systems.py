"""The systems of the benchmarks that are not in the catalogue: they load, and are what they say."""

import numpy as np
import pytest

import vpintegrator as vp
from tests.scripts.conftest import BENCHMARKS

FILES = sorted((BENCHMARKS / "systems").glob("*.toml"))
# largest component of any state, reversing symmetries
KNOWN = {
    "volterra-ring": (50.0, 0),
    "lorentz-force": (50.0, 0),
    "three-waves": (50.0, 1),
    "taylor-green": (50.0, 0),
    "anharmonic-grid": (50.0, 1),
    "spherical-pendulum": (50.0, 1),
    "penning-trap": (50.0, 1),
    "swinging-atwood": (50.0, 1),
    "bead-on-hoop": (50.0, 1),
    "pendula-ring": (50.0, 1),
    "dipole": (1.5, 2),
    "elastic-pendulum": (2.0, 2),
    "guiding-centre": (200.0, 1),
    "gyrostat": (1.3, 0),
    "kicked-oscillator": (2.0, 2),
    "lennard-jones-cluster": (3.0, 2),
    "product-oscillator": (2.5, 3),
    "quartic-lattice": (8.0, 1),
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
    other = path.stem in ("lorentz-force", "volterra-ring")  # volume alone
    assert system.is_canonical == (system.dim != 3 and not other)
    vp.generate(path, tmp_path / "data.h5", count=12, steps=40)
    states = vp.open_dataset(tmp_path / "data.h5").states("train")
    assert np.isfinite(states).all() and np.abs(states).max() < bound
    for invariant in system.invariants.values():
        values = invariant(states)
        assert np.ptp(values, axis=1).max() < 1e-9 * np.abs(values).max()
