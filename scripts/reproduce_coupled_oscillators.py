#!/usr/bin/env python
"""Two coupled oscillators: published networks, ours and classical methods, to t = 120."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from matplotlib.figure import Figure
from reproduction import Network, Study, options, reproduce
from study_figure import draw_orbits, panel_title

from vpintegrator.cli.common import SETTINGS, plain_errors
from vpintegrator.dynamics import System
from vpintegrator.models import (
    Integrator,
    StandardTransformer,
    VolumePreservingFeedForward,
    VolumePreservingTransformer,
)
from vpintegrator.plotting.portraits import draw_portrait
from vpintegrator.plotting.scene import Scene

# Data, step, window and the standard transformer are those of the tutorial
# "linear_symplectic_transformer" of GeometricMachineLearning.jl: orbits with fixed parameters from
# random states in the unit box, windows of four states (seq_length), one unit (L) of two residual
# layers (n_blocks) with two heads (n_heads). The volume-preserving networks have the sizes of its
# script "coupled_harmonic_oscillator" of 2024: two units, three triangular blocks, two linear pairs
# (n_linear), arbitrary weighting (skew_sym = false).
WINDOW = 4
UNITS, BLOCKS, LINEAR = 2, 3, 2


def published_feed_forward(system: System) -> Integrator:
    return VolumePreservingFeedForward(
        dim=4, depth=1, feed_forward="triangular", blocks=UNITS * BLOCKS, linear=LINEAR
    )


def published_transformer(system: System) -> Integrator:
    return VolumePreservingTransformer(
        dim=4,
        window=WINDOW,
        prediction_window=WINDOW,
        depth=UNITS,
        weighting="arbitrary",
        attention_scale=4**-0.5,
        feed_forward="triangular",
        blocks=BLOCKS,
        linear=LINEAR,
    )


def standard_transformer(system: System) -> Integrator:
    return StandardTransformer(
        dim=4,
        window=WINDOW,
        prediction_window=None,
        width=4,
        positions=False,
        depth=1,
        heads=2,
        blocks=2,
    )


def reversible_feed_forward(system: System) -> Integrator:
    return VolumePreservingFeedForward(
        dim=4, depth=4, split="halves", reversing_symmetries=system.reversing_symmetries
    )


def reversible_transformer(system: System) -> Integrator:
    return VolumePreservingTransformer(
        dim=4,
        window=WINDOW,
        prediction_window=1,
        split="halves",
        reversing_symmetries=system.reversing_symmetries,
    )


def draw(scene: Scene) -> Figure:
    """The first orbit of every method in the plane of q[0] and p[0]; below, positions and errors.

    The reference lies under every method's orbits.
    """
    figure = Figure(figsize=(scene.style.page, 8.2), layout="constrained")
    upper, lower = figure.subfigures(2, 1, height_ratios=(1.25, 1))
    panels = upper.subplots(2, 3, sharex=True, sharey=True)
    for axes, name in zip(panels.flat, [*STUDY.networks, STUDY.beside], strict=True):
        draw_portrait(axes, scene, name, (0, 2))
        axes.label_outer()
        axes.set_title(panel_title(scene, name), color=scene.looks[name].colour)
    draw_orbits(lower, scene, STUDY, ["q[0]", "q[1]"])
    return figure


STUDY = Study(
    title="Coupled oscillators",
    source=(
        "Brantner, de Romemont, Kraus, Li, arXiv 2312.11166; GeometricMachineLearning.jl, tutorial "
        "linear_symplectic_transformer and script coupled_harmonic_oscillator"
    ),
    recipe="coupled-oscillators",
    changes={
        "step": 0.3,
        "steps": 333,
        "trajectories": {"train": 100, "validation": 10, "test": 20},
        "initial_conditions": {"distribution": "uniform", "low": 0, "high": 1},
    },
    networks={
        "feed-forward": Network(
            published_feed_forward, True, "published sizes, six triangular blocks, one step"
        ),
        "VPT": Network(
            published_transformer,
            True,
            "published sizes, two units, arbitrary weighting: not volume-preserving as a map of "
            "windows; window 4 as the standard transformer's, published 5",
        ),
        "standard transformer": Network(
            standard_transformer, True, "published sizes, window 4, one unit, two heads"
        ),
        "reversible feed-forward": Network(
            reversible_feed_forward, False, "couplings of q and p, reversible, one step"
        ),
        "reversible VPT": Network(
            reversible_transformer,
            False,
            "skew attention and couplings of q and p, window 4 of which 1 is new, reversible",
        ),
    },
    against=["stoermer-verlet", "implicit-midpoint", "rk4"],
    beside="stoermer-verlet",
    orbits={"orbit 1": (0.5, 0.8, 0.2, 0.6), "orbit 2": (0.9, 0.1, 0.7, 0.4)},
    time=120.0,
    batch=1024,
    draw=draw,
    notes=[
        "data: 100 orbits to t = 99.9 from random states in the unit box; published are 5, which "
        "the tutorial also judges by; here both orbits are new to the networks",
        "the tutorial has no volume-preserving network; the script varies the strength k of the "
        "coupling instead of the first states; no errors are published for either",
    ],
)


@click.command(context_settings=SETTINGS)
@options("coupled-oscillators-study")
@plain_errors
def main(output: Path, **settings: Any) -> None:
    """Repeat the study of two coupled oscillators in GeometricMachineLearning.jl.

    The volume-preserving feed-forward network, the volume-preserving transformer (VPT) and the
    standard transformer, all of published sizes, learn orbits from random states; beside them are
    our reversible networks, Störmer-Verlet, the implicit midpoint rule and RK4 with the same step
    of 0.3. Two new orbits run to t = 120. Everything is written to a folder: data, networks,
    rollout, the study's figure, a table, and in figures/ all that vp-plot draws. Takes a quarter of
    an hour; a run that was interrupted goes on where it was when started again.
    """
    reproduce(STUDY, output, **settings)


if __name__ == "__main__":
    main()
