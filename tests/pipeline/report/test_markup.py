"""Elements are escaped and well formed, whatever goes in."""

from __future__ import annotations

import pytest

from coterie_pipeline.report.markup import Markup, element, join, text
from tests.pipeline.report.samples import HOSTILE, tree


def test_text_is_escaped() -> None:
    assert element("p", "<b>&\"'") == "<p>&lt;b&gt;&amp;&quot;&#x27;</p>"


def test_attributes_are_escaped() -> None:
    assert element("p", title='" onclick="x') == '<p title="&quot; onclick=&quot;x"></p>'


def test_markup_is_not_escaped_twice() -> None:
    assert element("p", element("b", "&"), Markup("<i></i>")) == "<p><b>&amp;</b><i></i></p>"


def test_attributes_that_are_none_are_left_out() -> None:
    # None and False leave an attribute out; True makes it its own value.
    assert element("p", hidden=True, id=None, open=False) == '<p hidden="hidden"></p>'


def test_names_of_attributes_are_pythons() -> None:
    # Underscores become hyphens, but for one at the end.
    assert element("p", class_="a", aria_label="b") == '<p class="a" aria-label="b"></p>'


@pytest.mark.parametrize("unfit", ["\x00", "\x1b", "\ud800", "\uffff", "\u202e", "\u2066"])
def test_characters_that_no_page_can_hold_are_replaced(unfit: str) -> None:
    # Controls, halves of pairs, and what turns the direction of text become a sign for that.
    assert text(f"a{unfit}b") == "a\ufffdb"


def test_line_breaks_stay() -> None:
    assert text("a\nb") == "a\nb"


def test_hostile_text_gives_what_xml_can_read() -> None:
    # The worst name is well formed as text and in an attribute.
    assert tree(element("p", HOSTILE, title=HOSTILE)).text == (
        '<script>alert("x")</script>&\ufffd\ufffd\ufffd'
    )


def test_nothing_is_joined_for_none() -> None:
    assert join((None, 1, "<")) == "1&lt;"
