"""Order of positions and momenta in a state, by the names of the components."""

from __future__ import annotations

import re
from collections.abc import Sequence

from vpintegrator.errors import InputError

_POSITIONS = ("q", "x", "r", "position", "positions", "pos")
_MOMENTA = ("p", "pi", "momentum", "momenta", "mom")
_VELOCITIES = ("v", "velocity", "velocities", "vel")
_SURE = ("q", "position", "positions")


def conjugate_pairs(names: Sequence[str], velocities: bool = False) -> list[tuple[int, int]] | None:
    """Return the numbers of each position and its momentum; None where the names do not tell.

    Names such as ``q1, p1``, ``x, px``, ``theta, p_theta``, ``u, pi_u``,
    ``positions[0], momenta[0]`` tell, in any order.

    Parameters
    ----------
    names
        Names of all components.
    velocities
        Whether names such as ``x, vx`` are read so, too.

    Examples
    --------
    >>> conjugate_pairs(["x", "px", "y", "py"])
    [(0, 1), (2, 3)]
    >>> conjugate_pairs(["p1", "p2", "q1", "q2"])
    [(2, 0), (3, 1)]
    >>> conjugate_pairs(["theta", "omega"]) is None
    True
    """
    for words in (_MOMENTA, _VELOCITIES)[: 1 + velocities]:
        pairs = sorted(_partners(names, words))
        if names and sorted(k for pair in pairs for k in pair) == list(range(len(names))):
            return pairs
    return None


def canonical_order(names: Sequence[str], where: str) -> tuple[int, ...]:
    """Return the numbers of all positions and then of their momenta; empty where states are so.

    Where the names do not tell, positions come first.

    Raises
    ------
    InputError
        If some names contradict that order, but do not pair all components; it begins with
        ``where``.
    """
    half = len(names) // 2
    pairs = conjugate_pairs(names, velocities=True)
    if pairs is None:
        pairs = [(i, half + i) for i in range(half)]
        if not {*_partners(names, _MOMENTA)} <= {*pairs} or _is_contradicted(names):
            raise InputError(
                f"{where}: the names {', '.join(names[:12])} do not say which momentum belongs to "
                "which position; name them q1, p1 or x, px, or list the positions and then as many "
                "momenta"
            )
    order = tuple(k for side in zip(*pairs, strict=True) for k in side)
    return () if order == tuple(range(len(names))) else order


def _partners(names: Sequence[str], words: tuple[str, ...]) -> list[tuple[int, int]]:
    """Return the pairs that the names tell, perhaps not of all components."""
    plain = _plain(names)
    places = {name: k for k, name in enumerate(plain)}
    pairs = []
    for k, name in enumerate(plain):
        for word in words:
            if not name.lower().startswith(word):
                continue
            rest = name[len(word) :]
            listed = [f"{position}{rest}" for position in _POSITIONS]
            if name[0].isupper():
                listed = [*(each[0].upper() + each[1:] for each in listed), *listed]
            partners = [places[each] for each in (*listed, rest, rest.lower()) if each in places]
            if partners and partners[0] != k:
                pairs.append((partners[0], k))
                break
    split = [_split(name) for name in plain]
    bases = list(dict.fromkeys(base for base, _ in split))
    known = [base for base in bases if base.lower() in _MOMENTA]
    if not pairs and words is _MOMENTA and len(bases) == 2 and len(known) == 1:
        # theta and p, or theta1, theta2 and p1, p2
        momenta = {number: k for k, (base, number) in enumerate(split) if base == known[0]}
        others = [(k, number) for k, (base, number) in enumerate(split) if base != known[0]]
        pairs = [(k, momenta[number]) for k, number in others if number in momenta]
    return pairs


def _plain(names: Sequence[str]) -> list[str]:
    """Return names without underscores and brackets: px for p_x, q0 for q[0]."""
    return [re.sub(r"[_\[\]]", "", name) for name in names]


def _split(name: str) -> tuple[str, str]:
    """Return the letters of a name and the number at its end."""
    base = name.rstrip("0123456789")
    return base, name[len(base) :]


def _is_contradicted(names: Sequence[str]) -> bool:
    """Whether names contradict positions in the first half and momenta in the second.

    A name such as p1 in the first half does, one such as q1 in the second, and one letter in both
    halves, as in phi1, J1, phi2, J2.
    """
    half = len(names) // 2
    bases = [_split(name)[0].lower() for name in _plain(names)]
    first = {*bases[:half]}
    second = {*bases[half:]}
    if len(first | second) == 1:
        return False
    return bool(first & {*_MOMENTA} or second & {*_SURE} or first & second)
