"""Derivatives of scalar graphs, as further nodes of the same graph.

Backwards, from few results to many weights: reverse mode, the adjoint method (Griewank and Walther,
Evaluating Derivatives, 2nd ed., 2008, chapter 3).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from vpintegrator.compiled.scalar_graph import FUNCTIONS, ScalarGraph, less_than_one, reciprocal


def adjoints(
    graph: ScalarGraph, seeds: Iterable[tuple[int, int]], wanted: Iterable[int]
) -> list[int]:
    """Return the derivatives of sum_i seed_i result_i with respect to some nodes.

    Parameters
    ----------
    graph
        The graph, to which they are added.
    seeds
        Pairs of the nodes of result_i and seed_i.
    wanted
        The nodes, each taken as a variable of its own: nothing is passed on through it.

    Returns
    -------
    list of int
        A node each.
    """
    wanted, first = list(wanted), len(graph.nodes)
    ends = set(wanted)
    active = leads_to(graph, ends)
    known: dict[int, int] = defaultdict(lambda: graph.constant(0.0))
    for result, seed in seeds:
        known[result] = graph.add(known[result], seed)
    # arguments stand before what is made of them
    for n in reversed(range(first)):
        if not active[n] or n not in known or n in ends or graph.value(known[n]) == 0:
            continue
        for argument, factor in partial_derivatives(graph, n):
            if active[argument]:
                known[argument] = graph.add(known[argument], graph.mul(known[n], factor))
    return [known[n] for n in wanted]


def partial_derivatives(graph: ScalarGraph, n: int) -> Iterator[tuple[int, int]]:
    """Yield the arguments of a node, each with the derivative with respect to it."""
    operation, *arguments = graph.nodes[n]
    if operation in _OF_ONE:
        yield arguments[0], _OF_ONE[operation](graph, n, arguments[0])
    elif operation in _OF_TWO:
        a, b = arguments
        yield from zip((a, b), _OF_TWO[operation](graph, n, a, b), strict=True)
    elif operation == "power":
        yield from _of_power(graph, n, *arguments)
    elif operation == "where":
        choice, a, b = arguments
        yield from ((a, choice), (b, less_than_one(graph, choice)))
    # the derivatives of "greater", "equal", "bound" and "fixed" are zero


# derivatives of a node n with the argument a, beside those of ``FUNCTIONS``
_OF_ONE: dict[str, Callable[[ScalarGraph, int, int], int]] = {
    "negative": lambda g, n, a: g.constant(-1.0),
    "absolute": lambda g, n, a: g.sub(g.greater(a, g.constant(0.0)), g.greater(g.constant(0.0), a)),
    **{name: function.slope for name, function in FUNCTIONS.items()},
}


def _of_quotient(g: ScalarGraph, n: int, a: int, b: int) -> tuple[int, int]:
    inverse = reciprocal(g, b)
    return inverse, g.negative(g.mul(n, inverse))


def _of_maximum(g: ScalarGraph, n: int, a: int, b: int) -> tuple[int, int]:
    """Return PyTorch's convention for relu: where both are equal, the constant counts."""
    first = less_than_one(g, g.greater(b, a)) if g.value(a) is not None else g.greater(a, b)
    return first, less_than_one(g, first)


def _of_larger(g: ScalarGraph, n: int, a: int, b: int) -> tuple[int, int]:
    """Return the derivatives of max(a, b): 1 for the larger argument, 1/2 each if equal."""
    difference = g.sub(g.add(g.constant(1.0), g.greater(a, b)), g.greater(b, a))
    first = g.mul(g.constant(0.5), difference)
    return first, less_than_one(g, first)


def _of_atan2(g: ScalarGraph, n: int, a: int, b: int) -> tuple[int, int]:
    size = g.add(g.mul(a, a), g.mul(b, b))
    return g.div(b, size), g.negative(g.div(a, size))


# derivatives of a node n with the arguments a and b
_OF_TWO: dict[str, Callable[[ScalarGraph, int, int, int], tuple[int, int]]] = {
    "add": lambda g, n, a, b: (g.constant(1.0), g.constant(1.0)),
    "sub": lambda g, n, a, b: (g.constant(1.0), g.constant(-1.0)),
    "mul": lambda g, n, a, b: (b, a),
    "div": _of_quotient,
    "maximum": _of_maximum,
    "larger": _of_larger,
    "arc_tangent": _of_atan2,
}


def _of_power(g: ScalarGraph, n: int, a: int, b: int) -> Iterator[tuple[int, int]]:
    """Yield the derivatives of a^b, zero where PyTorch's are zero: no 0 log(0) and no 0 0^-1."""
    zero, one = g.constant(0.0), g.constant(1.0)
    by_base = g.mul(b, g.power(a, g.sub(b, one)))
    yield a, g.where(g.equal(b, zero), zero, by_base)
    if g.value(b) is None:
        flat = g.mul(g.equal(a, zero), g.sub(one, g.greater(zero, b)))
        yield b, g.where(flat, zero, g.mul(n, g.apply("log", a)))


def leads_to(graph: ScalarGraph, ends: Iterable[int]) -> list[bool]:
    """Whether each node of the graph depends on one of ``ends``."""
    chosen = set(ends)
    active: list[bool] = []
    for n in range(len(graph.nodes)):
        active.append(n in chosen or any(active[a] for a in graph.arguments(n)))
    return active
