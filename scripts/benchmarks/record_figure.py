"""The figure of a record of benchmarks: its tables at a glance, and nothing that they do not say.

python scripts/benchmarks/record_figure.py docs/results/benchmarks.md -o docs/results/benchmarks.png
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import click
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from vpintegrator.cli.command import PlainCommand
from vpintegrator.errors import InputError
from vpintegrator.plotting.style import PAGE, PAPER, looks
from vpintegrator.rollout import METHODS
from vpintegrator.storage.files import replacing

Row = Mapping[str, str]  # a cell by the heading of its column
Tables = Mapping[str, Sequence[Row]]  # by the title of the table

_UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
_OWN = "spff"
_OURS = ("network", "compiled", "ours", _OWN)
_METHODS = {"SciPy's DOP853": "dop853"}  # by another name than that of the package
_LOOKS = looks((name, "classical", name) for name in METHODS)
_PEERS = {
    "jax.lax.scan": ("#8C6D46", "<"),
    "jax": ("#8C6D46", "<"),
    "eager": ("#CC79A7", "D"),
    "in PyTorch": ("#CC79A7", "D"),
    "heyoka": ("#999999", "*"),
    "linalg.solve": ("#555555", "p"),
    "g-sympnet": ("#0072B2", "s"),
    "la-sympnet": ("#56B4E9", "v"),
    "henonnet": ("#009E73", "^"),
}
_FAMILIES = ("g-sympnet", "la-sympnet", "henonnet")


def tables(text: str) -> dict[str, list[Row]]:
    """The tables of a document in Markdown whose titles stand in bold letters above them."""
    found = {}
    for title, block in re.findall(r"^\*\*(.+)\*\*\n\n((?:\|.*\n)+)", text, re.MULTILINE):
        lines = [
            [cell.strip() for cell in line.strip("|").split("|")] for line in block.split("\n")
        ]
        head, _, *rows = [line for line in lines if len(line) > 1]
        found[title] = [dict(zip(head, row, strict=True)) for row in rows]
    return found


def seconds(cell: str) -> float:
    """``"3.51 ms"`` as 0.00351; nan where nothing was measured."""
    number, _, unit = cell.partition(" ")
    return float(number.replace(",", "")) * _UNITS[unit] if unit in _UNITS else math.nan


def draw(record: str) -> Figure:
    """The figure of the text of a record.

    Raises
    ------
    InputError
        If a table that it draws is not in the text.
    """
    known = tables(record)
    with PAPER.applied():
        figure = Figure(figsize=(PAGE, PAGE), layout="constrained")
        for axes, panel in zip(figure.subplots(2, 2).flat, _PANELS, strict=True):
            panel(axes, known)
            axes.legend(fontsize="x-small", ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.2))
    return figure


def _named(known: Tables, words: str) -> Sequence[Row]:
    for title, rows in known.items():
        if words in title:
            return rows
    raise InputError(f"the record has no table with '{words}' in its title: run all.py --record")


def _lines(
    axes: Axes, rows: Sequence[Row], over: str, names: Mapping[str, str], title: str
) -> None:
    """Seconds in the columns that are named, over a number in the first."""
    places = [float(row[over].replace(",", "")) for row in rows]
    for column, label in names.items():
        style = _style(column)
        axes.plot(places, [seconds(row[column]) for row in rows], label=label, **style)
    axes.set(xscale="log", yscale="log", xlabel=over, ylabel="seconds", title=title)
    axes.set_xticks(places, [row[over] for row in rows], size="small")
    axes.minorticks_off()


def _style(name: str) -> dict[str, object]:
    """What is ours is orange, thick and on top; classical methods look as in all figures."""
    size = 0.45 * PAPER.letters
    if name in _OURS:
        return {"color": "#D55E00", "lw": 1.8, "marker": "o", "ms": 1.3 * size, "zorder": 3}
    bare = name.partition(", ")[0]
    look = _LOOKS.get(_METHODS.get(bare, bare))
    if look is not None:
        return {"color": look.colour, "lw": 1.0, "ls": look.line, "marker": look.marker, "ms": size}
    colour, mark = _PEERS[bare]
    return {"color": colour, "lw": 1.0, "ls": "--", "marker": mark, "ms": size}


def _polynomials(axes: Axes, known: Tables) -> None:
    names = {"compiled": "vpintegrator", "jax.lax.scan": "jax.lax.scan", "heyoka": "heyoka"}
    names |= {"eager": "eager PyTorch", "dormand-prince-8": "Dormand-Prince 8, compiled"}
    rows = _named(known, "a step of 0.2 by polynomials")
    _lines(axes, rows, "trajectories", names, "rigid body, a step of one trajectory")


def _training(axes: Axes, known: Tables) -> None:
    rows = [row for row in _named(known, "A first-order step") if row["dtype"] == "float64"]
    names = {"compiled": "vpintegrator", "eager": "eager PyTorch", "jax": "JAX"}
    for column, label in names.items():
        style = _style(column) | {"ls": ""}
        axes.plot([seconds(row[column]) for row in rows], range(len(rows)), label=label, **style)
    axes.set(xscale="log", xlabel="seconds", title="a first-order step of training")
    axes.set_yticks(range(len(rows)), [row["model"] for row in rows])
    axes.margins(y=0.3)


def _work_precision(axes: Axes, known: Tables) -> None:
    for row in _named(known, "a unit of simulated time"):
        name = row["method"]
        axes.plot(
            [seconds(time) for time in row["times"].split(", ")],
            [float(error) for error in row["errors at t = 120"].split(", ")],
            label="learned" if name in _OURS else name.removesuffix(", compiled"),
            **_style(name),
        )
    axes.set(xscale="log", yscale="log", xlabel="seconds a unit of time")
    axes.set(ylabel="error at t = 120", title="rigid body, work and precision")


def _symplectic(axes: Axes, known: Tables) -> None:
    rows = {row["network"]: row for row in _named(known, "of training each")}
    systems = [name for name in rows[_OWN] if name not in ("network", "form")]
    for name in (_OWN, *_FAMILIES):
        cells = [rows[name][system].partition(",")[0] for system in systems]
        errors = [math.nan if cell == "-" else float(cell) for cell in cells]
        style = _style(name) | {"ls": ""}
        axes.plot(errors, range(len(systems)), label=name, **style)
    axes.set(xscale="log", xlabel="error of a step")
    axes.set(title="after equal seconds of training")
    axes.set_yticks(range(len(systems)), systems)


_PANELS: tuple[Callable[[Axes, Tables], None], ...] = (
    _work_precision,
    _symplectic,
    _polynomials,
    _training,
)


@click.command(cls=PlainCommand)
@click.argument("record", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), required=True)
def main(record: Path, output: Path) -> None:
    """Draw the tables of a record as all.py --record writes it."""
    figure = draw(record.read_text(encoding="utf-8"))
    with replacing(output, overwrite=True) as temporary:
        figure.savefig(temporary, format=output.suffix[1:] or "png", dpi=160)


if __name__ == "__main__":
    main()
