"""The lessons as slides in a browser without a network: nothing is missed, nothing is clipped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.kernel.answers import maker

LESSONS = {lesson.stem: lesson for lesson in maker().lessons()}
# The slides that are wider or higher than their place, and have no scrolling of their own.
CLIPPED = """() => {
  const found = [];
  for (let i = 0; i < Reveal.getTotalSlides(); i++) {
    while (Reveal.availableFragments().next) Reveal.nextFragment();
    const slide = Reveal.getCurrentSlide();
    const empty = !slide.innerText.trim() && !slide.querySelector("img");
    if (empty || slide.scrollWidth > slide.clientWidth + 2 || slide.clientHeight > 765)
      found.push([i, slide.innerText.slice(0, 60)]);
    Reveal.next();
  }
  return found;
}"""


@pytest.mark.slow
@pytest.mark.parametrize("stem", LESSONS)
def test_a_deck_opens_without_a_network(browser: Any, tmp_path: Path, stem: str) -> None:
    pytest.importorskip("sphinx_revealjs")
    from tools.make_slides import deck

    path = tmp_path / f"{stem}.html"
    path.write_text(deck(LESSONS[stem]))
    for width in (1280, 800):
        context = browser.new_context(
            viewport={"width": width, "height": width * 5 // 8}, offline=True
        )
        page = context.new_page()
        wrong: list[str] = []
        page.on("console", lambda message, wrong=wrong: wrong.append(message.text))
        page.on("pageerror", lambda error, wrong=wrong: wrong.append(str(error)))
        page.on("requestfailed", lambda request, wrong=wrong: wrong.append(request.url[:100]))
        page.goto(f"file://{path}")
        page.wait_for_function("() => window.Reveal && Reveal.isReady()")
        assert page.evaluate("() => Reveal.getTotalSlides()") > 5
        assert page.evaluate(CLIPPED) == [] and wrong == []
        assert page.evaluate("() => [...document.images].every(i => i.naturalWidth > 0)")
        context.close()
