#!/usr/bin/env python
"""The rigid body of arXiv 2312.11166: its networks, ours and classical methods, to t = 120."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import click
from matplotlib.figure import Figure
from reproduction import (
    Literature,
    Network,
    Study,
    options,
    reproduce,
)
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
from vpintegrator.plotting.views import Sphere, stroke

# Sizes are those of the tutorial "volume_preserving_transformer_rigid_body" of
# GeometricMachineLearning.jl, whose names for them are in brackets: three transformer units (L),
# each with two triangular blocks (n_blocks) of one linear pair (n_linear), windows of three states
# (seq_length), one head (n_heads), tanh, no add connection; the feed-forward network has as many
# triangular blocks as the transformer.
UNITS, BLOCKS, LINEAR, WINDOW, HEADS = 3, 2, 1, 3, 1


def published_feed_forward(system: System) -> Integrator:
    return VolumePreservingFeedForward(
        dim=3, depth=1, feed_forward="triangular", blocks=UNITS * BLOCKS, linear=LINEAR
    )


def published_transformer(system: System) -> Integrator:
    return VolumePreservingTransformer(
        dim=3,
        window=WINDOW,
        prediction_window=WINDOW,
        depth=UNITS,
        weighting="arbitrary",
        attention_scale=3**-0.5,
        feed_forward="triangular",
        blocks=BLOCKS,
        linear=LINEAR,
    )


def standard_transformer(system: System) -> Integrator:
    return StandardTransformer(
        dim=3,
        window=WINDOW,
        prediction_window=None,
        width=3,
        positions=False,
        depth=UNITS,
        heads=HEADS,
        blocks=BLOCKS,
        residual=False,
    )


def reversible_feed_forward(system: System) -> Integrator:
    return VolumePreservingFeedForward(dim=3, reversing_symmetries=system.reversing_symmetries)


def reversible_transformer(system: System) -> Integrator:
    return VolumePreservingTransformer(
        dim=3,
        window=WINDOW,
        prediction_window=WINDOW,
        reversing_symmetries=system.reversing_symmetries,
    )


def draw(scene: Scene) -> Figure:
    """Orbits on the sphere, a panel for each method; below, coordinates and errors in time.

    Laid out after the published figures: the reference lies under every method's orbits.
    """
    style, report = scene.style, scene.report
    figure = Figure(figsize=(style.page, 9.2), layout="constrained")
    upper, lower = figure.subfigures(2, 1, height_ratios=(1.15, 1))
    for axes, name in zip(upper.subplots(2, 3).flat, [*STUDY.networks, STUDY.beside], strict=True):
        sphere = Sphere(range(3), scene.components, 1.0, style)
        sphere.frame(axes)
        for orbit in report.reference:
            sphere.draw(axes, orbit, color=style.reference, **stroke(style, False))
        draw_portrait(axes, scene, name)
        axes.set_title(panel_title(scene, name), color=scene.looks[name].colour)
    draw_orbits(lower, scene, STUDY, scene.components)
    return figure


STUDY = Study(
    title="Rigid body",
    source=(
        "Brantner, de Romemont, Kraus, Li, Volume-preserving transformers for learning time "
        "series data with structure, arXiv 2312.11166, section 6; GeometricMachineLearning.jl, "
        "tutorial volume_preserving_transformer_rigid_body"
    ),
    recipe="rigid-body-circles",
    networks={
        "feed-forward": Network(
            published_feed_forward, True, "published sizes, six triangular blocks, one step"
        ),
        "VPT": Network(
            published_transformer,
            True,
            "published sizes, window 3, three units, arbitrary weighting: not volume-preserving "
            "as a map of windows",
        ),
        "standard transformer": Network(
            standard_transformer, True, "published sizes, window 3, three units, one head"
        ),
        "reversible feed-forward": Network(
            reversible_feed_forward, False, "couplings, reversible for all sign flips, one step"
        ),
        "reversible VPT": Network(
            reversible_transformer, False, "couplings, window 3, reversible for all sign flips"
        ),
    },
    against=[
        *("implicit-midpoint", "rk4", "gauss-legendre-4"),
        *("coordinate-splitting", "strang-splitting"),
    ],
    beside="implicit-midpoint",
    orbits={
        "orbit 1": (0.0, math.sin(0.9), -math.cos(0.9)),
        "orbit 2": (0.0, math.sin(1.1), math.cos(1.1)),
    },
    time=120.0,
    batch=16384,
    draw=draw,
    literature=[
        Literature("feed-forward", 135, 7.4e-4, (0.84, 0.79)),
        Literature("VPT", 180, 1.7e-3, (0.68, 0.21)),
    ],
    notes=[
        "published: measured by us on the networks that come with the tutorial, which their "
        "authors trained for 500,000 epochs of Adam on a GPU in single precision; their invariants "
        "change by 0.47 (feed-forward) and 0.1 (VPT)",
        "the first 20 units of time of orbit 2 are among the data",
        "published data are orbits of the implicit midpoint rule with step 0.2, ours accurate "
        "solutions; the paper itself takes the skew weighting, its tutorial the arbitrary one",
    ],
)


@click.command(context_settings=SETTINGS)
@options("rigid-body-study")
@plain_errors
def main(output: Path, **settings: Any) -> None:
    """Repeat the study of the rigid body by Brantner, de Romemont, Kraus and Li.

    The volume-preserving feed-forward network, the volume-preserving transformer (VPT) and the
    standard transformer, all of the published sizes, learn the published data; beside them are our
    reversible networks and classical methods with the same step of 0.2. Two published orbits run to
    t = 120. Everything is written to a folder: data, networks, rollout, the study's figure, a
    table with the published values, and in figures/ all that vp-plot draws. Takes a quarter of an
    hour; a run that was interrupted goes on where it was when started again.
    """
    reproduce(STUDY, output, **settings)


if __name__ == "__main__":
    main()
