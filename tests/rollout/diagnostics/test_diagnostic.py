"""A new diagnostic is one object: it is measured, stored, read, summed up and printed."""

import csv
import io

import h5py
import numpy as np
import pytest

import vpintegrator as vp
from tests.rollout.test_compare import same
from vpintegrator.errors import InputError
from vpintegrator.overview import report_facts
from vpintegrator.plotting import csv_table, markdown_table
from vpintegrator.rollout.diagnostics import Column, Diagnostic, Variable
from vpintegrator.rollout.diagnostics.diagnostic import fold
from vpintegrator.rollout.variables import SERIES, TRAJECTORY


class PathLength(Diagnostic):
    """The length of the orbits, and how far they get from their start."""

    variables = (
        Variable("path_length", "length of the orbit", TRAJECTORY),
        Variable("excursion", "distance from the start", SERIES),
        Variable("longest_path", "the largest length"),
    )

    def __init__(self, ensemble):
        super().__init__(ensemble)
        self.farthest, self.chunks = ensemble.series(), 0
        self.length, self.last = 0.0, self.plan.initial.copy()

    def observe(self, start, states):
        joined = np.concatenate([self.last[:, None], states], axis=1)
        self.length += np.linalg.norm(np.diff(joined, axis=1), axis=-1).sum(axis=1)
        self.last = states[:, -1].copy()
        distance = np.linalg.norm(states - self.plan.initial[:, None], axis=-1)
        fold(np.maximum, start, distance, self.plan.stored, self.farthest)

    def result(self):
        length, farthest = self.length, self.farthest.T
        return {"path_length": length, "excursion": farthest, "longest_path": float(length.max())}

    @classmethod
    def summary(cls, run, report):
        lengths = run.path_length
        return {"path_length": None if lengths is None else float(np.median(lengths))}

    @classmethod
    def columns(cls, report):
        return [Column("median length", lambda s: s.path_length, "short")]


@pytest.fixture
def path():
    return PathLength


def compare(**options):
    invariant = '[invariants]\nmedian_length = "q**2 + p**2"\n[vector_field]\nq = "p"\np = "-q"\n'
    system = vp.System(f'state = ["q", "p"]\n{invariant}', "circle")
    keywords = {"system": system, "initial": [[1.0, 0.0], [2.0, 0.0]], "step": 0.1, "steps": 40}
    return vp.compare(None, **({"against": ["rk4"]} | keywords | options))


def test_a_new_one_is_everywhere(path, tmp_path):
    report = compare(every=4, diagnostics=[path])
    run = report.runs["rk4"]
    np.testing.assert_allclose(run.path_length, [4.0, 8.0], rtol=1e-3)
    assert run.excursion.shape == (2, 11)
    assert "path_length" in dir(run)
    assert report.summary("rk4").path_length == np.median(run.path_length)
    (row,) = report.table()
    assert row["median length"] == np.median(run.path_length)
    # beside those of an invariant that is called so
    assert row["median length error"] < 1e-5
    assert report_facts(report)["table"] == [row]
    (line,) = csv.DictReader(io.StringIO(csv_table(report)))
    assert float(line["median length"]) == row["median length"]
    assert f"{row['median length']:.3g}" in markdown_table(report)
    report.save(tmp_path / "a.h5")
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["rk4/excursion"].dims[1][0].name == "/rk4/time"
        assert file["rk4/path_length"].attrs["long_name"] == b"length of the orbit"
        assert file["rk4"].attrs["longest_path"] == run.path_length.max()
    assert same(report, vp.open_rollout(tmp_path / "a.h5", diagnostics=[path]))
    without = vp.open_rollout(tmp_path / "a.h5").runs["rk4"]
    with pytest.raises(AttributeError, match="'path_length' was not measured, or by an own"):
        _ = without.path_length


def test_two_of_one_name_are_refused(path):
    with pytest.raises(InputError, match="two of them measure path_length"):
        compare(diagnostics=[path, PathLength])
    with pytest.raises(InputError, match="diagnostics must be"):
        compare(diagnostics=[PathLength.columns])
