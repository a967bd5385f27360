"""The figure of the benchmark of maps: error against cost, a panel for each system.

Dotted, with open marks: the flow for the time of a return, without the crossing of its section.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from vpintegrator.errors import InputError
from vpintegrator.plotting.figures.curves import readable_decades
from vpintegrator.plotting.style import PAGE, PAPER, looks
from vpintegrator.storage.files import replacing

_COLUMNS = 4
_SUFFIXES = (".png", ".pdf", ".svg")
CHEAP = ", cheap"  # how cases end that are others with a smaller map
_TITLES = {"learned": "learned map", "heyoka": "heyoka", "DOP853": "SciPy, DOP853"}


def draw(results: list[dict[str, Any]], path: Path) -> None:
    """Write the figure.

    Parameters
    ----------
    results
        Of the systems, as the benchmark keeps them.
    path
        Of the file, which is written anew if it is there.

    Raises
    ------
    InputError
        If its ending is none of those of figures.
    """
    if path.suffix not in _SUFFIXES:
        raise InputError(f"--figure {path}: figures end in {', '.join(_SUFFIXES)}")
    results = _together(results)
    names = (row["method"].partition(",")[0] for result in results for row in result["rows"])
    methods = list(dict.fromkeys(names))
    kinds = {name: "learned" if name == "learned" else "classical" for name in methods}
    found = looks((name, kind, name) for name, kind in kinds.items())
    rows = -(-len(results) // _COLUMNS)
    with PAPER.applied():
        size = (PAGE, PAPER.em * (13 * rows + 6))
        figure = Figure(figsize=size, layout="constrained")
        panels = figure.subplots(
            rows, min(_COLUMNS, len(results)), squeeze=False, sharex=True, sharey=True
        )
        for axes in panels.flat[len(results) :]:
            axes.axis("off")
        for axes, result in zip(panels.flat, results, strict=False):
            for method in dict.fromkeys(row["method"] for row in result["rows"]):
                name, _, flow = method.partition(",")
                points = [r for r in result["rows"] if r["method"] == method and r["error"] < 1]
                axes.plot(
                    [1e6 * r["seconds"] for r in points],
                    [r["error"] for r in points],
                    label="" if flow else _TITLES.get(name, name),
                    color=found[name].colour,
                    ls=":" if flow else "-",
                    lw=0.8,
                    marker="*" if name == "learned" else found[name].marker,
                    mfc="white" if flow else None,
                    ms=(1.1 if name == "learned" else 0.4) * PAPER.letters,
                )
            axes.set(xscale="log", yscale="log")
            axes.set_title(result["case"], loc="left")
        for axes in panels[:, 0]:
            axes.set_ylabel("relative error")
        for axes in panels[-1]:
            axes.set_xlabel("microseconds a turn")
        readable_decades(panels[0, 0])
        handles: dict[str, Any] = {}
        for axes in panels.flat:
            for handle, title in zip(*axes.get_legend_handles_labels(), strict=True):
                handles.setdefault(title, handle)
        figure.legend(handles.values(), handles, loc="outside upper center", ncols=4)
        with replacing(path, True) as temporary:
            figure.savefig(temporary, format=path.suffix[1:], dpi=160)


def _together(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Smaller maps in the panels of the systems that they are of."""
    found = {r["case"]: r | {"rows": [*r["rows"]]} for r in results}
    for case in [case for case in found if case.removesuffix(CHEAP) in found.keys() - {case}]:
        learned = [row for row in found.pop(case)["rows"] if row["method"] == "learned"]
        found[case.removesuffix(CHEAP)]["rows"] += learned
    return [*found.values()]
