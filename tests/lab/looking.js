// What a reader would complain about in the page, as far as it can be measured.
// Each function of `window.looking` answers with a list of complaints, empty where all is well.
(() => {
  const cells = () => [...document.querySelectorAll(".jp-Notebook .jp-CodeCell")];

  /** Every output of the page with its cell's number: [number, element]. */
  const outputs = () =>
    cells().flatMap((cell, i) =>
      [...cell.querySelectorAll(".jp-OutputArea-output")].map((output) => [i, output]));

  /** The pieces of text under an element, with the element that each stands in. */
  const texts = (root) => {
    const found = [];
    const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const node = walker.currentNode;
      if (node.data.trim()) found.push([node, node.parentElement]);
    }
    return found;
  };

  const rectangles = (node) => {
    const range = document.createRange();
    range.selectNodeContents(node);
    return [...range.getClientRects()].filter((r) => r.width > 0 && r.height > 0);
  };

  const words = (node) => node.data.trim().slice(0, 60);

  /** What sticks out of a box that hides it and cannot be scrolled there. */
  const hidden = (box, from) => {
    let { left, right, top, bottom } = box;
    for (let e = from; e && !e.classList.contains("jp-Notebook"); e = e.parentElement) {
      const style = getComputedStyle(e);
      if (style.display === "inline" || style.display === "contents") continue;
      const b = e.getBoundingClientRect();
      const [x, y] = [style.overflowX, style.overflowY];
      if (/hidden|clip/.test(x) && (right > b.right + 1.5 || left < b.left - 1.5)) return e;
      if (/hidden|clip/.test(y) && (bottom > b.bottom + 1.5 || top < b.top - 1.5)) return e;
      if (/auto|scroll/.test(x)) [left, right] = [b.left, b.right];
      if (/auto|scroll/.test(y)) [top, bottom] = [b.top, b.bottom];
    }
    const page = document.querySelector(".jp-NotebookPanel").getBoundingClientRect();
    return right > page.right + 1.5 || left < page.left - 1.5 ? document.body : null;
  };

  const clipped = () =>
    outputs().flatMap(([i, output]) => {
      const found = [];
      for (const [node, element] of texts(output))
        for (const box of rectangles(node)) {
          const by = hidden(box, element);
          if (by) {
            found.push([i, `${words(node)} | cut by ${by.tagName}.${by.className}`]);
            break;
          }
        }
      for (const image of output.querySelectorAll("img"))
        if (hidden(image.getBoundingClientRect(), image.parentElement))
          found.push([i, `a picture wider than its place: ${image.alt.slice(0, 60)}`]);
      return found;
    });

  /** Preformatted lines of a view that the page broke; the text of a stream or an error may be. */
  const broken = () =>
    outputs().flatMap(([i, output]) =>
      [...output.querySelectorAll("pre > code")].flatMap((code) => {
        const lines = code.textContent.replace(/\n$/, "").split("\n").length;
        const tops = texts(code).flatMap(([node]) => rectangles(node).map((r) => r.top));
        tops.sort((a, b) => a - b);
        // Signs of another font stand a pixel or two higher or lower.
        const shown = tops.filter((top, k) => k === 0 || top - tops[k - 1] > 5).length;
        return shown > lines ? [[i, `${shown} lines of ${lines}`]] : [];
      }));

  const channels = (colour) => {
    const [r, g, b, a] = colour.match(/[\d.]+/g).map(Number);
    return { rgb: [r, g, b], alpha: a ?? 1 };
  };
  const over = (top, alpha, below) => below.map((c, k) => alpha * top[k] + (1 - alpha) * c);
  const luminance = (rgb) => {
    const [r, g, b] = rgb.map((c) =>
      c <= 10.31475 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };

  /** The colour behind an element: the backgrounds of all that it stands in, laid on each other. */
  const background = (element) => {
    const layers = [];
    for (let e = element; e; e = e.parentElement)
      layers.push(channels(getComputedStyle(e).backgroundColor));
    return layers.reverse().reduce((below, l) => over(l.rgb, l.alpha, below), [255, 255, 255]);
  };

  /** The contrast of an element's text, as WCAG 2.1 has it: 1 to 21. */
  const contrast = (element) => {
    const behind = background(element);
    const ink = channels(getComputedStyle(element).color);
    let alpha = ink.alpha;
    for (let e = element; e; e = e.parentElement) alpha *= Number(getComputedStyle(e).opacity);
    const [low, high] = [luminance(over(ink.rgb, alpha, behind)), luminance(behind)].sort(
      (a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };

  const faint = (least) =>
    outputs().flatMap(([i, output]) =>
      texts(output)
        .filter(([, element]) => contrast(element) < least)
        .map(([node, e]) => [
          i, `${words(node)} | ${contrast(e).toFixed(2)} ${getComputedStyle(e).color} ${e.className}`,
        ]));

  /** A picture as elements that can be measured, in a corner that nobody sees. */
  const drawn = (image) => {
    const data = image.src.slice(image.src.indexOf(",") + 1).replace(/%(?![0-9a-f]{2})/gi, "%25");
    const parsed = new DOMParser().parseFromString(decodeURIComponent(data), "image/svg+xml");
    const corner = document.createElement("div");
    corner.style.cssText = "position:fixed;left:0;top:0;visibility:hidden;overflow:visible";
    corner.append(document.importNode(parsed.documentElement, true));
    document.body.append(corner);
    return corner;
  };

  const complaints = (svg) => {
    const found = [];
    const page = svg.getBoundingClientRect();
    const labels = [...svg.querySelectorAll("text")]
      .flatMap((t) => (t.children.length ? [...t.children] : [t]))
      .filter((t) => t.textContent.trim())
      .map((t) => [t.textContent, t.getBoundingClientRect()]);
    for (const [text, b] of labels)
      if (b.left < page.left || b.right > page.right || b.top < page.top || b.bottom > page.bottom)
        found.push(`${text} | outside the picture`);
    labels.forEach(([text, a], k) => {
      for (const [other, b] of labels.slice(k + 1)) {
        const width = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const height = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        // A line of 11 px is 13 high with what hangs below it.
        if (width > 1 && height > 2.5) found.push(`${text} | on ${other}`);
      }
    });
    const boxes = [...svg.querySelectorAll("rect")].map((r) => r.getBoundingClientRect());
    for (const [text, b] of labels) {
      const [x, y] = [(b.left + b.right) / 2, (b.top + b.bottom) / 2];
      for (const r of boxes)
        if (x > r.left && x < r.right && y > r.top && y < r.bottom)
          if (b.left < r.left - 0.5 || b.right > r.right + 0.5)
            found.push(`${text} | wider than its box`);
    }
    for (const path of svg.querySelectorAll("path, line, polyline")) {
      const length = path.closest("defs") ? 0 : path.getTotalLength();
      if (!length) continue;
      const onPage = path.getScreenCTM();
      const crossed = new Set();
      for (let at = 0; at <= length; at += 2) {
        const p = path.getPointAtLength(at).matrixTransform(onPage);
        for (const [text, b] of labels)
          if (p.x > b.left + 1 && p.x < b.right - 1 && p.y > b.top + 3 && p.y < b.bottom - 3)
            crossed.add(text);
      }
      for (const text of crossed) found.push(`${text} | a line goes through it`);
    }
    return found;
  };

  const pictures = () =>
    outputs().flatMap(([i, output]) =>
      [...output.querySelectorAll("img")].flatMap((image) => {
        if (!(image.complete && image.naturalWidth > 0)) return [[i, `not loaded: ${image.alt}`]];
        const found = /\d/.test(image.alt) ? [] : ["no words beside a picture"];
        const corner = drawn(image);
        found.push(...complaints(corner.firstElementChild));
        corner.remove();
        const scale = image.getBoundingClientRect().width / image.naturalWidth;
        if (11 * scale < 6.5) found.push(`letters of ${(11 * scale).toFixed(1)} pixels`);
        return found.map((text) => [i, text]);
      }).concat([...output.querySelectorAll("svg[aria-label]")].flatMap((svg) =>
        complaints(svg).map((text) => [i, text]))));

  /** Opens every `details` by its own summary; complains of those that then show nothing. */
  const folded = () =>
    outputs().flatMap(([i, output]) => {
      for (const button of output.querySelectorAll("button"))  // a slider shows one at a time
        if (button.textContent === "show all") button.click();
      return [...output.querySelectorAll("details")].flatMap((details) => {
        const summary = details.querySelector(":scope > summary");
        if (!summary) return [[i, "details without a summary"]];
        const before = details.open ? 0 : details.getBoundingClientRect().height;
        if (!details.open) summary.click();
        const opened = details.open && details.getBoundingClientRect().height > before + 5;
        return opened ? [] : [[i, `does not open: ${summary.innerText.slice(0, 60)}`]];
      });
    });

  /** Cell by cell, the text of each output as it is shown. */
  const shown = () => cells().map((cell) =>
    [...cell.querySelectorAll(".jp-OutputArea-output")].map((o) => o.innerText));

  window.looking = { broken, clipped, faint, pictures, folded, shown };
})();
