"""A caption for every figure: what is drawn, and the numbers that a reader will ask for.

They are written as plain text with numbers like ``1.2e-05``; LaTeX gets the same words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from vpintegrator.errors import printable
from vpintegrator.plotting.coordinates import COMPONENTS, stretches
from vpintegrator.plotting.errors import has_errors
from vpintegrator.plotting.fates import time_of_stretches
from vpintegrator.plotting.latex import label, latex
from vpintegrator.plotting.names import grouped
from vpintegrator.plotting.orbits import ORBITS, points_shown
from vpintegrator.plotting.overview import portraits_shown
from vpintegrator.plotting.phase import pairs_drawn, portrait_kind
from vpintegrator.plotting.plane import PROJECTED, planes_of
from vpintegrator.plotting.poincare import POINTS, plane_of_section
from vpintegrator.plotting.scene import Scene
from vpintegrator.plotting.series import SMALLEST
from vpintegrator.plotting.tables import departures, duration, markdown
from vpintegrator.plotting.volume import volumes_measured
from vpintegrator.plotting.work_precision import fitted_order

_COLUMN = 4.0  # inches: wider figures span both columns
_PAGE, _LEAST = 0.88, 0.3  # of a page's height: for figure and caption, at least for a figure
_LETTERS = 3800  # of a caption that would fill a page of one column
_LISTED = 8  # methods whose numbers a caption gives one by one
_INVARIANT_CURVES = "largest change of the invariants on any orbit up to each time"


def markdown_captions(scene: Scene, figures: Sequence[str]) -> str:
    """The captions of a rollout's figures, each under its figure's name."""
    return markdown_paragraphs({name: caption(scene, name) for name in figures})


def latex_captions(
    scene: Scene,
    figures: Sequence[str],
    as_pgf: bool = False,
    widths: Mapping[str, float] | None = None,
) -> str:
    """A rollout's figures with their captions, as :func:`latex_environments`."""
    texts = {name: caption(scene, name) for name in figures}
    widths = dict.fromkeys(figures, scene.style.wide) | dict(widths or {})
    return latex_environments(texts, scene.system.name, widths, as_pgf=as_pgf)


def markdown_paragraphs(texts: Mapping[str, str]) -> str:
    """Captions, each under its figure's name."""
    return "\n".join(f"## {name}\n\n{markdown(text)}\n" for name, text in texts.items())


def latex_environments(
    texts: Mapping[str, str],
    subject: str,
    widths: Mapping[str, float],
    heights: Mapping[str, float] | None = None,
    as_pgf: bool = False,
) -> str:
    """Figures with their captions, as environments to copy from, labelled by their ``subject``.

    A figure wider than a column, by its width in inches, stands in ``figure*``, which spans both
    columns where there are two; it is scaled to the width of its environment, or to what its
    caption leaves of the height of the page. PGF needs the ``heights`` for that.
    """
    blocks = []
    for name, text in texts.items():
        environment = "figure*" if widths[name] > _COLUMN else "figure"
        share = max(_PAGE - len(text) / _LETTERS, _LEAST)
        drawing = (
            rf"\includegraphics[width=\linewidth,height={share:.2f}\textheight,keepaspectratio]"
            f"{{{name}}}"
        )
        if as_pgf:
            width = r"\linewidth"
            if heights is not None:  # TeX takes the lesser of two widths
                tall = rf"{share * widths[name] / heights[name]:.2f}\textheight"
                width = rf"\ifdim{tall}<\linewidth {tall}\else\linewidth\fi"
            drawing = rf"\resizebox{{{width}}}{{!}}{{\input{{{name}.pgf}}}}"
        blocks.append(
            "\n".join(
                [
                    rf"\begin{{{environment}}}",
                    r"  \centering",
                    f"  {drawing}",
                    rf"  \caption{{{latex(text)}}}",
                    rf"  \label{{fig:{label(f'{subject} {name}')}}}",
                    rf"\end{{{environment}}}",
                    "",
                ]
            )
        )
    packages = [r"\usepackage{graphicx}", *([r"\usepackage{pgf}"] if as_pgf else [])]
    return "".join(f"% {line}\n" for line in packages) + "\n" + "\n".join(blocks)


