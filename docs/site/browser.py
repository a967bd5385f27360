"""Every page of a built site in a real browser, as files, without a network.

python docs/site/browser.py FOLDER [--screenshots FOLDER] prints what is wrong, and exits with 1 if
anything is: messages of error on the console, formulas that are not typeset, pictures that do not
show, pages wider than a phone, a search that finds nothing. It takes the Chromium of the machine,
and does nothing where there is none.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

DESKTOP = {"width": 1280, "height": 900}
PHONE = {"width": 390, "height": 844}
# what a reader looks for, and a page that has to be among what is found
SEARCHES = {"Cayley": "api/structure", "--optimizer": "vp-train", "Lyapunov": "numbers"}
_OPTIONS = ["--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
_FOUND = """goal => [...document.querySelectorAll("#search-results li a")]
    .some(link => link.href.includes(goal))"""
_TYPESET = """async () => {
    if (window.MathJax && MathJax.startup) await MathJax.startup.promise;
    const formulas = [...document.querySelectorAll("article .math")];
    return {
        formulas: formulas.length,
        plain: formulas.filter(each => !each.querySelector("mjx-container")).length,
        wrong: [...document.querySelectorAll("mjx-merror")].map(each => each.textContent),
        pictures: [...document.images].filter(each => !(each.complete && each.naturalWidth))
            .map(each => each.src),
    };
}"""


def browser() -> str | None:
    """The path of a Chromium, if there is one."""
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    return next(filter(None, map(shutil.which, names)), None)


def problems(
    folder: Path,
    chromium: str,
    screenshots: Path | None = None,
    searches: Mapping[str, str] = SEARCHES,
    sources: bool = True,
) -> Iterator[str]:
    """One sentence for each thing that is wrong; without ``sources`` on the written pages alone."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        program = playwright.chromium.launch(
            executable_path=chromium, args=_OPTIONS, chromium_sandbox=False
        )
        yield from _pages(program, folder, screenshots, sources)
        yield from _searches(program, folder, searches)
        yield from _themes(program, folder)
        program.close()


def _pages(program: Any, folder: Path, screenshots: Path | None, sources: bool) -> Iterator[str]:
    page = program.new_page(viewport=DESKTOP)
    said: list[str] = []
    page.on("console", lambda it: said.append(it.text) if it.type == "error" else None)
    page.on("pageerror", lambda it: said.append(str(it)))
    page.on("requestfailed", lambda it: said.append(f"{it.url} was not loaded"))
    for path in sorted(folder.rglob("*.html")):
        name = path.relative_to(folder)
        if name.parts[0] == "_static" or (name.parts[0] == "_modules" and not sources):
            continue
        page.set_viewport_size(DESKTOP)
        page.goto(path.as_uri())
        found = page.evaluate(_TYPESET)
        yield from (f"{name}: {text}" for text in said)
        said.clear()
        if found["plain"]:
            yield f"{name}: {found['plain']} of {found['formulas']} formulas are not typeset"
        yield from (f"{name}: formula with an error: {text}" for text in found["wrong"])
        yield from (f"{name}: {picture} does not show" for picture in found["pictures"])
        if screenshots:
            _photograph(page, screenshots / name.with_suffix(".png"))
        page.set_viewport_size(PHONE)
        width = page.evaluate("document.documentElement.scrollWidth")
        if width > PHONE["width"]:
            yield f"{name}: {width} pixels wide on a phone of {PHONE['width']}"
        if screenshots:
            _photograph(page, screenshots / "phone" / name.with_suffix(".png"))
    page.close()


def _photograph(page: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=path, full_page=True)


def _searches(program: Any, folder: Path, searches: Mapping[str, str]) -> Iterator[str]:
    page = program.new_page(viewport=DESKTOP)
    for words, goal in searches.items():
        page.goto((folder / "index.html").as_uri())
        box = page.locator("input[name=q]").first
        box.fill(words)
        box.press("Enter")
        try:  # what is found appears line by line
            page.wait_for_function(_FOUND, arg=goal, timeout=20_000)
        except Exception:
            if page.locator("#search-results li a").count():
                yield f"search: '{words}' does not lead to a page named {goal}"
            else:
                yield f"search: nothing is found for '{words}'"
    page.close()


def _themes(program: Any, folder: Path) -> Iterator[str]:
    colours = set()
    for scheme in ("light", "dark"):
        page = program.new_page(viewport=DESKTOP, color_scheme=scheme)
        page.goto((folder / "index.html").as_uri())
        colours.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        page.close()
    if len(colours) < 2:
        yield "index.html: light and dark look the same"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--screenshots", type=Path)
    given = parser.parse_args()
    chromium = browser()
    if chromium is None:
        print("there is no Chromium here: no page is tried in a browser")
        return
    found = list(problems(given.folder.resolve(), chromium, given.screenshots))
    print("\n".join(found) or "every page loads, formulas and pictures show, search finds")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
