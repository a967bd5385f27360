"""HTML as a browser reads it, for tests: tables, texts, and whether all that opens closes."""

from html.parser import HTMLParser

EMPTY = {"br", "img"}
ALLOWED = {
    *("div", "p", "strong", "br", "table", "thead", "tbody", "tr", "th", "td"),
    *("details", "summary", "pre", "img"),
}


class Page(HTMLParser):
    """What is in a page.

    ``rows`` are the cells of all tables, ``words`` all texts, ``images`` the sources of pictures.
    """

    def __init__(self, text):
        super().__init__()
        self.open, self.rows, self.words, self.images = [], [], "", []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        assert tag in ALLOWED
        assert {name for name, _ in attributes} <= {"style", "class", "scope", "src", "alt"}
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag == "img":
            self.images.append(dict(attributes)["src"])
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words += data
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data