def caption(scene: Scene, figure: str) -> str:
    """One paragraph about a figure, named as in :data:`vpintegrator.plotting.draw.FIGURES`."""
    parts: dict[str, Callable[[Scene], Iterable[str]]] = {
        "overview": _overview,
        "phase": _phase,
        "coordinates": _coordinates,
        "errors": _errors,
        "invariants": _invariants,
        "volume": _volume,
        "poincare": _poincare,
        "work-precision": _work_precision,
    }
    return printable(" ".join([_setting(scene), *parts[figure](scene)]))


# ---------------------------------------------------------------- what all captions say


def _setting(scene: Scene) -> str:
    report = scene.report
    count = len(report.reference)
    states = "an initial state" if count == 1 else "initial states"
    origin = f"{states} given" if report.seed is None else f"random {states} (seed {report.seed})"
    if count == 1:
        origin = origin.replace("random an", "a random")
    stored = f", one in {grouped(report.every)} stored" if report.every > 1 else ""
    steps = round(report.times[-1] / report.step)
    return (
        f"{report.system.title}: {count} {_orbits(count)} from {origin} to t = "
        f"{grouped(report.times[-1])} with step {report.step:g} ({grouped(steps)} steps{stored})."
    )


def _methods(scene: Scene) -> str:
    parts = []
    for run in scene.runs.values():
        if run.kind == "learned":
            window = f", windows of {run.window} states" if run.window > 1 else ""
            parts.append(f"{run.title} (learned{window})")
        else:
            order = "" if run.order is None else f" (order {run.order})"
            parts.append(f"{run.title}{order}")
    return f"Methods: {_list(parts)}."


def _reference(scene: Scene) -> str:
    report = scene.report
    end = ""
    if report.reference_time == 0:
        return "There is no reference."
    if report.reference_time < report.times[-1]:
        end = f" and ends at t = {grouped(report.reference_time)}"
    if report.is_reference_given:
        return f"The reference is made of the states given{end}."
    return f"The reference is accurate to about {report.reference_error.max():.0e}{end}."


def _divergence(scene: Scene, mark: str = "") -> list[str]:
    report = scene.report
    failed = [name for name in scene.runs if report.diverged(name)]
    left = departures(scene.runs.values())
    if not failed:
        return left
    parts = [
        f"{scene.runs[name].title} on {report.diverged(name)} of "
        f"{len(report.reference)} orbits, first at t = "
        f"{scene.first_failure(name):.4g}"
        for name in failed
    ]
    return [f"Diverged{mark}: {'; '.join(parts)}.", *left]


def _by_method(
    scene: Scene,
    values: Mapping[str, float],
    form: Callable[[float], str] | Mapping[str, str] | None = None,
) -> str:
    """``1.0e-03 (RK4) and 2.0e-05 (vpt)``; of many methods, the smallest and the largest.

    ``form`` gives the text of a value, or the texts by method.
    """
    form = form or _size
    texts = {name: form(value) for name, value in values.items()} if callable(form) else form
    parts = {name: f"{texts[name]} ({scene.runs[name].title})" for name in values}
    if len(parts) <= _LISTED:
        return _list(list(parts.values()))
    least = min(values, key=lambda name: abs(values[name]))
    most = max(values, key=lambda name: abs(values[name]))
    return f"from {parts[least]} to {parts[most]}, all of them in the table"


# ---------------------------------------------------------------- one function a figure


def _overview(scene: Scene) -> list[str]:
    names = [scene.runs[name].title for name in portraits_shown(scene)]
    first = next(iter(scene.system.invariants), None)
    return [
        f"Above: {_fates(scene)} of {_list(names)}.",
        *([f"Below: {_error_curves(scene)}."] if has_errors(scene) else []),
        *_error_numbers(scene),
        *([] if first is None else [f"{_capital(_INVARIANT_CURVES)}.", _invariant(scene, first)]),
        *(text for kind in volumes_measured(scene) for text in _volume_numbers(scene, kind)),
        *_closing(
            scene,
            _errors_drawn(scene),
            *([] if first is None else [_invariant_drawn(scene, first)]),
        ),
    ]


