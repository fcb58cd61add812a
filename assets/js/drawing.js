// How boxes, lines and labels of a scene are drawn.
const NS = "http://www.w3.org/2000/svg"
const KINDS = [
  ["attention", "attention"], ["ffn", "FFN / MoE"], ["norm", "norm / residual"],
  ["embed", "embedding / LM head"], ["aux", "block store"], ["structure", "structure"],
]
const LINES = [["flow", "activations"], ["sum", "running sum"], ["store", "block sums"]]
const MARKS = { only: "only in this model", other: "built differently", size: "other sizes" } // of two models side by side
const FAR = 0.54, VERY_FAR = 0.25, MAX_FIT = 1.15, MIN_FIT = 0.62, CLICK = 4, RAIL = 90, LINE_H = 12

function shape(tag, attrs = {}, parent = null, text = null) {
  const node = document.createElementNS(NS, tag)
  for (const key in attrs) node.setAttribute(key, attrs[key])
  if (text != null) node.textContent = text
  parent?.appendChild(node)
  return node
}

function html(tag, cls, parent, text = null) {
  const node = document.createElement(tag)
  if (cls) node.className = cls
  if (text != null) node.textContent = text
  parent.appendChild(node)
  return node
}

const count = (n) => (n ? `${n.toLocaleString("en-US")} parameters` : "")
const isRail = (node) => !node.open && node.h > RAIL
const distance = (a, b) => Math.abs(a[0] - b[0]) + Math.abs(a[1] - b[1])
const clamp = (x, low, high) => Math.max(low, Math.min(high, x))

// A polyline with rounded corners.
function rounded(points) {
  let d = `M${points[0]}`
  for (let i = 1; i < points.length - 1; i++) {
    const [before, corner, after] = [points[i - 1], points[i], points[i + 1]]
    const r = Math.min(8, distance(before, corner) / 2, distance(corner, after) / 2)
    const toward = (p) => [corner[0] + Math.sign(p[0] - corner[0]) * r, corner[1] + Math.sign(p[1] - corner[1]) * r]
    d += `L${toward(before)}Q${corner} ${toward(after)}`
  }
  return `${d}L${points.at(-1)}`
}

// A triangle whose tip is at `tip`, pointing away from `from`.
function arrow(from, tip) {
  const dx = Math.sign(tip[0] - from[0]), dy = Math.sign(tip[1] - from[1])
  const [x, y] = [tip[0] - 7 * dx, tip[1] - 7 * dy]
  return `M${tip}L${x - 3.6 * dy},${y - 3.6 * dx}L${x + 3.6 * dy},${y + 3.6 * dx}Z`
}

// The lane of a loop shows which way it runs: an arrow in the middle of its upright stretch.
function halfway(points) {
  const i = points.findIndex((p, i) => i > 1 && p[0] === points[i - 1][0])
  const [a, b] = [points[i - 1], points[i]]
  return arrow(a, [a[0], (a[1] + b[1]) / 2])
}

function drawEdge(edge, parent, enters) {
  const g = shape("g", { class: `edge ${edge.kind}` }, parent), d = rounded(edge.points)
  shape("path", { class: "path", d }, g)
  if (edge.id) shape("path", { class: "hit", d, "data-edge": edge.id }, g) // a line is thin to click on
  if (enters) shape("path", { class: "head", d: arrow(edge.points.at(-2), edge.points.at(-1)) }, g)
  if (edge.loop && edge.kind !== "store") shape("path", { class: "head", d: halfway(edge.points) }, g)
  return g
}

function drawLabel(edge, parent) {
  if (edge.lx == null) return
  const at = { class: `label ${edge.loop ? "loop" : edge.kind}`, "text-anchor": edge.anchor }
  const text = shape("text", at, parent)
  const lines = edge.text ? [edge.text, ...edge.label] : edge.label
  const axes = axesOf(edge.label)
  lines.forEach((line, i) => {
    const isCaption = edge.text && i === 0
    const span = shape("tspan", { x: edge.lx, y: edge.ly + i * LINE_H, class: isCaption ? "caption" : "mono" }, text)
    if (isCaption) span.textContent = line; else drawAxes(line, axes, span)
  })
}

function drawToggle(node, parent) {
  const at = node.open ? [10, 9] : [node.more ? -9 : 9, node.h / 2 - 9]
  const g = shape("g", { class: `toggle${node.more ? " more" : ""}`, "data-toggle": node.id, transform: `translate(${at})` }, parent)
  shape("rect", { width: 18, height: 18, rx: 5 }, g)
  shape("path", { d: node.open ? "M5.5,9H12.5" : "M5.5,9H12.5M9,5.5V12.5" }, g)
}

// Title and badge of an open group, over the lines that enter it.
function drawHeader(node, parent) {
  const over = shape("g", { class: `header k-${node.kind}`, transform: `translate(${node.x},${node.y})` }, parent)
  shape("text", { class: "title", x: 36, y: 22.5 }, over, node.title)
  if (!node.badge) return
  const g = shape("g", { class: "badge" }, over), x = node.w - node.badge_w - 12
  shape("rect", { x, y: 9, width: node.badge_w, height: 18, rx: 9 }, g)
  shape("text", { x: x + node.badge_w / 2, y: 22, "text-anchor": "middle" }, g, node.badge)
}

function drawTexts(node, parent) {
  const x = node.w / 2 + (node.group ? 12 : 0), middle = isRail(node) ? 34 : node.h / 2
  const g = shape("g", { class: "texts" }, parent)
  shape("text", { class: "title", x, y: middle + (node.row ? -3 : 4.5), "text-anchor": "middle" }, g, node.title)
  const cls = node.row && node.row === node.mono ? "row mono" : "row"
  shape("text", { class: cls, x, y: middle + 13.5, "text-anchor": "middle" }, g, node.row)
}

function drawNode(node, parent) {
  const open = node.group && node.open
  const states = [open && "group", node.io && "io", node.level, node.mark && `m-${node.mark}`, isRail(node) && "rail"].filter(Boolean).join(" ")
  const g = shape("g", {
    class: `node k-${node.kind} ${states}`, "data-id": node.id, transform: `translate(${node.x},${node.y})`,
    role: "treeitem", tabindex: -1, "aria-level": node.depth + 1,
    "aria-label": [node.title, node.sub, count(node.params), MARKS[node.mark]].filter(Boolean).join(", "),
  }, parent)
  if (node.group || node.more) g.setAttribute("aria-expanded", String(!!node.open))
  const rx = node.io ? node.h / 2 : open ? 14 : 8
  shape("rect", { class: "ring", x: -3.5, y: -3.5, width: node.w + 7, height: node.h + 7, rx: rx + 3.5 }, g)
  shape("rect", { class: "box", width: node.w, height: node.h, rx }, g)
  if (!open) drawTexts(node, g)
  if (node.group || node.more) drawToggle(node, g)
  return g
}

// After a run the second row shows the value measured there; without one, the text from Python.
function drawLive(node, g, text) {
  const row = g.querySelector(".row")
  if (!row) return
  row.textContent = text || node.row
  row.classList.toggle("live", !!text)
}

function drawLegend(parent) {
  const legend = html("div", "legend", parent)
  const entry = (name, sign) => html("span", "", legend, name).prepend(sign)
  for (const [kind, name] of KINDS) entry(name, html("i", `k-${kind}`, legend))
  html("span", "gap", legend)
  for (const [kind, name] of LINES) {
    const sign = shape("svg", { "aria-hidden": "true" })
    drawEdge({ kind, points: [[0, 5], [24, 5]] }, sign, true)
    entry(name, sign)
  }
}
