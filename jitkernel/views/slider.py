"""Parts of a view of which one is looked at after the other.  Start from `slider`.

Each is folded to its title, which is all that is left of this where scripts do not run.  Where they
do, a slider above them shows one at a time; so do the arrow keys, while it has the focus: they are
read here, since a notebook takes from a slider what the browser would do with them.
"""

from __future__ import annotations

from collections.abc import Sequence

from jitkernel.views.view import View, join

_SCRIPT = """
(() => {
const me = document.currentScript, box = me && me.previousElementSibling;
if (!box || box.children.length < 2) return;
const all = [...box.children];
const make = (tag, what) => Object.assign(document.createElement(tag), what);
const bar = make('div', {style: 'display:flex;gap:.5em;align-items:center;flex-wrap:wrap'});
const range = make('input', {type: 'range', min: 1, max: all.length, value: 1,
style: 'flex:1 1 12em;max-width:30em'});
const words = make('span', {}), every = make('button', {type: 'button'});
let whole = false;
range.setAttribute('aria-label', 'WHAT');
words.setAttribute('aria-live', 'polite');
bar.setAttribute('data-lm-suppress-shortcuts', 'true');
const show = () => {
all.forEach((one, k) => {
const on = k + 1 == range.value;
one.style.display = whole || on ? '' : 'none';
if (!whole) one.open = on;
});
words.textContent = whole ? '' : 'WHAT ' + range.value + ' of ' + all.length;
every.textContent = whole ? 'one at a time' : 'show all';
};
range.oninput = () => { whole = false; show(); };
range.onkeydown = (event) => {
const by = {ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 5, PageDown: -5,
Home: -all.length, End: all.length}[event.key];
if (!by || event.ctrlKey || event.altKey || event.metaKey) return;
event.preventDefault();
event.stopPropagation();
range.value = +range.value + by;
range.oninput();
};
every.onclick = () => { whole = !whole; show(); };
bar.append(range, words, every);
box.before(bar);
show();
})()
"""


def slider(folded: Sequence[View], what: str) -> View:
    """Folded views with a slider above them; `what` is what each of them is (`step`)."""
    joined = join(folded)
    if len(folded) < 2:
        return joined
    script = " ".join(_SCRIPT.replace("WHAT", what).split())
    return View(joined.text, f"<div>{joined.html}</div><script>{script}</script>")
