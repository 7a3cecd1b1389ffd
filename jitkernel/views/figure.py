"""A picture that is larger than a page: it scrolls, and where the notebook is trusted it can be
searched and zoomed, is moved by dragging, and shows what is linked to a box.  Start from `figure`.

Everywhere it is an image with words.  A script that a notebook must be trusted for makes elements
of that image in its place: so the picture is there once, and without scripts nothing is lost.
"""

from __future__ import annotations

from jitkernel.views.svg import INK, PAPER
from jitkernel.views.view import KEYS

_TALL = 640  # pixels, before it scrolls
_FRAME = f"max-height:{_TALL}px;overflow:auto;margin:4px 0"
_TOOL = f"color:{INK};background:{PAPER};border:1px solid {INK};margin-right:4px;font:inherit"

# `data-k` is the key of a box, `data-e` those of an arrow's ends.  Names of definitions are made
# the image's own: a page may have several.
_SCRIPT = """
(me => {
const frame = me.previousElementSibling, image = frame.querySelector("img");
const own = "_" + Math.random().toString(36).slice(2);
const data = image.src.slice(image.src.indexOf(",") + 1).replace(/%(?![0-9a-f]{2})/gi, "%25");
const text = decodeURIComponent(data).replace(/(id='|url\\(#)(\\w+)/g, "$1$2" + own);
const svg = document.importNode(
  new DOMParser().parseFromString(text, "image/svg+xml").documentElement, true);
svg.setAttribute("role", "img");
svg.setAttribute("aria-label", image.alt);
image.replaceWith(svg);
const width = svg.width.baseVal.value, height = svg.height.baseVal.value;
let zoom = 1;
const show = z => {
  const x = (frame.scrollLeft + frame.clientWidth / 2) / zoom;
  const y = (frame.scrollTop + frame.clientHeight / 2) / zoom;
  zoom = Math.min(4, Math.max(0.05, z));
  svg.style.cssText = `max-width:none;width:${width * zoom}px;height:${height * zoom}px`;
  frame.scrollLeft = x * zoom - frame.clientWidth / 2;
  frame.scrollTop = y * zoom - frame.clientHeight / 2;
};
const tools = document.createElement("div");
const add = (tag, name, act) => {
  const e = tools.appendChild(document.createElement(tag));
  e.style.cssText = "TOOL";
  if (tag === "button") { e.textContent = name; e.onclick = act; }
  return e;
};
tools.append("search ");
const field = add("input"), count = tools.appendChild(document.createElement("span"));
field.type = "search";
field.ariaLabel = "search the picture";
add("button", "−", () => show(zoom / 1.4)).title = "smaller";
add("button", "+", () => show(zoom * 1.4)).title = "larger";
add("button", "1:1", () => show(1));
add("button", "all", () => show(Math.min(frame.clientWidth / width, frame.clientHeight / height)));
frame.before(tools);
show(1);
const first = svg.querySelector("[data-k]").getBoundingClientRect();
frame.scrollLeft += first.left - frame.getBoundingClientRect().left
  - Math.max(8, (frame.clientWidth - first.width) / 2);
const words = [...svg.querySelectorAll("text")];
let found = [], at = 0;
const go = () => {
  count.textContent = field.value ? ` ${found.length ? at + 1 : 0} of ${found.length} ` : "";
  if (!found.length) return;
  const a = found[at].getBoundingClientRect(), b = frame.getBoundingClientRect();
  frame.scrollLeft += a.left - b.left - frame.clientWidth / 3;
  frame.scrollTop += a.top - b.top - frame.clientHeight / 3;
};
field.oninput = () => {
  for (const t of found) t.style.cssText = "";
  const q = field.value.toLowerCase();
  found = q ? words.filter(t => t.textContent.toLowerCase().includes(q)) : [];
  for (const t of found) t.style.cssText = "fill:#8b0000;text-decoration:underline 2px";
  at = 0;
  go();
};
field.onkeydown = e => {
  e.stopPropagation();
  if (e.key === "Enter" && found.length) {
    at = (at + (e.shiftKey ? found.length - 1 : 1)) % found.length;
    go();
  }
};
frame.addEventListener("wheel", e => {
  if (e.ctrlKey) { e.preventDefault(); show(zoom * (e.deltaY < 0 ? 1.15 : 1 / 1.15)); }
}, {passive: false});
let from = null;
frame.onpointerdown = e => {
  if (e.button) return;
  from = [e.clientX + frame.scrollLeft, e.clientY + frame.scrollTop];
};
frame.onpointermove = e => {
  if (!from || !e.buttons) { from = null; return; }
  frame.scrollLeft = from[0] - e.clientX;
  frame.scrollTop = from[1] - e.clientY;
};
const arrows = [...svg.querySelectorAll("[data-e]")].map(p => [p, p.dataset.e.split(" ")]);
const mark = key => {
  for (const [p, ends] of arrows) {
    p.style.opacity = !key || ends.includes(key) ? "" : "0.15";
    p.style.strokeWidth = key && ends.includes(key) ? "3" : "";
  }
};
for (const box of svg.querySelectorAll("[data-k]")) {
  box.setAttribute("tabindex", 0);
  box.onmouseenter = box.onfocus = () => mark(box.dataset.k);
  box.onmouseleave = box.onblur = () => mark("");
}
})(document.currentScript)
"""


def figure(image: str) -> str:
    """HTML of a picture (that of `svg.image`) as large as it is, which scrolls."""
    shown = (
        image.removeprefix("<p>").removesuffix("</p>").replace("max-width:100%;", "max-width:none;")
    )
    lines = (line.strip() for line in _SCRIPT.replace("TOOL", _TOOL).splitlines())
    script = "\n".join(filter(None, lines))
    return f'<div {KEYS} style="{_FRAME}">{shown}</div><script>{script}</script>'
