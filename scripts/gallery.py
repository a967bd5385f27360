"""A picture of every system in the catalogue, and a list of them with their equations.

    python scripts/gallery.py                  # systems.png and systems.md in docs/reference
    python scripts/gallery.py --only kepler    # draws some systems only, writes no list

Each system is integrated as it suggests, and the change of its invariants measured; for Poincare
sections the orbits are longer.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import click
import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle

import vpintegrator as vp
from vpintegrator.catalogue import SystemSummary, system_summaries
from vpintegrator.dynamics import System, solve
from vpintegrator.dynamics.typeset import equations_latex, invariants_latex
from vpintegrator.plotting.portraits import draw_orbits
from vpintegrator.plotting.style import ORBIT_COLOURS, PAPER, Style
from vpintegrator.plotting.views import Sphere, pair_of_section, planes_of
from vpintegrator.rollout.diagnostics.poincare import SectionObserver

DOCS = Path(__file__).parent.parent / "docs" / "reference"
COUNT = 6  # trajectories of a system whose invariants are measured
COLUMNS = 6
TURN = 2 * np.pi
FINE = 48  # steps of a turn

Picture = Callable[[Axes, System, np.ndarray], None]


def trajectories(system: System, count: int, factor: float = 1, fine: int = 1) -> np.ndarray:
    """States (trajectory, time, dim) as the system suggests.

    ``factor`` times as long, and with ``fine`` steps for each one suggested.
    """
    initial = system.sample_initial(count, np.random.default_rng(3))
    step, steps = system.defaults["step"], int(factor * system.defaults["steps"])
    return solve(system, initial, step / fine * np.arange(steps * fine + 1))


def drift(system: System, states: np.ndarray) -> dict[str, float]:
    """For each invariant, its largest change along a trajectory over its largest value."""
    changes = {}
    for name, invariant in system.invariants.items():
        values = invariant(states)
        changes[name] = float(np.abs(values - values[:, :1]).max() / np.abs(values).max())
    return changes


# Pictures: each draws into axes the system's states at the times that it suggests.


def plane(count: int = COUNT, factor: float = 1) -> Picture:
    """Orbits in the first plane that the system file names."""

    def draw(axes: Axes, system: System, states: np.ndarray) -> None:
        i, j = planes_of(system)[0]
        orbits = trajectories(system, count, factor, fine=4)
        for orbit, colour in zip(orbits, itertools.cycle(ORBIT_COLOURS), strict=False):
            axes.plot(orbit[:, i], orbit[:, j], color=colour)
        name_axes(axes, system.components[i], system.components[j])
        if system.plot.equal:
            axes.set_aspect("equal", "datalim")

    return draw


def bodies(dimension: int) -> Picture:
    """The paths of all bodies of one trajectory, in their first two coordinates."""

    def draw(axes: Axes, system: System, states: np.ndarray) -> None:
        places = states[0, :, : system.dim // 2].reshape(states.shape[1], -1, dimension)
        paths(axes, places[..., 0], places[..., 1])

    return draw


def vortices(axes: Axes, system: System, states: np.ndarray) -> None:
    """The paths of all vortices of one trajectory."""
    x, y = np.split(trajectories(system, 4, 1.5)[3], 2, axis=1)
    paths(axes, x, y)


def paths(axes: Axes, x: np.ndarray, y: np.ndarray) -> None:
    """Paths (time, body) in the plane, with a dot at the end of each."""
    for k, colour in zip(range(x.shape[1]), itertools.cycle(ORBIT_COLOURS), strict=False):
        axes.plot(x[:, k], y[:, k], color=colour, lw=0.7)
        axes.plot(x[-1, k], y[-1, k], "o", color=colour, ms=3)
    name_axes(axes, "x", "y")
    axes.set_aspect("equal", "datalim")


def second_bob(axes: Axes, system: System, states: np.ndarray) -> None:
    """The path of the lower mass of a double pendulum."""
    l1, l2 = system.parameters["l1"], system.parameters["l2"]
    angles = trajectories(system, COUNT, 2)[4, :, :2].T
    x = l1 * np.sin(angles[0]) + l2 * np.sin(angles[1])
    y = -l1 * np.cos(angles[0]) - l2 * np.cos(angles[1])
    axes.plot(x, y, color=ORBIT_COLOURS[0], lw=0.7)
    inner = [l1 * np.sin(angles[0, -1]), -l1 * np.cos(angles[0, -1])]
    axes.plot([0, inner[0], x[-1]], [0, inner[1], y[-1]], "o-", color="0.2", ms=3)
    name_axes(axes, "x", "y")
    axes.set_aspect("equal", "datalim")


def captured(axes: Axes, system: System, states: np.ndarray) -> None:
    """Positions from rest in time, under torques below and above the threshold of capture."""
    for epsilon, colour in ((0.03, ORBIT_COLOURS[1]), (0.1, ORBIT_COLOURS[0])):
        times = np.linspace(-50, 60, 1101)
        weaker = vp.load_system(system.name, epsilon=epsilon)
        orbit = solve(weaker, np.array([[0.0, 0.0, -50.0]]), times)[0]
        axes.plot(times, orbit[:, 0], color=colour, lw=0.8)
    name_axes(axes, "t", "q")


def sphere(count: int, factor: float = 1) -> Picture:
    """The components that the system file names, or all three, on their sphere."""

    def draw(axes: Axes, system: System, states: np.ndarray) -> None:
        names = system.plot.sphere or system.components
        chosen = [system.components.index(name) for name in names]
        orbits = trajectories(system, count, factor, fine=4)
        for orbit, colour in zip(orbits, itertools.cycle(ORBIT_COLOURS), strict=False):
            part = orbit[None, :, chosen]
            radius = float(np.linalg.norm(part[0, 0]))
            sphere = Sphere(range(3), names, radius, PAPER)
            sphere.frame(axes)
            draw_orbits(axes, sphere, part, [colour], [False], PAPER)
        axes.set_aspect("equal")
        axes.axis("off")

    return draw


def section(count: int, factor: float, **choice: float) -> Picture:
    """The Poincare section that the system file names.

    ``energy``: the orbits start with this energy. ``beyond``: only crossings where the first
    component of the pair is larger than this are drawn.
    """

    def draw(axes: Axes, system: System, states: np.ndarray) -> None:
        assert system.plot.section is not None
        component, value, direction = system.plot.section
        cut = system.components.index(component)
        pair = pair_of_section(system, component)
        if "energy" in choice:
            energy = choice["energy"]
            table = {**system.initial_conditions.table, "energy": [0.999 * energy, energy]}
            generator = np.random.default_rng(5)
            conditions = vp.dynamics.InitialConditions(system, table, "gallery")
            initial = conditions.sample(count, generator)
        else:
            initial = system.sample_initial(count, np.random.default_rng(5))
        step = system.defaults["step"]
        times = step * np.arange(int(factor * system.defaults["steps"]))
        orbits = solve(system, initial, times, rtol=1e-9, atol=1e-9)
        period = system.period if cut == system.explicit_time else None
        observer = SectionObserver(cut, value, direction, step, period)
        observer.update(0, orbits)
        found = observer.section
        for i, turn in system.periods.items():
            found.points[:, i] -= turn * np.round(found.points[:, i] / turn)
        for k, colour in zip(range(count), itertools.cycle(ORBIT_COLOURS), strict=False):
            points = found.points[found.trajectory == k][:, pair]
            points = points[points[:, 0] > choice.get("beyond", -np.inf)]
            axes.plot(*points.T, ".", color=colour, ms=1.8, mew=0)
        name_axes(axes, *(system.components[i] for i in pair))
        axes.set_title(f"{component} = {value:g}", loc="right", fontsize=6, color="0.4")

    return draw


def periodic_section(axes: Axes, system: System, states: np.ndarray) -> None:
    """Where streamlines of a periodic flow pass z = 0, in one period of x and y."""
    initial = system.sample_initial(24, np.random.default_rng(5))
    # steps so short that a straight line between two states is as good as the curve
    orbits = solve(system, initial, 0.04 * np.arange(30_000), rtol=1e-7, atol=1e-7)
    for orbit, colour in zip(orbits, itertools.cycle(ORBIT_COLOURS), strict=False):
        height = orbit[:, 2] / TURN
        index = np.flatnonzero(np.floor(height[1:]) != np.floor(height[:-1]))
        level = np.maximum(np.floor(height[1:]), np.floor(height[:-1]))[index]
        part = ((level - height[index]) / (height[index + 1] - height[index]))[:, None]
        points = (1 - part) * orbit[index, :2] + part * orbit[index + 1, :2]
        axes.plot(*(points % TURN).T, ".", color=colour, ms=1.8, mew=0)
    name_axes(axes, "x", "y")
    axes.set_aspect("equal")
    axes.set_title("z = 0", loc="right", fontsize=6, color="0.4")


def turns(count: int, length: int) -> Picture:
    """Where field lines pass phi = 0, from the axis outwards along the midplane."""

    def draw(axes: Axes, system: System, states: np.ndarray) -> None:
        initial = np.zeros((count, 3))
        initial[:, 1] = np.log(np.linspace(1.01, 1.25, count))
        lines = vp.integrate(system, "rk4", initial, TURN / FINE, FINE * length)[:, ::FINE]
        for line, colour in zip(lines, itertools.cycle(ORBIT_COLOURS), strict=False):
            axes.plot(np.exp(line[:, 1]), line[:, 0], ".", color=colour, ms=1.8, mew=0)
        name_axes(axes, "R", "Z")
        axes.set_aspect("equal", "datalim")
        axes.set_title("phi = 0", loc="right", fontsize=6, color="0.4")

    return draw


def strobe(count: int, length: int) -> Picture:
    """Once in a period of the equations, in the first plane that the system file names."""

    def draw(axes: Axes, system: System, states: np.ndarray) -> None:
        i, j = planes_of(system)[0]
        initial = system.sample_initial(count, np.random.default_rng(5))
        initial[:, -1] = 0
        step = system.period / FINE / 2
        orbits = vp.integrate(system, "rk4", initial, step, 2 * FINE * length)[:, :: 2 * FINE]
        for angle, turn in system.periods.items():
            orbits[..., angle] -= turn * np.round(orbits[..., angle] / turn)
        for orbit, colour in zip(orbits, itertools.cycle(ORBIT_COLOURS), strict=False):
            axes.plot(orbit[:, i], orbit[:, j], ".", color=colour, ms=1.8, mew=0)
        name_axes(axes, system.components[i], system.components[j])
        axes.set_title(f"{system.time} = 0", loc="right", fontsize=6, color="0.4")

    return draw


def iterates(count: int, length: int) -> Picture:
    """Orbits of a map in the first plane that its file names; angles within a period about 0."""

    def draw(axes: Axes, system: System, states: np.ndarray) -> None:
        i, j = planes_of(system)[0]
        initial = system.sample_initial(count, np.random.default_rng(5))
        orbits = solve(system, initial, np.arange(length + 1))
        for angle, turn in system.periods.items():
            orbits[..., angle] -= turn * np.round(orbits[..., angle] / turn)
        for orbit, colour in zip(orbits, itertools.cycle(ORBIT_COLOURS), strict=False):
            axes.plot(orbit[:, i], orbit[:, j], ".", color=colour, ms=1.2, mew=0)
        name_axes(axes, system.components[i], system.components[j])
        if system.plot.equal:
            axes.set_aspect("equal", "datalim")

    return draw


def meridian(axes: Axes, system: System, states: np.ndarray) -> None:
    """Orbits of an axisymmetric flow in a half plane through the axis, and its mirror image."""
    for k, orbit in enumerate(trajectories(system, 10, 2)):
        radius = np.hypot(orbit[:, 0], orbit[:, 1]) * (-1) ** k
        axes.plot(radius, orbit[:, 2], color=ORBIT_COLOURS[k % len(ORBIT_COLOURS)])
    axes.add_patch(Circle((0, 0), system.parameters["a"], fill=False, color="0.3", lw=1))
    name_axes(axes, "distance from axis", "z")
    axes.set_aspect("equal", "datalim")


def space_time(rows: slice, label: str, factor: float = 1) -> Picture:
    """Some components, in order along a line, against time, as colours."""

    def draw(axes: Axes, system: System, states: np.ndarray) -> None:
        values = (trajectories(system, 2, factor) if factor != 1 else states)[1][:, rows]
        size, end = np.abs(values).max(), system.defaults["step"] * (len(values) - 1)
        axes.imshow(
            values,
            cmap="RdBu_r",
            vmin=-size,
            vmax=size,
            origin="lower",
            aspect="auto",
            extent=(-0.5, values.shape[1] - 0.5, 0, end),
        )
        axes.grid(False)
        name_axes(axes, label, "t")

    return draw


def corner(axes: Axes, system: System, states: np.ndarray) -> None:
    """Orbits in space, seen along the diagonal of the positive octant."""
    right, up = np.array([-1, 1, 0]) / np.sqrt(2), np.array([-1, -1, 2]) / np.sqrt(6)
    for name, axis in zip(system.components, 3.6 * np.eye(3), strict=True):
        axes.plot([0, axis @ right], [0, axis @ up], color="0.6", lw=0.6)
        axes.text(1.1 * axis @ right, 1.1 * axis @ up, name, ha="center", va="center")
    for orbit, colour in zip(states, itertools.cycle(ORBIT_COLOURS), strict=False):
        axes.plot(orbit @ right, orbit @ up, color=colour)
    axes.set_aspect("equal")
    axes.axis("off")


def name_axes(axes: Axes, x: str, y: str) -> None:
    """Labels of both axes."""
    axes.set_xlabel(x, labelpad=1)
    axes.set_ylabel(y, labelpad=1)


PICTURES: dict[str, Picture] = {
    "abc-flow": periodic_section,
    "advection": space_time(slice(None), "point"),
    "charged-particle": plane(count=2, factor=4),
    "chirped-pendulum": captured,
    "coupled-oscillators": plane(count=2),
    "double-pendulum": second_bob,
    "driven-pendulum": section(24, 30),
    "duffing": plane(count=12),
    "field-lines": turns(24, 200),
    "field-lines-coils": turns(16, 60),
    "fodo": iterates(8, 400),
    "forced-duffing": section(24, 60),
    "forced-pendulum": section(24, 60),
    "fput": space_time(slice(0, 15), "mass"),
    "harmonic-oscillator": plane(),
    "heavy-top": sphere(2, 0.5),
    "henon-heiles": section(32, 60, energy=0.125),
    "henon-map": iterates(30, 600),
    "hill-vortex": meridian,
    "kepler": plane(),
    "lennard-jones-chain": space_time(slice(8, 16), "atom"),
    "linear-wave": space_time(slice(0, 31), "point"),
    "lotka-volterra-2d": plane(),
    "lotka-volterra-3d": corner,
    "many-waves": strobe(32, 300),
    "morse": plane(),
    "outer-solar-system": bodies(3),
    "pendulum": plane(),
    "point-vortices": vortices,
    "rigid-body": sphere(14),
    "standard-map": iterates(40, 600),
    "three-body": bodies(2),
    "toda": space_time(slice(8, 16), "particle"),
    "tokamak": section(16, 30, beyond=0),
    "tokamak-islands": section(24, 40, beyond=0),
    "two-waves": section(24, 60),
}


def draw_sheet(systems: list[tuple[SystemSummary, System, np.ndarray]], style: Style) -> Figure:
    """All pictures on one sheet."""
    rows = -(-len(systems) // COLUMNS)
    columns = min(COLUMNS, len(systems))
    figure = Figure(figsize=(2.3 * columns, 2.25 * rows), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).flat
    for axes, (summary, system, states) in zip(panels, systems, strict=False):
        PICTURES[summary.name](axes, system, states)
        axes.set_title(summary.name, loc="left", fontweight="bold")
        axes.tick_params(labelsize=0.75 * style.letters)
        click.echo(f"  {summary.name}", err=True)
    for axes in list(figure.axes)[len(systems) :]:
        axes.axis("off")
    return figure


def write_list(systems: list[tuple[SystemSummary, System, np.ndarray]]) -> str:
    """The list of the systems as Markdown."""
    lines = [
        "# Systems",
        "",
        "After reading this page you can choose a system of the catalogue by its equations, "
        "invariants and picture. `vp-gen NAME` generates a dataset, `vp-gen --show NAME` prints "
        "the equations, and `vp.load_system(NAME)` is the system in Python. Drifts are the largest "
        "changes of the invariants, relative to their largest values, over the suggested time at "
        "the default tolerance. `scripts/gallery.py` writes this page.",
        "",
        "![A picture of every system](systems.png)",
    ]
    for subject, group in itertools.groupby(systems, key=lambda entry: entry[0].subject):
        lines += ["", f"## {subject}"]
        for summary, system, states in group:
            size = f", set by `{summary.size}`" if summary.size else ""
            lines += [
                "",
                f"### {system.title} (`{summary.name}`)",
                "",
                system.description,
                "",
                f"{summary.dim} components{size}; {system.structure}; "
                f"{len(system.reversing_symmetries) or 'no'} reversing "
                f"{'symmetry' if len(system.reversing_symmetries) == 1 else 'symmetries'}; "
                f"{_symmetries(system)}"
                f"step {system.defaults['step']:g}, {system.defaults['steps']} steps.",
                "",
                f"$$\n{equations_latex(system).replace('align*', 'aligned')}\n$$",
            ]
            changes = drift(system, states)
            if changes:
                lines += ["", "| invariant | | drift |", "|---|---|---|"]
            for name, expression in invariants_latex(system).items():
                lines.append(f"| {name.replace('_', ' ')} | ${expression}$ | {changes[name]:.0e} |")
            lines += ["", f"Reference: {system.reference}."]
    return "\n".join(lines) + "\n"


def _symmetries(system: System) -> str:
    """``symmetries: all bodies moved by the same, like bodies exchanged; ``."""
    return f"symmetries: {', '.join(system.bodies.symmetries)}; " if system.bodies else ""


@click.command()
@click.option("--only", multiple=True, metavar="NAME", help="Draw these systems only.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=DOCS,
    help="Folder to write to.  [default: docs/reference]",
)
def main(only: tuple[str, ...], output: Path) -> None:
    """Draw every system of the catalogue, and list them with their equations."""
    matplotlib.use("Agg")
    systems = []
    for summary in system_summaries():
        if not only or summary.name in only:
            system = vp.load_system(summary.name)
            states = trajectories(system, COUNT)
            worst = max(drift(system, states).values(), default=0.0)
            if worst > 1e-10:
                raise click.ClickException(f"{summary.name}: an invariant drifts by {worst:.1e}")
            systems.append((summary, system, states))
    if not systems:
        raise click.ClickException(f"--only: there is no system {', '.join(only)}")
    output.mkdir(parents=True, exist_ok=True)
    with PAPER.applied():
        draw_sheet(systems, PAPER).savefig(output / "systems.png", dpi=130)
    if not only:
        (output / "systems.md").write_text(write_list(systems), encoding="utf-8")


if __name__ == "__main__":
    main()
