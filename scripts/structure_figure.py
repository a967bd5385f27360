"""Figure of docs/results/structure.md: symplecticity defect and momentum of maps.

    python scripts/structure_figure.py                  # to docs/results, some four minutes
    python scripts/structure_figure.py --seconds 5      # less training: a try-out

Left, the defect |D^T J D - J| on the coupled oscillators, in phase space and on windows, of models
with random weights and trained. Right, how far the angular momentum of Kepler orbits changes.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import click
import matplotlib
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import vpintegrator as vp
from vpintegrator.models import Integrator
from vpintegrator.plotting.style import PAPER
from vpintegrator.rollout import as_flow
from vpintegrator.rollout.diagnostics import symplecticity_defect, window_symplecticity_defect
from vpintegrator.rollout.flow import NumericalFlow

OSCILLATORS = {"vpff": {}, "vpt": {"window": 3}, "spff": {}, "spt": {"window": 3}}
KEPLER = {"split, of equivariant flows": "split", "spff, of polynomials": "spff"}
COLOURS = {"vpff": "#CC79A7", "vpt": "#D55E00", "spff": "#0072B2", "spt": "#009E73"}
LOOKS = (
    ("#009E73", "-."),
    ("#56B4E9", "--"),
    ("#E69F00", ":"),
    ("#0072B2", "-"),
    ("#0072B2", "-."),
)
SMALLEST = 1e-17
STEPS = 10_000


def randomised(model: Integrator, size: float = 0.5) -> Integrator:
    """The model with normal weights of that size."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(size * torch.randn(weight.shape, generator=generator, dtype=weight.dtype))
    return model


def defects(flow: NumericalFlow, states: np.ndarray) -> list[float | None]:
    """In phase space, and on windows."""
    windows = vp.rollout.diagnostics.first_windows(flow, states)
    of_windows = window_symplecticity_defect(flow, windows)
    return [symplecticity_defect(flow, windows), of_windows]


def draw_form(axes: Axes, seconds: float, folder: Path) -> None:
    """Defects of every model, with random weights and trained, and of two classical methods."""
    data = vp.generate("coupled-oscillators", folder / "oscillators.h5")
    system, states = data.system, data.states("test")[:20, 0]
    rows = [
        (name, "0.4", defects(as_flow(name, system, data.step), states))
        for name in ("rk4", "stoermer-verlet")
    ]
    for name, arguments in OSCILLATORS.items():
        model = randomised(vp.models.build(system, name, **arguments))
        rows.append(
            (f"{name}, random", COLOURS[name], defects(as_flow(model, system, data.step), states))
        )
        model = vp.models.build(system, name, **arguments)
        error = vp.train(model, data, seconds=seconds).test_error
        rows.append(
            (f"{name}, trained", COLOURS[name], defects(as_flow(model, system, data.step), states))
        )
        click.echo(f"{name}: error {error:.1e}, of the form {rows[-1][2]}", err=True)
    for height, (_, colour, (space, windows)) in enumerate(reversed(rows)):
        axes.plot(max(space, SMALLEST), height, "o", color=colour, ms=5)
        if windows is not None:
            axes.plot(max(windows, SMALLEST), height, "s", mec=colour, mfc="none", ms=6)
    axes.plot([], [], "o", color="0.3", label="in phase space")
    axes.plot([], [], "s", mec="0.3", mfc="none", label="on windows")
    axes.set(xscale="log", xlabel=r"largest entry of $|D^T J\,D - J|$", xlim=(1e-17, 1e4))
    axes.set_yticks(range(len(rows)), [title for title, *_ in reversed(rows)])
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)


def draw_momentum(axes: Axes, seconds: float, folder: Path) -> None:
    """Largest change of the angular momentum up to each time, of classical methods and models."""
    data = vp.generate("kepler", folder / "kepler.h5")
    states = data.states("test")[:8, 0]
    curves = {}
    for name in ("rk4", "gauss-legendre-4", "stoermer-verlet"):
        curves[name] = vp.integrate(data.system, name, states, data.step, STEPS)
    for title, name in KEPLER.items():
        model = vp.models.build(data.system, name)
        error = vp.train(model, data, seconds=seconds).test_error
        curves[title] = vp.rollout.rollout(model, states[:, None], STEPS)
        click.echo(f"{title}: error {error:.1e}", err=True)
    times = data.step * np.arange(STEPS + 1)
    for (title, orbits), (colour, line) in zip(curves.items(), LOOKS, strict=True):
        q, p = orbits[..., :2], orbits[..., 2:]
        values = q[..., 0] * p[..., 1] - q[..., 1] * p[..., 0]
        change = np.abs(values - values[:, :1]).max(axis=0)
        largest = np.maximum.accumulate(np.maximum(change, SMALLEST))[1:]
        axes.plot(times[1:], largest, line, color=colour, label=title)
        click.echo(f"{title}: angular momentum changes by {largest[-1]:.1e}", err=True)
    axes.set(xscale="log", yscale="log", xlabel="time $t$", ylim=(SMALLEST, 10))
    axes.set_ylabel("largest change of the angular momentum")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)


@click.command()
@click.option("--seconds", default=40.0, show_default=True, help="Of training, for each model.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path(__file__).parent.parent / "docs" / "results" / "structure.png",
    help="Where the figure goes.  [default: docs/results/structure.png]",
)
def main(seconds: float, output: Path) -> None:
    """Train the models, measure what they keep, and draw it."""
    matplotlib.use("Agg")
    with PAPER.applied(), tempfile.TemporaryDirectory() as folder:
        figure = Figure(figsize=(PAPER.page, 0.48 * PAPER.page), layout="constrained")
        left, right = figure.subplots(1, 2)
        draw_form(left, seconds, Path(folder))
        draw_momentum(right, seconds, Path(folder))
        figure.savefig(output, dpi=160)


if __name__ == "__main__":
    main()