def _fates(scene: Scene) -> str:
    """What the portraits of an overview show."""
    name = portraits_shown(scene)[0]
    span = (
        f"pale to t = {time_of_stretches(scene, name)}, in full colour at the end or before it "
        f"diverges{', with the reference in grey at these times' if scene.referenced else ''}"
        f"{_long_steps(scene)}"
    )
    if len(scene.report.reference) == 1:
        return f"the orbit ({span})"
    by = "error" if has_errors(scene) else "change of the first invariant"
    return f"an orbit of median {by} and, below, the worst one ({span})"


def _phase(scene: Scene) -> list[str]:
    kind = portrait_kind(scene)
    words = _portraits(scene)
    if kind == "plane":
        pairs = [f"({scene.coordinates[i]}, {scene.coordinates[j]})" for i, j in pairs_drawn(scene)]
        every = planes_of(scene.system)
        of = "" if len(pairs) == len(every) else f" of {len(every)} such planes"
        words += f"; planes {_list(pairs)}{of}" if len(every) > 1 else ""
    return [f"Phase portraits: {words}.", _methods(scene), *_divergence(scene), _reference(scene)]


def _portraits(scene: Scene) -> str:
    """What the portraits show, and what they leave out."""
    kind, report = portrait_kind(scene), scene.report
    stored = len(report.times)
    orbits = min(len(report.reference), ORBITS)
    points = points_shown(stored, scene.dots)
    if kind == "plane" and len(scene.components) > 2:
        orbits, points = 1, points if scene.dots else min(stored, PROJECTED)
    which = "all orbits" if orbits == len(report.reference) else f"the first {orbits} orbits"
    if orbits == 1:
        which = "the first orbit" if len(report.reference) > 1 else "the orbit"
    if scene.dots:
        how = f"{points} states of each as dots, as states are stored {_gap(scene)} apart"
    elif points < stored:
        how = f"to t = {grouped(report.times[points - 1])}"
    else:
        how = "at all times"
    how += _long_steps(scene)
    tail = {
        "sphere": "the far side of the sphere is drawn faint, and what leaves the sphere's "
        "neighbourhood is not drawn",
        "space": "what leaves the box is not drawn",
        "plane": "the reference lies below in grey",
    }[kind]
    if kind == "plane" and not scene.referenced:
        return f"{which}, {how}"
    return f"{which}, {how}; {tail}"


def _long_steps(scene: Scene, comma: str = ";") -> str:
    """What is drawn where there are few steps a turn."""
    if scene.pieces == 1:
        return ""
    return (
        f"{comma} methods as dots, a step apart, and between the reference's states a curve "
        "(quintic Hermite interpolation)"
    )


def _coordinates(scene: Scene) -> list[str]:
    parts, times = stretches(scene), scene.report.times
    spans = [f"from t = {grouped(times[part][0])} to {grouped(times[part][-1])}" for part in parts]
    shown = min(len(scene.components), COMPONENTS)
    which = "Components" if shown == len(scene.components) else f"The first {shown} components"
    dots = " as dots, at the stored times" if scene.dots else _long_steps(scene, ",")
    return [
        f"{which} of the first orbit{dots}, {' and '.join(spans)}"
        f"{'; the reference in grey' if scene.referenced else ''}. A method is drawn until it has "
        "left the axes.",
        _methods(scene),
        *_divergence(scene),
        _reference(scene),
    ]


def _errors(scene: Scene) -> list[str]:
    curves = _capital(_error_curves(scene))
    return [f"{curves}.", *_error_numbers(scene), *_closing(scene, _errors_drawn(scene))]


def _error_curves(scene: Scene) -> str:
    band = ", in a band from the smallest to the largest" if scene.bands else ""
    if len(scene.report.reference) == 1:
        return "distance from the reference"
    return f"distance from the reference, the median over the orbits{band}"


