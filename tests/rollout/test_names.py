"""No name that an invariant may have meets another: not in the table, not in the file."""

from functools import cache

from hypothesis import given
from hypothesis import strategies as st

import vpintegrator as vp
from tests.rollout.test_compare import same
from vpintegrator.rollout.diagnostics import series_names

# energy is there as well
NASTY = [
    *(
        "map volume",
        "median final",
        "phase-space volume",
        "worst RMSE",
        "RMSE",
        "error",
        "drift",
        "diverged",
    ),
    *("a_b", "a b", "x", "error_x", "error_error_x", "1", "", ".", "..", "/", "a/b", "a/", "step"),
    *("trajectory", "phase-space", "kind", "method", "invariant a b"),
]


@cache
def report():
    """Each invariant is another multiple of the energy, so that none is taken for another."""
    values = "\n".join(f'"{name}" = "{k + 2}*(q**2 + p**2)/2"' for k, name in enumerate(NASTY))
    text = f'state = ["q", "p"]\nhamiltonian = "(q**2 + p**2)/2"\n[invariants]\n{values}\n'
    system = vp.System(text, "nasty")
    return compare(system)


def compare(system, **options):
    # relative where energy is not zero; a start at rest makes the changes absolute
    initial, against = [[1.0, 0.5], [0.0, 0.0]], ["explicit-euler"]
    keywords = {"system": system, "initial": initial, "step": 0.1, "steps": 5, "tangent_steps": 0}
    return vp.compare(None, against, **keywords, **options)


def test_every_number_is_in_the_table():
    (row,) = report().table()
    summary = report().summary("explicit-euler")
    assert row["map volume error"] == summary.volume["step"]
    assert row["median final error"] == summary.final_error
    labels = report().invariant_labels
    assert list(labels) == ["energy", *NASTY]
    assert len(set(labels.values())) == len(labels)
    for name, label in labels.items():
        assert row[f"{label} error"] == summary.invariants[name]
        assert row[f"{label} drift"] == summary.drifts[name]
    assert labels["a_b"] == "a b"
    assert labels["map volume"] == "invariant map volume"


def test_every_series_is_in_the_file(tmp_path):
    report().save(tmp_path / "rollout.h5")
    assert same(report(), vp.open_rollout(tmp_path / "rollout.h5"))


NAMES = [
    "x",
    "error_x",
    "error_error_x",
    "1",
    "error_1",
    "2",
    "a/b",
    "error_a/b",
    "",
    "error_",
    ".",
]


@given(st.lists(st.sampled_from(NAMES), unique=True))
def test_series_have_names_of_their_own(names):
    keys = series_names(names)
    kinds = ("invariant", "drift", "drift_error")
    series = [f"{kind}_{key}" for kind in kinds for key in keys.values()]
    assert len(set(series)) == 3 * len(names)
    assert not any("/" in name for name in series)
