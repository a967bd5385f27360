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

COORDINATE_SPLITTING = CoordinateSplitting(
    name="coordinate-splitting",
    title="Coordinate splitting",
    order=1,
    source="McLachlan and Quispel, Acta Numerica 11 (2002) 341-434, on splitting methods",
    factors=FACTORS["coordinate-splitting"],
)
STRANG_SPLITTING = CoordinateSplitting(
    name="strang-splitting",
    title="Strang splitting",
    order=2,
    symmetric=True,
    source="Strang, SIAM J. Numer. Anal. 5 (1968) 506-517; of coordinate splitting and its adjoint",
    factors=FACTORS["strang-splitting"],
)
YOSHIDA_4 = CoordinateSplitting(
    name="yoshida-4",
    title="Yoshida 4",
    order=4,
    symmetric=True,
    source="Yoshida, Phys. Lett. A 150 (1990) 262-268, the triple jump: 3 Strang splittings; also "
    "Suzuki, Phys. Lett. A 146 (1990) 319-323",
    factors=FACTORS["yoshida-4"],
)
YOSHIDA_6 = CoordinateSplitting(
    name="yoshida-6",
    title="Yoshida 6",
    order=6,
    symmetric=True,
    source="Yoshida, Phys. Lett. A 150 (1990) 262-268, table 1, solution A: 7 Strang splittings",
    factors=FACTORS["yoshida-6"],
)
# Yoshida's own five solutions of these equations have error constants larger by far
YOSHIDA_8 = CoordinateSplitting(
    name="yoshida-8",
    title="Yoshida 8",
    order=8,
    symmetric=True,
    source="15 Strang splittings; Yoshida's equations, Phys. Lett. A 150 (1990) 262-268, in the "
    "solution of Suzuki and Umeno (1993) and McLachlan (1995): Hairer, Lubich, Wanner, Geometric "
    "Numerical Integration, section V.3.2",
    factors=FACTORS["yoshida-8"],
)
BLANES_MOAN_4 = CoordinateSplitting(
    name="blanes-moan-4",
    title="Blanes–Moan 4",
    order=4,
    symmetric=True,
    source="Blanes and Moan, J. Comput. Appl. Math. 142 (2002) 313-330, S_6 of order 4",
    factors=FACTORS["blanes-moan-4"],
)
BLANES_MOAN_6 = CoordinateSplitting(
    name="blanes-moan-6",
    title="Blanes–Moan 6",
    order=6,
    symmetric=True,
    source="Blanes and Moan, J. Comput. Appl. Math. 142 (2002) 313-330, S_10 of order 6",
    factors=FACTORS["blanes-moan-6"],
)
