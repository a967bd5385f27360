"""Command lines on a phone: blocks of them wrap, and no option breaks after its dashes."""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

_COMMANDS = re.compile(
    r'(?<=<div class="highlight-none)(?= notranslate"><div class="highlight"><pre>(<span></span>)?'
    r"(vp-|pip |python |scripts/|pytest ))"
)
_TAG = re.compile(r"(<script\b.*?</script>|<[^>]*>)", re.DOTALL)
_OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("html-page-context", _mark)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def marked(html: str) -> str:
    """HTML with a class for blocks of command lines, and an element round every option."""
    parts = _TAG.split(_COMMANDS.sub(" commands", html))
    parts[::2] = [
        _OPTION.sub(r'<span class="option-name">\g<0></span>', text) for text in parts[::2]
    ]
    return "".join(parts)


def _mark(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    if "body" in context and doctree is not None:
        context["body"] = marked(context["body"])
