// The architecture diagram: draws a scene that was laid out in Python. No imports, nothing is fetched.
const NS = "http://www.w3.org/2000/svg"
const KINDS = [
  ["attention", "attention"], ["ffn", "FFN / MoE"], ["norm", "norm / residual"],
  ["embed", "embedding / head"], ["aux", "block store"], ["structure", "structure"],
]
const LINES = [["flow", "activations"], ["sum", "running sum"], ["store", "block sums"]]
const FAR = 0.55, VERY_FAR = 0.25, MAX_FIT = 1.15, MIN_FIT = 0.62, CLICK = 4, RAIL = 90, LINE_H = 12

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
    const [before, here, after] = [points[i - 1], points[i], points[i + 1]]
    const r = Math.min(8, distance(before, here) / 2, distance(here, after) / 2)
    const toward = (p) => [here[0] + Math.sign(p[0] - here[0]) * r, here[1] + Math.sign(p[1] - here[1]) * r]
    d += `L${toward(before)}Q${here} ${toward(after)}`
  }
  return `${d}L${points.at(-1)}`
}

// A triangle whose tip is at `tip`, pointing away from `from`.
function arrow(from, tip) {
  const dx = Math.sign(tip[0] - from[0]), dy = Math.sign(tip[1] - from[1])
  const [x, y] = [tip[0] - 7 * dx, tip[1] - 7 * dy]
  return `M${tip}L${x - 3.6 * dy},${y - 3.6 * dx}L${x + 3.6 * dy},${y + 3.6 * dx}Z`
}

// The lane of a loop says which way it runs: an arrow in the middle of its upright stretch.
function halfway(points) {
  const i = points.findIndex((p, i) => i > 1 && p[0] === points[i - 1][0])
  const [a, b] = [points[i - 1], points[i]]
  return arrow(a, [a[0], (a[1] + b[1]) / 2])
}

function drawEdge(edge, parent, enters) {
  const g = shape("g", { class: `edge ${edge.kind}` }, parent)
  shape("path", { class: "path", d: rounded(edge.points) }, g)
  if (enters) shape("path", { class: "head", d: arrow(edge.points.at(-2), edge.points.at(-1)) }, g)
  if (edge.loop && edge.kind !== "store") shape("path", { class: "head", d: halfway(edge.points) }, g)
  return g
}

function drawLabel(edge, parent) {
  if (edge.lx == null) return
  const at = { class: `label ${edge.loop ? "loop" : edge.kind}`, "text-anchor": edge.anchor }
  const text = shape("text", at, parent)
  const lines = edge.text ? [edge.text, ...edge.label] : edge.label
  lines.forEach((line, i) => {
    const cls = edge.text && i === 0 ? "words" : "mono"
    shape("tspan", { x: edge.lx, y: edge.ly + i * LINE_H, class: cls }, text, line)
  })
}

function drawToggle(node, parent) {
  const at = node.open ? [10, 9] : [9, node.h / 2 - 9]
  const g = shape("g", { class: "toggle", "data-toggle": node.id, transform: `translate(${at})` }, parent)
  shape("rect", { width: 18, height: 18, rx: 5 }, g)
  shape("path", { d: node.open ? "M5.5,9H12.5" : "M5.5,9H12.5M9,5.5V12.5" }, g)
}

function drawHeader(node, parent) {
  shape("text", { class: "title", x: 36, y: 22.5 }, parent, node.title)
  if (!node.badge) return
  const g = shape("g", { class: "badge" }, parent), x = node.w - node.badge_w - 12
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
  const states = [open && "group", node.io && "io", isRail(node) && "rail"].filter(Boolean).join(" ")
  const g = shape("g", {
    class: `node k-${node.kind} ${states}`, "data-id": node.id, transform: `translate(${node.x},${node.y})`,
    role: "treeitem", tabindex: -1, "aria-level": node.depth + 1,
    "aria-label": [node.title, node.sub, count(node.params)].filter(Boolean).join(", "),
  }, parent)
  if (node.group) g.setAttribute("aria-expanded", String(!!node.open))
  const rx = node.io ? node.h / 2 : open ? 14 : 8
  shape("rect", { class: "ring", x: -3.5, y: -3.5, width: node.w + 7, height: node.h + 7, rx: rx + 3.5 }, g)
  shape("rect", { class: "box", width: node.w, height: node.h, rx }, g)
  if (open) drawHeader(node, g); else drawTexts(node, g)
  if (node.group) drawToggle(node, g)
  return g
}

