"""What is left of a display where notebooks are untrusted or sites strip CSS."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser
from urllib.parse import unquote

from jitkernel.views import View

__all__ = ["assert_complete", "pictures", "words"]

_VOID = frozenset(("img", "br", "hr", "wbr"))


class _Sanitiser(HTMLParser):
    """Drops `style`, `class`, `id`, and `style` and `script` elements with their words; keeps text
    and alternative texts.  An `svg` element would leave its words behind."""

    def __init__(self) -> None:
        super().__init__()
        self.text: list[str] = []
        self.open: list[str] = []
        self.fixed: list[bool] = []  # of each, whether ink and background are set, or around it
        self.broken = False  # where a word may be broken, it goes on
        self.images = 0
        self.dropped = False  # within a style or a script, with which its words go

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        assert tag != "svg", tag
        self.dropped = tag in ("script", "style")
        if tag == "img":
            self.images += 1
            assert values.get("alt"), "an image without words"
            assert str(values["src"]).startswith("data:image/svg+xml,%3Csvg ")
        style = values.get("style") or ""
        scrolls = re.search(r"overflow(?:-[xy])?:auto", style) and tag != "td"  # no cell does
        assert not scrolls or "tabindex" in values, f"out of reach of keys: {style}"
        inks = "background" in style, bool(re.search(r"(?<!-)\bcolor", style))
        fixed = all(inks) or bool(self.fixed and self.fixed[-1])
        assert fixed or not any(inks), f"on the page's own ground or with its ink: {style}"
        self.broken = tag == "wbr"
        if tag not in _VOID:
            self.open.append(tag)
            self.fixed.append(fixed)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, tag
        self.fixed.pop()
        self.dropped = False

    def handle_data(self, data: str) -> None:
        if self.dropped:
            return
        if not {"pre", "code"}.intersection(self.open):
            assert not re.search(r"\$|\\[\[(]", data), f"MathJax takes it for a formula: {data}"
        if self.broken:
            self.text[-1] += data
        else:
            self.text.append(data)
        self.broken = False


def words(html: str) -> str:
    """The text of sanitised HTML."""
    parser = _Sanitiser()
    parser.feed(html)
    parser.close()
    assert not parser.open, parser.open
    return " ".join(parser.text)


def pictures(html: str) -> list[tuple[str, str]]:
    """The SVG, with double quotes around attributes, and the words of each image, as a browser has
    them."""
    found = re.findall(r'<img src="data:image/svg\+xml,([^"]*)" alt="([^"]*)"', html)
    return [
        (re.sub(r"<[^<>]*>", lambda tag: tag[0].replace("'", '"'), unquote(unescape(data))), alt)
        for data, alt in found
    ]


def assert_complete(view: View, cut: bool = False) -> None:
    """The HTML, sanitised, still has every number of the plain text, which fits 100 columns.

    `cut`: the plain text may have lines that are wider (listings), or words cut short in tables.
    """
    left = words(view.html)
    for number in re.findall(r"(?<![\w.])(?:0x[0-9a-f]+|\d+(?:\.\d+)?)(?![\w.…])", view.text):
        assert number in left, number
    if not cut:
        assert max(map(len, view.text.splitlines())) <= 100, max(view.text.splitlines(), key=len)
