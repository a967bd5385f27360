"""Rich display outside of notebooks, for other pages."""

from __future__ import annotations

from typing import Any

from vpintegrator.errors import InputError
from vpintegrator.rich_display import RichDisplay


def html(thing: Any) -> str:
    """Return the HTML that a notebook shows of a report.

    Parameters
    ----------
    thing
        The report.

    Returns
    -------
    str
        A ``div`` that contains the figures as PNG and no scripts.

    Raises
    ------
    InputError
        If it is no report.

    Examples
    --------
    >>> report = vp.compare(None, "rk4", system="pendulum", steps=5, trajectories=1)
    >>> "median RMSE" in vp.notebook.html(report)
    True
    """
    return _written(thing, "html")


def markdown(thing: Any) -> str:
    """Return the Markdown that a notebook shows of a system, with LaTeX between dollars.

    Parameters
    ----------
    thing
        The system.

    Raises
    ------
    InputError
        If it is no system.

    Examples
    --------
    >>> text = vp.notebook.markdown(vp.load_system("pendulum"))
    >>> "\\\\frac{\\\\partial H}" in text or "\\\\dot{q}" in text
    True
    """
    return _written(thing, "markdown")


def _written(thing: Any, name: str) -> str:
    text = thing.in_format(name) if isinstance(thing, RichDisplay) else None
    if text is None:
        raise InputError(f"nothing is known of how to show a {type(thing).__name__} as {name}")
    return text
