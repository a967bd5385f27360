"""Run the commands and the Python of the README with small data, in the working folder.

``scripts/test --all`` calls it in an empty folder beside the wheel, where nothing of the checkout
is at hand: whatever a user needs from the commands to the figures must be installed.

    python scripts/readme.py README.md
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import vpintegrator as vp

SMALL = {"vp-gen": ["--count", "120"], "vp-train": ["--seconds", "10"]}
FIGURES = ("overview", "phase", "coordinates", "errors", "invariants", "volume")
TEXTS = ("table.csv", "table.md", "table.tex", "captions.md")


def block(text: str, language: str) -> str:
    """Return the first block of code in a language."""
    found = re.search(rf"```{language}\n(.*?)```", text, re.DOTALL)
    assert found, f"no block of {language}"
    return found[1]


def brief(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a training that takes ten seconds, whatever it is called with."""
    return lambda *arguments, **options: function(*arguments, **options | {"seconds": 10.0})


def run_commands(lines: str) -> None:
    """Run the commands as a shell would, each with its options for small data."""
    for line in lines.splitlines():
        name, *arguments = shlex.split(line, comments=True)
        command = [name, *arguments, *SMALL.get(name, [])]
        print("$", shlex.join(command), flush=True)
        subprocess.run(command, check=True)


def run_python(code: str) -> None:
    """Run a program of the README as it stands; three functions have small budgets."""
    print("$ python", flush=True)
    small: Any = vp
    small.generate = partial(vp.generate, count=120)
    small.train = brief(vp.train)
    small.fit = brief(vp.fit)
    exec(compile(code, "README.md", "exec"), {})


def check_figures(folder: Path) -> None:
    """Raise unless all figures, tables and captions are there, and none is empty."""
    names = [f"{figure}.{suffix}" for figure in FIGURES for suffix in ("png", "pdf")]
    missing = [name for name in (*names, *TEXTS) if not (folder / name).stat().st_size]
    assert not missing, missing


def main() -> None:
    page = Path(sys.argv[1])
    package = Path(vp.__file__).parent
    assert not package.is_relative_to(page.resolve().parent), f"{package} is not the wheel's"
    text = page.read_text(encoding="utf-8")
    run_commands(block(text[text.index("## Commands") :], "sh"))
    check_figures(Path("figures"))
    Path("python").mkdir()
    os.chdir("python")
    run_python(block(text, "python"))
    check_figures(Path("figures"))


if __name__ == "__main__":
    main()