// After a run the second row shows the value measured there; without one, the words from Python.
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

export function render({ model, el }) {
  const wrap = html("div", "k3d", el)
  drawLegend(wrap)
  const stage = html("div", "stage", wrap)
  const svg = shape("svg", { class: "tree", role: "tree", "aria-label": "Architecture diagram" }, stage)
  const root = shape("g", {}, svg)
  const layer = Object.fromEntries(["groups", "edges", "labels", "nodes"].map((name) => [name, shape("g", {}, root)]))
  layer.labels.setAttribute("aria-hidden", "true")
  const tip = html("div", "tip", stage)
  tip.setAttribute("role", "tooltip")

  const view = { x: 0, y: 0, k: 1 }
  let nodes = new Map(), drawn = new Map(), lines = [], size = { width: 0, height: 0 }
  let moved = false, whole = false, current = null, pending = null, press = null

  // ---- camera
  const apply = () => {
    root.setAttribute("transform", `translate(${view.x},${view.y}) scale(${view.k})`)
    wrap.classList.toggle("far", view.k < FAR)
    wrap.classList.toggle("veryfar", view.k < VERY_FAR)
    for (const [id, g] of drawn) if (isRail(nodes.get(id))) followRail(nodes.get(id), g)
  }
  // The words of a tall box stay in sight while it scrolls by.
  const followRail = (node, g) => {
    const down = clamp((12 - view.y) / view.k - node.y, 0, node.h - 64)
    g.querySelector(".texts").setAttribute("transform", `translate(0,${down})`)
  }
  const fit = (all) => {
    const { width, height } = model.scene
    if (!size.width || !width) return
    const across = size.width / width
    view.k = all ? Math.min(across, size.height / height, MAX_FIT) : clamp(across, MIN_FIT, MAX_FIT)
    const first = model.scene.nodes[0], axis = view.k > across ? first.x + first.w / 2 : width / 2
    view.x = size.width / 2 - axis * view.k
    view.y = all ? (size.height - height * view.k) / 2 : Math.max(0, (size.height - height * view.k) / 2)
    whole = all
    apply()
  }
  const zoom = (factor, x = size.width / 2, y = size.height / 2) => {
    const k = clamp(view.k * factor, 0.05, 4), f = k / view.k
    Object.assign(view, { k, x: x - (x - view.x) * f, y: y - (y - view.y) * f })
    moved = true
    apply()
  }
  // Pan inside the drawing's bounds; returns how much of dy was left over, for the page to scroll.
  const pan = (dx, dy) => {
    const w = model.scene.width * view.k, h = model.scene.height * view.k
    const free = size.height - h - 56
    view.x = clamp(view.x + dx, size.width * 0.5 - w, size.width * 0.5)
    const y = clamp(view.y + dy, Math.min(view.y, 8, free), Math.max(view.y, 8, free))
    const rest = dy - (y - view.y)
    view.y = y
    moved = true
    apply()
    return rest
  }
  // Bring a box into sight; a tall one that shows anywhere stays where it is.
  const reveal = (id) => {
    const n = nodes.get(id)
    if (!n || !size.width) return
    const x = n.x * view.k + view.x, y = n.y * view.k + view.y, w = n.w * view.k, h = n.h * view.k
    const shows = x + w > 24 && x < size.width - 24 && y + h > 24 && y < size.height - 24
    if (shows && (n.open || n.h > RAIL || (x >= 0 && x + w <= size.width && y >= 0 && y + h <= size.height))) return
    if (x < 0 || x + w > size.width) view.x += size.width / 2 - (x + w / 2)
    if (y < 0 || y + h > size.height) view.y += size.height / 3 - y
    apply()
  }
  const anchor = (n) => [(n.x + 18) * view.k + view.x, (n.y + (n.open ? 18 : n.h / 2)) * view.k + view.y]

  // ---- drawing
  const draw = () => {
    const { nodes: all = [], edges = [] } = model.scene
    for (const g of Object.values(layer)) g.replaceChildren()
    nodes = new Map(all.map((n) => [n.id, n]))
    const place = (n) => [n.id, drawNode(n, n.group && n.open ? layer.groups : layer.nodes)]
    drawn = new Map([...all].sort((a, b) => a.depth - b.depth).map(place))
    const rank = { store: 0, sum: 1, flow: 2 }
    lines = [...edges].sort((a, b) => rank[a.kind] - rank[b.kind]).map((edge) => {
      drawLabel(edge, layer.labels)
      return { edge, g: drawEdge(edge, layer.edges, edge.members.some(([, b]) => b === edge.target)) }
    })
    live()
    mark()
  }
  const live = () => drawn.forEach((g, id) => drawLive(nodes.get(id), g, model.live?.[id]))
  const inside = (id, group) => {
    for (let n = nodes.get(id); n; n = nodes.get(n.parent)) if (n.id === group) return true
    return false
  }
  // Selection: outline the box, colour what goes in and what comes out.
  const mark = () => {
    const id = model.selected
    tip.classList.remove("on")
    for (const [key, g] of drawn) {
      g.classList.toggle("sel", key === id)
      g.setAttribute("aria-selected", String(key === id))
    }
    for (const { edge, g } of lines) {
      const ends = edge.members.map(([a, b]) => [inside(a, id), inside(b, id)])
      const into = ends.some(([a, b]) => b && (!a || edge.loop)), out = ends.some(([a, b]) => a && (!b || edge.loop))
      g.classList.toggle("in", into)
      g.classList.toggle("out", out && !into)
      if (into || out) layer.edges.append(g)
    }
    rove([current, id].find((key) => drawn.has(key)) ?? nodes.keys().next().value)
  }
  const rove = (id) => drawn.forEach((g, key) => g.setAttribute("tabindex", key === id ? 0 : -1))
  const pick = (id) => {
    if (model.selected !== id) model.selected = id
    mark()
  }
  const toggle = (id) => {
    pending = { id, at: anchor(nodes.get(id)) }
    moved = true
    model.send_msg({ type: "toggle", id })
  }
  const focus = (id) => {
    if (!drawn.has(id)) return
    rove(id)
    drawn.get(id).focus({ preventScroll: true }) // focus reveals it
  }

  // ---- pointer: one drags, two pinch; under 4 px it was a click
  const fingers = new Map()
  const local = (ev) => {
    const box = stage.getBoundingClientRect()
    return [ev.clientX - box.left, ev.clientY - box.top]
  }
  const under = (ev, key) => ev.target.closest?.(`[data-${key}]`)?.dataset[key]
  const pinch = (before) => {
    const [a, b] = [...fingers.values()], [p, q] = before
    const far = Math.hypot(a[0] - b[0], a[1] - b[1]) / Math.max(1, Math.hypot(p[0] - q[0], p[1] - q[1]))
    const middle = [(a[0] + b[0]) / 2, (a[1] + b[1]) / 2]
    zoom(far, ...middle)
    pan(middle[0] - (p[0] + q[0]) / 2, middle[1] - (p[1] + q[1]) / 2)
  }
  const down = (ev) => {
    if (ev.button) return
    fingers.set(ev.pointerId, local(ev))
    press = { id: under(ev, "id"), toggle: under(ev, "toggle"), at: local(ev), dragged: fingers.size > 1 }
  }
  const drag = (ev) => {
    const before = [...fingers.values()], last = fingers.get(ev.pointerId), here = local(ev)
    if (!press.dragged && Math.hypot(here[0] - press.at[0], here[1] - press.at[1]) < CLICK) return
    if (!press.dragged) svg.setPointerCapture(ev.pointerId)
    press.dragged = true
    svg.classList.add("pan")
    tip.classList.remove("on")
    fingers.set(ev.pointerId, here)
    if (fingers.size === 2) return pinch(before)
    const rest = pan(here[0] - last[0], here[1] - last[1])
    if (ev.pointerType === "touch" && rest) window.scrollBy(0, -rest)
  }
  const click = () => {
    if (press.toggle) return toggle(press.toggle)
    if (!press.id) return
    focus(press.id)
    pick(press.id)
  }
  const up = (ev) => {
    fingers.delete(ev.pointerId)
    if (press && !press.dragged && ev.type === "pointerup") click()
    if (fingers.size) return
    press = null
    svg.classList.remove("pan")
  }
  const hover = (ev) => {
    const n = nodes.get(under(ev, "id"))
    tip.classList.toggle("on", !!n && ev.pointerType !== "touch")
    if (!n) return
    if (tip.dataset.id !== n.id) {
      tip.replaceChildren()
      html("b", "", tip, n.title)
      for (const text of [n.summary, n.sub, count(n.params)]) if (text) html("span", "", tip, text)
    }
    tip.dataset.id = n.id
    const [x, y] = local(ev)
    const left = clamp(x + 16, 4, size.width - tip.offsetWidth - 4)
    const top = y + 20 + tip.offsetHeight > size.height ? y - tip.offsetHeight - 12 : y + 20
    tip.style.transform = `translate(${left}px,${top}px)`
  }
  svg.addEventListener("pointerdown", down)
  svg.addEventListener("pointermove", (ev) => (fingers.has(ev.pointerId) && press ? drag(ev) : hover(ev)))
  for (const name of ["pointerup", "pointercancel"]) svg.addEventListener(name, up)
  svg.addEventListener("pointerleave", (ev) => {
    tip.classList.remove("on")
    if (!svg.hasPointerCapture(ev.pointerId)) up(ev)
  })
  svg.addEventListener("dblclick", (ev) => {
    const n = nodes.get(under(ev, "id"))
    if (n?.group && !under(ev, "toggle")) toggle(n.id)
  })
  svg.addEventListener("wheel", (ev) => {
    const near = ev.ctrlKey || ev.metaKey, step = ev.deltaMode === 1 ? 20 : 1
    if (near) zoom(Math.exp(-clamp(ev.deltaY, -60, 60) * 0.01), ...local(ev))
    if (near || !pan(-ev.deltaX * step, -ev.deltaY * step) || ev.deltaX) ev.preventDefault()
  }, { passive: false })

  // ---- keyboard
  const siblings = (parent) => model.scene.nodes.filter((n) => n.parent === parent)
    .sort((a, b) => a.y - b.y || a.x - b.x).map((n) => n.id)
  const moves = {
    ArrowDown: (n, row) => focus(row[row.indexOf(n.id) + 1]),
    ArrowUp: (n, row) => focus(row[row.indexOf(n.id) - 1] ?? n.parent),
    ArrowRight: (n) => (n.group && !n.open ? toggle(n.id) : focus(siblings(n.id)[0])),
    ArrowLeft: (n) => (n.group && n.open ? toggle(n.id) : focus(n.parent)),
    Home: () => focus(siblings(null)[0]),
    End: () => focus(siblings(null).at(-1)),
    Enter: (n) => pick(n.id),
    " ": (n) => pick(n.id),
  }
  const keys = {
    Escape: () => pick(""), "+": () => zoom(1.25), "=": () => zoom(1.25), "-": () => zoom(0.8),
    0: () => { moved = true; fit(!whole) },
  }
  svg.addEventListener("keydown", (ev) => {
    const n = nodes.get(under(ev, "id"))
    if (ev.ctrlKey || ev.metaKey || ev.altKey || !(keys[ev.key] || (n && moves[ev.key]))) return
    if (keys[ev.key]) keys[ev.key](); else moves[ev.key](n, siblings(n.parent))
    ev.preventDefault()
  })
  svg.addEventListener("focusin", (ev) => {
    if (current !== under(ev, "id")) reveal((current = under(ev, "id")))
  })

  // ---- toolbar
  const bar = html("div", "bar", stage)
  const button = (text, label, onclick) => {
    const b = Object.assign(html("button", "", bar, text), { type: "button", title: label, onclick })
    b.setAttribute("aria-label", label)
  }
  button("+", "Zoom in", () => zoom(1.25))
  button("−", "Zoom out", () => zoom(0.8))
  button("Fit", "Fit the whole diagram, then its width", keys[0])
  button("1:1", "Actual size", () => zoom(1 / view.k))

  // ---- what Python changes
  const redraw = () => {
    const focused = wrap.getRootNode().activeElement?.dataset?.id
    draw()
    const n = pending && nodes.get(pending.id), [x, y] = n ? anchor(n) : []
    if (n) Object.assign(view, { x: view.x + pending.at[0] - x, y: view.y + pending.at[1] - y })
    pending = null
    if (moved) apply(); else fit(false)
    if (drawn.has(focused)) drawn.get(focused).focus({ preventScroll: true })
  }
  const theme = () => wrap.classList.toggle("dark", model.dark)
  model.on("scene", redraw)
  model.on("selected", () => { mark(); reveal(model.selected) })
  model.on("dark", theme)
  model.on("live", live)
  theme()
  draw()

  const observer = new ResizeObserver(() => {
    const first = !size.width
    size = { width: stage.clientWidth, height: stage.clientHeight }
    if (!size.width) return
    if (!moved) fit(false)
    if (first || !moved) reveal(model.selected)
    if (first) requestAnimationFrame(() => performance.mark("diagram-painted"))
  })
  observer.observe(stage)
  model.on("remove", () => observer.disconnect())
}
