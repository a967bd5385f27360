"""Derivatives of scalar graphs, as further nodes of the same graph.

Backwards, from few results to many weights: reverse mode, the adjoint method (Griewank and Walther,
Evaluating Derivatives, 2nd ed., 2008, chapter 3).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator

from vpintegrator.compiled.scalar_graph import ScalarGraph


def adjoints(
    graph: ScalarGraph, seeds: Iterable[tuple[int, int]], wanted: Iterable[int]
) -> list[int]:
    """The derivatives of sum_i seed_i result_i with respect to some nodes.

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
    """The arguments of a node, each with the derivative with respect to it."""
    g, (operation, *arguments) = graph, graph.nodes[n]
    if not graph.arguments(n):
        return
    a, b = arguments[0], arguments[-1]
    one = g.constant(1.0)
    if operation == "add":
        yield from ((a, one), (b, one))
    elif operation == "sub":
        yield from ((a, one), (b, g.constant(-1.0)))
    elif operation == "mul":
        yield from ((a, b), (b, a))
    elif operation == "div":
        inverse = g.div(one, b)
        yield from ((a, inverse), (b, g.negative(g.mul(n, inverse))))
    elif operation == "neg":
        yield a, g.constant(-1.0)
    elif operation == "max":
        # PyTorch's convention for relu: where both are equal, the constant counts
        first = g.sub(one, g.greater(b, a)) if g.value(a) is not None else g.greater(a, b)
        yield from ((a, first), (b, g.sub(one, first)))
    elif operation == "larger":
        # one where it is the larger one, a half where both are equal
        first = g.mul(g.constant(0.5), g.sub(g.add(one, g.greater(a, b)), g.greater(b, a)))
        yield from ((a, first), (b, g.sub(one, first)))
    elif operation == "where":
        yield from ((arguments[1], a), (b, g.sub(one, a)))
    elif operation == "abs":
        yield a, g.sub(g.greater(a, g.constant(0.0)), g.greater(g.constant(0.0), a))
    elif operation == "pow":
        yield from _of_power(g, n, a, b)
    elif operation == "atan2":
        size = g.add(g.mul(a, a), g.mul(b, b))
        yield from ((a, g.div(b, size)), (b, g.negative(g.div(a, size))))
    elif operation == "tanh":
        yield a, g.sub(one, g.mul(n, n))
    elif operation == "exp":
        yield a, n
    elif operation == "expm1":
        yield a, g.apply("exp", a)  # n + 1 is nothing but rounding where n is near -1
    elif operation == "log":
        yield a, g.div(one, a)
    elif operation == "log1p":
        yield a, g.div(one, g.add(one, a))
    elif operation == "sqrt":
        yield a, g.div(g.constant(0.5), n)
    elif operation == "sin":
        yield a, g.apply("cos", a)
    elif operation == "cos":
        yield a, g.negative(g.apply("sin", a))
    elif operation == "tan":
        yield a, g.add(one, g.mul(n, n))
    elif operation in ("asin", "acos"):
        slope = g.div(one, g.apply("sqrt", g.sub(one, g.mul(a, a))))
        yield a, slope if operation == "asin" else g.negative(slope)
    elif operation == "atan":
        yield a, g.div(one, g.add(one, g.mul(a, a)))
    elif operation in ("sinh", "cosh"):
        yield a, g.apply("cosh" if operation == "sinh" else "sinh", a)
    elif operation == "erf":
        gauss = g.apply("exp", g.negative(g.mul(a, a)))
        yield a, g.mul(g.constant(2 / math.sqrt(math.pi)), gauss)
    # the derivatives of "greater", "equal", "bound" and "fixed" are zero


def _of_power(g: ScalarGraph, n: int, a: int, b: int) -> Iterator[tuple[int, int]]:
    """Those of a^b, zero where PyTorch has them zero: no 0 log(0) and no 0 0^-1."""
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
