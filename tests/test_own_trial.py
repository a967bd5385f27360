"""A system and a network of one's own in a figure and a LaTeX table, by the public interface."""

import numpy as np
import pytest
import torch

import vpintegrator as vp


def tabulated(t, y):
    q, p = y[..., 0], y[..., 1]
    return np.stack([p, np.interp(q, [-9, 0, 9], [9, 0, -36])], axis=-1)


def bead(t, y, gamma):
    q, p = y
    return [p, np.sin(q) * (np.cos(q) - gamma)]


def compared(system, folder):
    dataset = vp.generate(system, folder / "data.h5", count=20, steps=8)
    mine = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    vp.train(mine.double(), dataset, epochs=5, progress=False)
    ours = vp.models.build(dataset.system, "sgf", {"degree": 4})
    vp.train(ours, dataset, progress=False)
    return vp.compare({"mine": mine, "ours": ours}, "rk4", system=system, steps=20, trajectories=3)


@pytest.mark.thorough
def test_own_function_and_own_network_to_a_figure_and_a_table(tmp_path):
    system = vp.System.from_function(
        bead, dim=2, parameters={"gamma": 0.5}, sample=(-1.0, 1.0), step=0.2
    )
    report, figures = compared(system, tmp_path), tmp_path / "figures"
    vp.draw(report, figures, ["png"])
    assert set(report.runs) == {"mine", "ours", "rk4"}
    table = (figures / "table.tex").read_text()
    assert r"\begin{tabular}" in table
    assert all(name in table for name in ("mine", "ours", "RK4"))
    assert (figures / "overview.png").stat().st_size > 1000


def test_a_piecewise_oscillator_beside_models_and_methods(tmp_path):
    system = vp.System.from_function(tabulated, dim=2, components=["q", "p"], step=0.1)
    report = compared(system, tmp_path)
    assert report.runs["rk4"].states.shape == (3, 21, 2)
    assert "finite differences" in vp.plotting.latex_table(report)
