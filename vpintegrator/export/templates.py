"""Templates of C source in sections."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from string import Template


@cache
def sections(name: str) -> dict[str, Template]:
    """Return the sections of a file of templates, which begin with lines ``//// NAME``."""
    text = files("vpintegrator.export").joinpath(name).read_text(encoding="utf-8")
    _, *parts = re.split(r"(?:^// .*\n)*^//// (.*)\n", text, flags=re.MULTILINE)
    return {
        title: Template(part.strip()) for title, part in zip(parts[::2], parts[1::2], strict=True)
    }
