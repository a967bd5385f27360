"""Coordinate splitting, and compositions with its adjoint of higher order.

A composition has the same order for coordinate splitting, of any number of parts, as it has for a
splitting of the vector field in two (McLachlan, SIAM J. Sci. Comput. 16 (1995) 151-168;
Hairer, Lubich, Wanner, Geometric Numerical Integration, section III.3). All compositions here are
palindromes, so they are symmetric, and keep what coordinate splitting keeps: volume, and on
separable Hamiltonian systems symplecticity.
"""

from __future__ import annotations

from vpintegrator.dynamics.compositions import FACTORS
from vpintegrator.rollout.classical.splitting import CoordinateSplitting

# title, order and source of each; Yoshida's own solutions of his equations of order 8 have error
# constants larger by far than the one here
_COMPOSITIONS = {
    "coordinate-splitting": (
        "Coordinate splitting",
        1,
        "McLachlan and Quispel, Acta Numerica 11 (2002) 341-434, on splitting methods",
    ),
    "strang-splitting": (
        "Strang splitting",
        2,
        "Strang, SIAM J. Numer. Anal. 5 (1968) 506-517; of coordinate splitting and its adjoint",
    ),
    "yoshida-4": (
        "Yoshida 4",
        4,
        "Yoshida, Phys. Lett. A 150 (1990) 262-268, the triple jump: 3 Strang splittings; also "
        "Suzuki, Phys. Lett. A 146 (1990) 319-323",
    ),
    "yoshida-6": (
        "Yoshida 6",
        6,
        "Yoshida, Phys. Lett. A 150 (1990) 262-268, table 1, solution A: 7 Strang splittings",
    ),
    "yoshida-8": (
        "Yoshida 8",
        8,
        "15 Strang splittings; Yoshida's equations, Phys. Lett. A 150 (1990) 262-268, in the "
        "solution of Suzuki and Umeno (1993) and McLachlan (1995): Hairer, Lubich, Wanner, "
        "Geometric Numerical Integration, section V.3.2",
    ),
    "blanes-moan-4": (
        "Blanes–Moan 4",
        4,
        "Blanes and Moan, J. Comput. Appl. Math. 142 (2002) 313-330, S_6 of order 4",
    ),
    "blanes-moan-6": (
        "Blanes–Moan 6",
        6,
        "Blanes and Moan, J. Comput. Appl. Math. 142 (2002) 313-330, S_10 of order 6",
    ),
}

METHODS = [
    CoordinateSplitting(
        name=name,
        title=title,
        order=order,
        symmetric=order > 1,
        source=source,
        factors=FACTORS[name],
    )
    for name, (title, order, source) in _COMPOSITIONS.items()
]
