"""Arguments that say which bodies a state is of, and which symmetries they have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from vpintegrator.arguments import plain
from vpintegrator.errors import InputError
from vpintegrator.models.arguments import FunctionArguments, ReversibleArguments, argument
from vpintegrator.nn.clusters import TOPOLOGIES


@dataclass(frozen=True, kw_only=True)
class SymmetriesOfBodies(ReversibleArguments):
    """Arguments of models whose functions are sums over clusters of bodies."""

    bodies: int = argument(
        0,
        "How many bodies a state is of, with the vectors of one after the other in q and in p; 0 "
        "where a state is taken as a whole. The weights do not know the number, see "
        "``vpintegrator.models.with_bodies``.",
        least=0,
        omitted=True,
    )
    topology: str = argument(
        "",
        "Which bodies form clusters that are alike: any (pairs), or neighbours along a ring, a "
        "chain with free ends or one between walls; none given, any two, and none are alike.",
        choices=["", *TOPOLOGIES],
        omitted=True,
    )
    species: Any = argument(
        (),
        "A number for each body, equal for like ones; by default all are alike.",
        kind="sequence of int",
        omitted=True,
    )
    translations: bool = argument(
        False,
        "Whether potentials see differences of positions only: total momentum is constant.",
        omitted=True,
    )
    rotations: bool = argument(
        False,
        "Whether potentials see lengths and inner products only: angular momentum is constant.",
        omitted=True,
    )
    reach: int = argument(
        2,
        "Neighbours along a ring or chain that a cluster of positions reaches to.",
        least=1,
        omitted=True,
    )
    lengths: str = argument(
        "logarithms",
        "What potentials of positions see of a length, for rotations: its logarithm, in which "
        "powers are smooth, or its square, smooth where it is zero.",
        choices=["logarithms", "squares"],
        omitted=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        species = self.species if isinstance(self.species, Sequence) else [self.species]
        self._set("species", tuple(plain("a species", kind, (int,)) for kind in species))
        if not self.bodies:
            for name in ("topology", "species", "translations", "rotations"):
                if getattr(self, name):
                    raise InputError(f"{name} is of bodies: say how many there are by bodies")
            return
        if self.conserved:
            raise InputError(
                "functions of clusters of bodies read no conserved components; leave out bodies"
            )
        if self.dim % (2 * self.bodies):
            raise InputError(
                f"a state of {self.dim} components is not of {self.bodies} bodies with equally "
                "many positions as momenta"
            )
        if self.species and len(self.species) != self.bodies:
            raise InputError(
                f"species must name that of each of {self.bodies} bodies, not of "
                f"{len(self.species)}"
            )
        if self.translations and self.topology == "walls":
            raise InputError("between walls there are no translations; leave them out")
        if self.translations and self.bodies == 1:
            raise InputError("a single body has no symmetry of translations but where it is free")
        if getattr(self, "expressions", ()) or self.periods:
            raise InputError(
                "functions of clusters of bodies take no expressions and no angles; leave out "
                "bodies, or these"
            )

    @property
    def species_of_each(self) -> Sequence[int]:
        """A number for each body; without a topology none are alike."""
        return self.species or [0] * self.bodies if self.topology else range(self.bodies)

    @property
    def vector(self) -> int:
        """Components of a body's vector."""
        return self.dim // 2 // self.bodies

    @property
    def orders(self) -> range:
        """Bodies of the largest clusters, and of all smaller ones: 1, 2, ..."""
        return range(1, 1 + min(self.bodies, 2 if self.pairs_alone else self.reach + 1))

    @property
    def pairs_alone(self) -> bool:
        """Whether bodies have no neighbours, so that clusters are single ones and pairs."""
        return self.topology in ("", "pairs")


@dataclass(frozen=True, kw_only=True)
class BodyArguments(SymmetriesOfBodies, FunctionArguments):
    """Arguments of models whose couplings are sums over clusters of bodies."""

    bounded: bool = argument(
        False,
        "Whether what potentials see levels off beyond the range of the training states, so that "
        "polynomials do not run off where bodies meet more closely than they ever did there.",
        omitted=True,
    )
