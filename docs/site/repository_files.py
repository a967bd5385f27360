"""Links of pages to files and folders of the repository that are no pages.

A page is read on the site and beside the code. There a link to ``../systems`` opens a folder; here
a file is offered as it is, and a folder, which a site cannot show, becomes its name.
"""

from __future__ import annotations

from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_transform(FoldersByName)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


class FoldersByName(SphinxTransform):
    """Takes the link off what names a folder."""

    default_priority = 5

    def apply(self) -> None:
        here = Path(self.env.doc2path(self.env.docname)).parent
        for link in list(self.document.findall(addnodes.pending_xref)):
            target = link.get("reftarget", "")
            if target and (here / target).is_dir():
                link.replace_self(link.children or nodes.literal(target, target))