def _error_numbers(scene: Scene) -> list[str]:
    report = scene.report
    largest, final, failure = {}, {}, {}
    for name in scene.runs:
        if not report.is_compared(name):
            continue
        summary = report.summary(name)
        known = report.errors(name)[:, : report.reference.shape[1]]
        largest[name] = float(np.nanmax(known, initial=0.0))
        if not np.isnan(summary.final_error):  # the reference is known at its end
            final[name] = summary.final_error
        if np.isfinite(summary.threshold_time):
            failure[name] = summary.threshold_time
    if not largest:
        return []
    sentences = [f"Largest error of any orbit: {_by_method(scene, largest)}."]
    if final:
        end = grouped(report.reference_time)
        sentences.append(f"Median over the orbits at t = {end}: {_by_method(scene, final)}.")
    line = (
        f"An error of {report.threshold:.2g} (dotted line) counts as failure; half of the orbits "
    )
    if failure:
        sentences.append(f"{line}have reached it by t = {_by_method(scene, failure, _time)}.")
    else:
        sentences.append(f"{line}reach it with no method.")
    return sentences


def _invariants(scene: Scene) -> list[str]:
    names = list(scene.system.invariants)
    return [
        f"{_capital(_INVARIANT_CURVES)}.",
        *(_invariant(scene, name) for name in names),
        "Drift: the slope of a straight line fitted to the error at every step, with its standard "
        "error; the largest over the orbits.",
        *_closing(scene, *(_invariant_drawn(scene, name) for name in names)),
    ]


def _invariant(scene: Scene, invariant: str) -> str:
    largest, drift, rates, kinds = {}, {}, {}, set()
    for name in scene.runs:
        summary = scene.report.summary(name)
        kinds.add(summary.invariant_kinds[invariant])
        largest[name] = summary.invariants[invariant]
        slope = summary.drifts[invariant]
        if np.isfinite(slope) and not summary.diverged:
            drift[name] = slope
            rates[name] = f"{slope:+.1e} ± {summary.drift_errors[invariant]:.0e}"
    kind = kinds.pop() if len(kinds) == 1 else "mixed"
    kind = {"mixed": "relative, or absolute on orbits where it vanishes"}.get(kind, kind)
    drifts = f"; drift per unit of time {_by_method(scene, drift, rates)}" if drift else ""
    return f"{_capital(scene.labels[invariant])} ({kind}): {_by_method(scene, largest)}{drifts}."


def _volume(scene: Scene) -> list[str]:
    kinds = volumes_measured(scene)
    return [
        *(sentence for kind in kinds for sentence in _volume_numbers(scene, kind)),
        *_closing(scene, *(_volume_drawn(scene, kind) for kind in kinds)),
    ]


def _volume_numbers(scene: Scene, kind: str) -> list[str]:
    runs = scene.runs
    measured = {
        name: run.volume[kind].largest or 0.0
        for name, run in runs.items()
        if kind in run.volume and run.volume[kind].largest is not None
    }
    if not measured:
        return []
    orbits = max(len(runs[name].volume[kind].log_determinant) for name in measured)
    times = max((runs[name].volume[kind].times for name in measured), key=len)
    if kind == "step":
        what = "Volume error of the map, |log|det|| of the derivative of one step"
        windows = [f"{runs[n].title}: {runs[n].window}" for n in measured if runs[n].window > 1]
        what += f" (of a map of windows for {_list(windows)} states)" if windows else ""
    else:
        what = "Volume error of phase space, |log|det|| of the derivative of the map z_0 → z_t"
        if any(runs[name].window > 1 for name in measured):
            what += " (through the first window of a model that reads windows)"
    missing = [run.title for name, run in runs.items() if name not in measured]
    left = f"; not defined or not measured for {_list(missing)}" if missing else ""
    return [
        f"{what}, the largest over {orbits} {_orbits(orbits)} at {len(times)} times to "
        f"t = {grouped(times[-1])}: {_by_method(scene, measured, _volume_size)}{left}."
    ]


