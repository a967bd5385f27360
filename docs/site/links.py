"""Whether a built site is whole: links, anchors, pictures, and nothing fetched from elsewhere.

python docs/site/links.py FOLDER prints what is broken, and exits with 1 if anything is.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# what a page loads by itself, as against where it leads
LOADED = {("script", "src"), ("img", "src"), ("link", "href"), ("source", "src"), ("iframe", "src")}
_STYLE_URL = re.compile(r"url\(\s*['\"]?(?!data:|#)([^'\")]+)")


class Page(HTMLParser):
    """The anchors of a page, and what it points at as (tag, attribute, target)."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.targets: list[tuple[str, str, str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if name in ("id", "name") and value:
                self.anchors.add(value)
            if name in ("href", "src") and value:
                self.targets.append((tag, name, value))


def problems(folder: Path) -> Iterator[str]:
    """One sentence for each thing that is broken."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in folder.rglob("*.html")}
    if folder / "index.html" not in pages:
        yield f"{folder}: there is no index.html"
    for path, page in sorted(pages.items()):
        for tag, attribute, target in page.targets:
            fault = _fault(folder, path, (tag, attribute), target, pages)
            if fault:
                yield f"{path.relative_to(folder)}: {target} {fault}"
    for path in sorted(folder.rglob("*.css")):
        for target in _STYLE_URL.findall(path.read_text(encoding="utf-8")):
            if urlsplit(target).netloc:
                yield f"{path.relative_to(folder)}: {target} is fetched from elsewhere"
            elif not (path.parent / urlsplit(target).path).exists():
                yield f"{path.relative_to(folder)}: {target} does not exist"


def _fault(
    folder: Path, path: Path, place: tuple[str, str], target: str, pages: dict[Path, Page]
) -> str | None:
    parts = urlsplit(target)
    if parts.scheme == "data":
        return None
    if parts.scheme or parts.netloc:
        return "is fetched from elsewhere" if place in LOADED else None
    goal = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if goal.is_dir():
        goal = goal / "index.html"
    if not goal.exists():
        return "does not exist"
    if not goal.is_relative_to(folder):
        return "is outside of the site"
    anchor = unquote(parts.fragment)
    # viewcode's pages have anchors of their own making; "top" is every page's
    if anchor and goal in pages and anchor not in pages[goal].anchors:
        return "has no such place"
    return None


def main() -> None:
    folder = Path(sys.argv[1]).resolve()
    found = list(problems(folder))
    print("\n".join(found) or f"nothing is broken on {len(list(folder.rglob('*.html')))} pages")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
