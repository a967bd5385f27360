"""Paragraphs and sentences of Markdown pages, without code and formulas."""

import re

# a fence, to its end; directives such as {note} hold prose
FENCE = re.compile(r"^ *(```+|~~~+)(?!\{(?:note|tip|warning)).*?^ *\1 *$", re.DOTALL | re.MULTILINE)
HEADER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
DISPLAY = re.compile(r"^\$\$.*?\$\$", re.DOTALL | re.MULTILINE)
ITEM = re.compile(r"\s*(?:[-*]|\d+\.|:)\s+")
END = re.compile(r"(?<=[.!?])[\"”)*]*\s+(?=[\"“(*\[]*[A-ZÀ-Þ`$\\])")


def paragraphs(text):
    """Paragraphs, list items, headings and table cells, each a line."""
    for pattern in (HEADER, COMMENT, FENCE, DISPLAY):
        text = pattern.sub("", text)
    lines, code = [], False
    for line in [*text.splitlines(), ""]:
        start = not lines
        code = line.startswith("    ") and (code or start) and not ITEM.match(line)
        block = line.startswith(("#", "|", ":::", "![")) or not line.strip() or code
        if lines and (block or ITEM.match(line)):
            yield " ".join(lines)
            lines = []
        if line.startswith("|"):
            yield from (cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1])
        elif line.startswith("#"):
            yield line.lstrip("# ")
        elif not block:
            lines.append(ITEM.sub("", line, count=1) if ITEM.match(line) else line.strip())


def spoken(paragraph):
    """A paragraph with one word for each formula and each piece of code."""
    paragraph = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", paragraph)
    paragraph = re.sub(r"``?[^`]+``?", "`X`", paragraph)
    return re.sub(r"\$[^$]+\$", "$X$", paragraph)


def sentences(text):
    for paragraph in paragraphs(text):
        yield from END.split(spoken(paragraph))


def words(text):
    return [word for part in paragraphs(text) for word in part.split() if re.search(r"\w", word)]
