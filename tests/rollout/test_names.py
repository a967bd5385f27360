"""No name that an invariant may have meets another in the file."""

from hypothesis import given
from hypothesis import strategies as st

import vpintegrator as vp
from tests.rollout.test_compare import same
from vpintegrator.rollout.diagnostics.invariants import series_names

NASTY = [
    *("a_b", "a b", "x", "error_x", "error_error_x", "1", "", ".", "..", "/", "a/b", "a/", "step"),
    *("trajectory", "phase-space", "kind", "method", "error", "drift"),
]


def test_every_series_is_in_the_file(tmp_path):
    """Each invariant is another multiple of the energy, so that none is taken for another."""
    values = "\n".join(f'"{name}" = "{k + 2}*(q**2 + p**2)/2"' for k, name in enumerate(NASTY))
    text = f'state = ["q", "p"]\nhamiltonian = "(q**2 + p**2)/2"\n[invariants]\n{values}\n'
    # relative where energy is not zero; a start at rest makes the changes absolute
    initial, system = [[1.0, 0.5], [0.0, 0.0]], vp.System(text, "nasty")
    report = vp.compare(
        None, "explicit-euler", system=system, initial=initial, step=0.1, steps=5, tangent_steps=0
    )
    report.save(tmp_path / "rollout.h5")
    assert same(report, vp.open_rollout(tmp_path / "rollout.h5"))


NAMES = ["x", "error_x", "error_error_x", "1", "error_1", "2", "a/b", "error_a/b", "", "error_"]


@given(st.lists(st.sampled_from(NAMES), unique=True))
def test_series_have_names_of_their_own(names):
    keys = series_names(names)
    kinds = ("invariant", "drift", "drift_error")
    series = [f"{kind}_{key}" for kind in kinds for key in keys.values()]
    assert len(set(series)) == 3 * len(names)
    assert not any("/" in name for name in series)
