"""Cells of a table: numbers in international formats, dates, names with units."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

from vpintegrator.errors import InputError

_MISSING = ("", "na", "n/a", "#n/a", "nan", "null", "none", "-", "--")
_COMMA = re.compile(r"[+-]?(\d+,\d*|,\d+)(e[+-]?\d+)?", re.IGNORECASE)
_FORTRAN = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)d[+-]?\d+", re.IGNORECASE)  # 1.5D-03
_DATE = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:?\d\d.*)?")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)  # noqa: UP017 - the same, and shorter
_MICROSECOND = timedelta(microseconds=1)
# units that xarray would decode as a length of time become the unit's symbol
_SYMBOLS = {
    "second": "s",
    "sec": "s",
    "millisecond": "ms",
    "msec": "ms",
    "microsecond": "us",
    "nanosecond": "ns",
    "minute": "min",
    "hour": "h",
    "day": "d",
}
# units that are written as a part of the name: time_ms, angle_deg, rate_rad_s
_TIME_UNIT = re.compile(r"(t|times?|timestamp)_(s|secs?|seconds?|ms|us|ns|min|h)", re.IGNORECASE)
_ANGLE_UNIT = re.compile(r"(\w+?)_(deg|rad)(?:rees?|ians?)?(_?(?:per_)?s(?:ec)?)?", re.IGNORECASE)


class Numbers:
    """Reads the cells of one table, whose decimal mark is the same everywhere.

    Parameters
    ----------
    decimal
        ``"."`` or ``","``; None to take the first mark that occurs.

    Raises
    ------
    InputError
        If the mark is another.

    Attributes
    ----------
    decimal
        The mark, once one has occurred.
    """

    def __init__(self, decimal: str | None) -> None:
        if decimal not in (None, ".", ","):
            raise InputError(f"the decimal mark is '.' or ',', not '{decimal}'")
        self.decimal = decimal

    def read(self, text: str, where: str) -> float:
        """Return a number, NaN where none stands.

        Raises
        ------
        InputError
            If the text is neither.
        """
        if text.lower() in _MISSING:
            return float("nan")
        if "," in text:
            if self.decimal != "." and _COMMA.fullmatch(text):
                self.decimal = ","
                return float(text.replace(",", "."))
        elif self.decimal != "," or "." not in text:
            if self.decimal is None and "." in text:
                self.decimal = "."
            try:
                return float(_plain(text))
            except ValueError:
                pass
        mark = {".": ",", ",": "."}.get(self.decimal or "")
        advice = ""
        if mark is not None and mark in text and is_number(text):
            advice = f" where '{self.decimal}' is the decimal mark; --decimal says which one it is"
        raise InputError(f"{where}: '{text}' is not a number{advice}")


def _plain(text: str) -> str:
    return re.sub("[dD]", "e", text) if _FORTRAN.fullmatch(text) else text


def is_missing(text: str) -> bool:
    """Whether a cell says that nothing was measured."""
    return text.lower() in _MISSING


def is_number(text: str) -> bool:
    """Whether a cell is a number, with whatever decimal mark."""
    try:
        float(_plain(text.replace(",", ".") if _COMMA.fullmatch(text) else text))
    except ValueError:
        return False
    return not is_missing(text)


def is_date(text: str) -> bool:
    """Whether a cell is a date as of ISO 8601."""
    return _DATE.fullmatch(text) is not None


def read_date(text: str, where: str) -> float:
    """Microseconds since 1970, which float64 holds exactly; in UTC where no zone is given.

    Raises
    ------
    InputError
        If there is no such date.
    """
    try:
        found = datetime.fromisoformat(text)
        found = found if found.tzinfo else found.replace(tzinfo=_EPOCH.tzinfo)
        return float((found - _EPOCH) // _MICROSECOND)
    except (ValueError, OverflowError):
        raise InputError(
            f"{where}: '{text}' is not a time as of ISO 8601, such as 2026-05-01T12:00:00.5"
        ) from None


def split_unit(name: str) -> tuple[str, str]:
    """The name of a column and its unit: of ``x [m]``, ``x (m)``, ``x/m``, ``t_ms`` or ``q_deg``.

    Examples
    --------
    >>> split_unit("time_s"), split_unit("angle_deg"), split_unit("rate_deg_per_s")
    (('time', 's'), ('angle', 'deg'), ('rate', 'deg/s'))
    >>> split_unit("v / (m/s)"), split_unit("time [seconds]"), split_unit("dq/dt")
    (('v', 'm/s'), ('time', 's'), ('dq/dt', ''))
    """
    angle = _ANGLE_UNIT.fullmatch(name.strip())
    if angle is not None:
        return angle[1], angle[2].lower() + ("/s" if angle[3] else "")
    found = _TIME_UNIT.fullmatch(name.strip()) or re.fullmatch(r"(.*?)[\[(]([^\[\]()]*)[\])]", name)
    if found is None or found[1].rstrip().endswith("/"):
        found = re.fullmatch(r"(\w+)\s*/\s*\(?([^()]+)\)?", name)
        if found is not None and re.fullmatch(r"d\w+\s*/\s*d\w", name):  # a derivative
            found = None
    if found is None or not found[1].strip():
        return name, ""
    unit = " ".join(found[2].split())
    word = unit.lower()
    return found[1].strip(), _SYMBOLS.get(word, _SYMBOLS.get(word.removesuffix("s"), unit))


def plain_name(name: str) -> str:
    """Return a column's name without its unit, and with letters, digits and _ only."""
    name = re.sub(r"[\[(].*", "", split_unit(name)[0])
    return re.sub(r"\W+", "_", name.strip()).strip("_")
