"""How long commands take to answer, each in a process of its own.

    python scripts/benchmarks/startup.py

The first row is Python alone. Help must answer at once, so nothing slow is imported before it is
needed: the last columns say whether torch and SymPy were. What a list says is read from the files.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

from harness import benchmark, duration, machine, print_table, time_together

COMMANDS = {
    "python -c pass": ["-c", "pass"],
    "import vpintegrator": ["-c", "import vpintegrator"],
    "vp-gen --help": ["-m", "vpintegrator.cli.gen", "--help"],
    "vp-train --help": ["-m", "vpintegrator.cli.train", "--help"],
    "vp-rollout --help": ["-m", "vpintegrator.cli.rollout", "--help"],
    "vp-plot --help": ["-m", "vpintegrator.cli.plot", "--help"],
    "vp-export --help": ["-m", "vpintegrator.cli.export", "--help"],
    "vp-show systems": ["-m", "vpintegrator.cli.show", "systems"],
    "vp-show rigid-body": ["-m", "vpintegrator.cli.show", "rigid-body"],
    "vp-show methods": ["-m", "vpintegrator.cli.show", "methods"],
}
QUICK = ("python -c pass", "vp-gen --help")


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


@benchmark(seconds=20.0)
def main(seconds: float, threads: int, quick: bool) -> None:
    """Time the start of the commands."""
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


if __name__ == "__main__":
    main()
