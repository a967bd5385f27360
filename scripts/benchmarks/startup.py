"""How long commands take to answer, each in a process of its own, and models to be built.

    python scripts/benchmarks/startup.py

The first row is Python alone. Help must answer at once, so nothing slow is imported before it is
needed: the last columns say whether torch and SymPy were. What a list says is read from the files.
The second table has for every architecture the system of the catalogue whose model takes longest.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from harness import benchmark, duration, machine, print_table, time_together

import vpintegrator as vp
from vpintegrator.errors import InputError
from vpintegrator.models.arguments import arguments_of

COMMANDS = {
    "python -c pass": ["-c", "pass"],
    "import vpintegrator": ["-c", "import vpintegrator"],
    "vp-gen --help": ["-m", "vpintegrator.cli.gen", "--help"],
    "vp-train --help": ["-m", "vpintegrator.cli.train", "--help"],
    "vp-rollout --help": ["-m", "vpintegrator.cli.rollout", "--help"],
    "vp-plot --help": ["-m", "vpintegrator.cli.plot", "--help"],
    "vp-export --help": ["-m", "vpintegrator.cli.export", "--help"],
    "vp-gen --list": ["-m", "vpintegrator.cli.gen", "--list"],
    "vp-gen --show rigid-body": ["-m", "vpintegrator.cli.gen", "--show", "rigid-body"],
    "vp-rollout --list-methods": ["-m", "vpintegrator.cli.rollout", "--list-methods"],
}
QUICK = ("python -c pass", "vp-gen --help")
WINDOW = 3


def run(arguments: list[str]) -> str:
    """Run Python with some arguments; what it says on standard error."""
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=True, timeout=120
    )
    return done.stderr


def imported(arguments: list[str]) -> set[str]:
    """Names of all modules that a command imports."""
    lines = run(["-X", "importtime", *arguments]).splitlines()
    return {line.rpartition("|")[2].strip() for line in lines}


def building_time(system: vp.System, model: str, **arguments: Any) -> float:
    """Seconds of the processor to build an untrained model, or to refuse it."""
    begin = time.process_time()
    with contextlib.suppress(InputError):
        vp.models.build(system, model, **arguments)
    return time.process_time() - begin


def slowest_builds(systems: list[vp.System]) -> list[list[str]]:
    """A row for each architecture, with neurons and where it has them with polynomials."""
    rows = []
    for model in vp.models.BUILT_IN:
        known = arguments_of(vp.models.ARCHITECTURES.find(model))
        given = {"window": WINDOW} if model not in ("vpff", "spff") else {}
        for functions in ("neurons", "polynomial") if "functions" in known else ("",):
            own: dict[str, Any] = given | ({"functions": functions} if functions else {})
            spent = {s.name: building_time(s, model, **own) for s in systems}
            slowest = max(spent, key=spent.__getitem__)
            rows.append([model, functions, slowest, duration(spent[slowest])])
    return rows


@benchmark(seconds=20.0)
def main(seconds: float, threads: int, quick: bool) -> None:
    """Time the start of the commands, and how long models take to build."""
    commands = {name: a for name, a in COMMANDS.items() if not quick or name in QUICK}
    calls: dict[str, Callable[[], object]] = {
        name: lambda arguments=arguments: run(arguments) for name, arguments in commands.items()
    }
    spent = time_together(calls, 0.0 if quick else seconds)
    rows = []
    for name, arguments in commands.items():
        modules = imported(arguments)
        found = ["yes" if package in modules else "no" for package in ("torch", "sympy")]
        rows.append([name, duration(spent[name]), *found])
    print_table("Start-up", ["command", "time", "torch", "SymPy"], rows, [machine()])

    names = ["pendulum"] if quick else vp.list_systems()
    rows = slowest_builds([vp.load_system(name) for name in names])
    title = f"Building a model, {len(names)} systems"
    print_table(title, ["model", "functions", "slowest for", "time"], rows, [machine()])


if __name__ == "__main__":
    main()
