"""CUDA source that iterates a model, or differentiates it, from a graph of scalar operations."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpintegrator.compiled.adjoint_source import differentiated
from vpintegrator.compiled.program import Program, scalar_function
from vpintegrator.compiled.source import bessel_orders, header

if TYPE_CHECKING:
    from vpintegrator.compiled.scalar_graph import ScalarGraph
    from vpintegrator.compiled.tracing import Trace

# operations of programs that are parts of the kernel, so that their workspace is registers; those
# of larger ones stay apart, and it is memory. Of 9,000 (a gradient and a Jacobian of doubles) NVRTC
# makes 44,000 instructions in 30 seconds as parts of the kernels, 66,000 in 21 seconds apart
_INLINE = 10_000
_CALLED = 16  # functions from which on they are called
_BANK = 60_000  # bytes of constants; the memory for them has 65,536


@dataclass(frozen=True)
class GpuSource:
    """CUDA of a model.

    Attributes
    ----------
    text
        Source without headers, which NVRTC compiles.
    kernels
        Names of its kernels.
    constants
        Number of constants that the kernel ``constants`` computes from the weights.
    operations, backward
        Number of sums, products and the like: in a window, and from derivatives back.
    functions
        Number of functions such as tanh in a window.
    bank
        Whether constants are in the memory for constants, ``bank``, to which they are copied.
    order
        Number of the trained weight of each derivative in totals.
    """

    text: str
    kernels: tuple[str, ...]
    constants: int
    operations: int
    functions: int
    backward: int = 0
    bank: bool = False
    order: tuple[int, ...] = ()

    @property
    def forward(self) -> int:
        """Number of operations in a window."""
        return self.operations


class _DeviceProgram(Program):
    """A program of functions that kernels call, those of derivatives for any kind of sink."""

    def _named(self, name: str) -> tuple[str, str]:
        declared, passed = self._extra
        template = "template <class Sink> " if declared else ""
        arguments = f"(real *__restrict__ v, const real *__restrict__ c{declared})"
        return f"{template}PART {name}{arguments}", f"{name}(v, c{passed});"

    def _constant(self, place: int) -> str:
        return f"CONSTANT({place})"


def write_rollout(trace: Trace, sizes: tuple[int, int, int], real: str) -> GpuSource:
    """Write the CUDA that iterates a model, see ``rollout.h``.

    Parameters
    ----------
    trace
        The model's map of windows.
    sizes
        Sizes ``window``, ``prediction_window`` and ``dim`` of the model.
    real
        ``double`` or ``float``.
    """
    window, new, dim = sizes
    outputs = trace.outputs[(window - new) * dim :]
    given = {trace.graph.input(i): i for i in range(window * dim)}
    constants: dict[int, int] = {}
    program = _DeviceProgram(trace.graph, outputs, given, constants, slots=len(given))
    lines = [
        prelude(real, _is_short(program), len(constants), program.functions),
        constants_kernel(trace.graph, constants),
        *program.parts,
        _step(program, outputs),
        enumeration(INPUTS=len(given), OUTPUTS=len(outputs), DIM=dim, SLOTS=program.slots),
        header("gpu/rollout.h"),
    ]
    return GpuSource(
        "\n".join(lines),
        ("constants", "rollout"),
        len(constants),
        program.operations,
        program.functions,
        bank=_has_bank(real, len(constants)),
    )


def write_residual(
    trace: Trace, sizes: tuple[int, int, int], real: str, trained: list[int], chained: bool
) -> GpuSource:
    """Write the CUDA of a model's residuals and their derivatives, see ``residuals.h``.

    Parameters
    ----------
    trace
        The model's map of windows; its graph is extended.
    sizes
        Sizes ``window``, ``prediction_window`` and ``dim`` of the model.
    real
        ``double`` or ``float``.
    trained
        Indices of the weights that are trained.
    chained
        Whether predictions are made from predictions, so that derivatives with respect to windows
        are needed too.

    Raises
    ------
    NotCompilable
        If there are too many operations.
    """
    found = differentiated(trace, sizes, trained, chained)
    constants: dict[int, int] = {}
    forward, backward = found.programs(
        constants,
        extra=(", Sink &sink, real *__restrict__ x", ", sink, x"),
        sink="sink.put({}, {{}});",
        every=True,
        kind=_DeviceProgram,
    )
    back = [
        "template <class Sink> INLINED void back(real *v, const real *c, Sink &sink, real *x) {",
        *(f"    {call}" for call in backward.calls),
        "}",
    ]
    counted, order = _counted("\n".join([*backward.parts, *back]))
    lines = [
        prelude(real, _is_short(forward, backward), len(constants), forward.functions),
        constants_kernel(trace.graph, constants),
        *forward.parts,
        _step(forward, found.outputs),
        counted,
        enumeration(
            INPUTS=len(found.states),
            OUTPUTS=len(found.seeds),
            SLOTS=backward.slots,
            SEEDS=forward.slots,
            TRAINED=len(trained),
            CHAINED=int(chained),
        ),
        header("gpu/residuals.h"),
    ]
    return GpuSource(
        "\n".join(lines),
        ("constants", "sums", "gradient", "jacobian"),
        len(constants),
        forward.operations,
        forward.functions,
        backward.operations,
        _has_bank(real, len(constants)),
        tuple(order),
    )


def prelude(real: str, short: bool, constants: int = 0, functions: int = 0) -> str:
    """Return the beginning of every source; short programs become parts of the kernel.

    Constants of programs are stored in constant memory if they fit. A large number of functions is
    called instead of inlined.
    """
    part = "__forceinline__" if short else "__noinline__"
    unrolled = "unroll" if short else "unroll 1"
    return "\n".join(
        [
            f"typedef {real} real;",
            bessel_orders(),
            f"#define PART static __device__ {part} void",
            f'#define UNROLLED _Pragma("{unrolled}")',
            *([f"#define BANK {constants}"] if _has_bank(real, constants) else []),
            *["#define CALLED"] * (functions > _CALLED),
            header("gpu/device.h"),
        ]
    )


def _has_bank(real: str, constants: int) -> bool:
    return 0 < constants * (8 if real == "double" else 4) <= _BANK


def enumeration(**numbers: int) -> str:
    """Return numbers that kernels know when they are compiled."""
    return f"enum : int {{{', '.join(f'{name} = {n}' for name, n in numbers.items())}}};"


def constants_kernel(graph: ScalarGraph, constants: Mapping[int, int]) -> str:
    """Return the kernel ``constants``, which computes constants from the weights."""
    copied = {n: i for n, i in constants.items() if graph.nodes[n][0] == "parameter"}
    computed = {n: i for n, i in constants.items() if n not in copied}
    return "\n".join(
        [
            _table("copied_from", [graph.nodes[n][1] for n in copied]),
            _table("copied_to", list(copied.values())),
            enumeration(COPIED=len(copied)),
            "static __device__",
            scalar_function(graph, "compute_constants", computed).removeprefix("static "),
            header("gpu/constants.h"),
        ]
    )


def _table(name: str, numbers: Sequence[int]) -> str:
    text = ", ".join(map(str, [*numbers, 0]))  # none is empty
    return f"static __device__ const int {name}[] = {{{text}}};"


def _counted(text: str) -> tuple[str, list[int]]:
    """Functions that put derivatives with a count of these, and which weights they are of."""
    order: list[int] = []

    def with_count(found: re.Match[str]) -> str:
        order.append(int(found[1]))
        return f"{found[0]} {len(order) - 1},"

    return re.sub(r"sink\.put\((\d+),", with_count, text), order


def _step(program: Program, outputs: Sequence[int]) -> str:
    """Return the function that calls the parts of a program, and gives the new states."""
    lines = ["INLINED void step(real *v, const real *c, real *y) {"]
    lines += [f"    {call}" for call in program.calls]
    lines += [f"    y[{i}] = {program.reference(n)};" for i, n in enumerate(outputs)]
    return "\n".join([*lines, "}"])


def _is_short(*programs: Program) -> bool:
    return sum(p.operations + p.functions for p in programs) <= _INLINE