def _poincare(scene: Scene) -> list[str]:
    plane, pair = scene.report.section_plane, plane_of_section(scene)
    assert plane is not None
    assert pair is not None
    component, value, direction = plane
    counts = {
        name: len(run.section.points) for name, run in scene.runs.items() if run.section is not None
    }
    way = {1: ", crossed upwards", -1: ", crossed downwards"}.get(int(direction), "")
    axes = [scene.components[k] for k in pair]
    many = any(count > POINTS for count in counts.values())
    thin = f"; at most {POINTS} of them are drawn, evenly chosen" if many else ""
    return [
        f"Poincare section {component} = {value:g}{way}, in the plane ({', '.join(axes)}); each "
        "orbit in a colour of its own, the same in all panels. Number of points: "
        f"{_by_method(scene, counts, str)}{thin}.",
        *_divergence(scene),
    ]


def _work_precision(scene: Scene) -> list[str]:
    studies = scene.report.work_precision
    orders, least, cost = {}, {}, {}
    for name, study in studies.items():
        order = fitted_order(study)
        if order is not None:
            orders[name] = order
        known = study.error[np.isfinite(study.error)]
        if known.size:
            least[name] = float(known.min())
            cost[name] = float(study.seconds[np.nanargmin(study.error)])
    steps = np.concatenate([np.atleast_1d(study.step) for study in studies.values()])
    sentences = [
        f"Error at the end of a short run against its cost, per unit of simulated time and orbit, "
        f"for steps from {steps.min():.3g} to {steps.max():.3g}; dotted: slopes of whole orders.",
        f"Least error: {_by_method(scene, least)}, for {_by_method(scene, cost, duration)}.",
    ]
    if orders:
        sentences.append(f"Fitted orders, as in the legend: {_by_method(scene, orders, _order)}.")
    return sentences


# ---------------------------------------------------------------- words and numbers


def _closing(scene: Scene, *drawn: Iterator[np.ndarray]) -> list[str]:
    """Methods, divergences, zeros on the curves of what is drawn, and the reference."""
    zeros = any((curve == 0).any() for curves in drawn for curve in curves)
    floor = [f"Exact zeros are drawn at {SMALLEST:.0e}."] if zeros else []
    return [_methods(scene), *_divergence(scene, " (crosses)"), *floor, _reference(scene)]


def _errors_drawn(scene: Scene) -> Iterator[np.ndarray]:
    """The numbers behind the curves of the errors."""
    for name, run in scene.runs.items():
        with np.errstate(all="ignore"):
            known = run.error[:, scene.start[name] :]
            yield np.nanmedian(known[:, ~np.isnan(known).all(axis=0)], axis=0)


def _invariant_drawn(scene: Scene, invariant: str) -> Iterator[np.ndarray]:
    """The numbers behind the curves of an invariant."""
    for name, run in scene.runs.items():
        start = scene.start[name]
        yield np.abs(run.invariants[invariant].error[:, : start + 1]).max(axis=0)[start:]


def _volume_drawn(scene: Scene, kind: str) -> Iterator[np.ndarray]:
    """The numbers behind the curves of a volume."""
    for run in scene.runs.values():
        if kind in run.volume:
            yield np.abs(run.volume[kind].log_determinant).max(axis=0)


def _capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


def _size(value: float) -> str:
    return f"{value:.1e}" if np.isfinite(value) else "diverged"


def _volume_size(value: float) -> str:
    return f"{value:.1e}" if np.isfinite(value) else "collapsed"


def _time(value: float) -> str:
    return f"{value:.4g}"


def _order(value: float) -> str:
    return f"{value:.2f}"


def _gap(scene: Scene) -> str:
    return f"{scene.report.every * scene.report.step:g} in time"


def _orbits(count: int) -> str:
    return "orbit" if count == 1 else "orbits"


def _list(parts: Sequence[str]) -> str:
    """``a, b and c``."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else "".join(parts)
