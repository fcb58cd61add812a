// The architecture diagram: a scene that was laid out in Python, walked by pointer and keyboard.
/**
 * Draws `model` into `el` and keeps it in step. Reads scene, layer_texts, live, dark; reads and writes selected
 * and camera. Of a local model also: floor (where what lies over the stage begins, in client pixels), view (the
 * camera of another drawing of the same size) and onView, called with its own. Sends {type: "toggle", id}.
 */
function drawDiagram(model, el) {
  const wrap = html("div", "k3d", el)
  drawLegend(wrap)
  const stage = html("div", "stage", wrap)
  const svg = shape("svg", { class: "tree", role: "tree", "aria-label": "Architecture diagram" }, stage)
  const root = shape("g", {}, svg)
  const layer = Object.fromEntries(["groups", "edges", "labels", "nodes"].map((name) => [name, shape("g", {}, root)]))
  layer.labels.setAttribute("aria-hidden", "true")
  const tip = html("div", "tip", stage)
  tip.setAttribute("role", "tooltip")

  const stop = new AbortController(), calm = matchMedia("(prefers-reduced-motion: reduce)")
  const map = minimap(stage, (x, y) => { flyTo(size.width / 2 - x * view.k, size.height / 2 - y * view.k, 0); saveCamera() })
  const view = { x: 0, y: 0, k: 1 }
  let nodes = new Map(), drawn = new Map(), lines = [], size = { width: 0, height: 0 }
  let moved = false // by the visitor: then the view stays when the stage or the scene changes
  let fitsAll = false // the next press of Fit shows the width
  let focusedId = null, toggling = null, press = null, revealTarget = null
  let animation = 0, saveTimer = 0, savedCamera = "", restored = null // restored: the view as the link had it

  // ---- camera
  const apply = () => {
    root.setAttribute("transform", `translate(${view.x},${view.y}) scale(${view.k})`)
    wrap.classList.toggle("far", view.k < FAR)
    wrap.classList.toggle("veryfar", view.k < VERY_FAR)
    for (const [id, g] of drawn) if (isRail(nodes.get(id))) followRail(nodes.get(id), g)
    map.follow(view, size, moved)
    model.onView?.(view)
  }
  // Another drawing of the same size that this one goes along with.
  const followView = () => { Object.assign(view, model.view); moved = true; apply() }
  // The camera in the link: the middle of the stage in units of the drawing, and the zoom.
  const saveCamera = () => {
    clearTimeout(saveTimer)
    saveTimer = setTimeout(() => {
      const at = (pan, side) => Math.round((side / 2 - pan) / view.k)
      savedCamera = moved ? `${at(view.x, size.width)},${at(view.y, size.height)},${Number(view.k.toFixed(3))}` : ""
      model.camera = savedCamera
    }, 250)
  }
  const restoreCamera = () => {
    savedCamera = model.camera
    if (!size.width) return
    if (!savedCamera) { moved = false; return fit(false) }
    const [x, y, k] = savedCamera.split(",").map(Number)
    restored = { k, x: size.width / 2 - x * k, y: size.height / 2 - y * k }
    Object.assign(view, restored)
    moved = true
    apply()
  }
  const isAsRestored = () => restored !== null && Object.keys(restored).every((key) => view[key] === restored[key])
  // Move there in a moment that the eye can follow, or at once for who wants no motion.
  const flyTo = (x, y, ms = 260) => {
    cancelAnimationFrame(animation)
    const from = { ...view }, start = performance.now()
    const frame = (now) => {
      const t = ms && !calm.matches ? clamp((now - start) / ms, 0, 1) : 1, ease = t * (2 - t)
      view.x = from.x + (x - from.x) * ease
      view.y = from.y + (y - from.y) * ease
      apply()
      if (t < 1) animation = requestAnimationFrame(frame)
    }
    frame(start)
  }
  // The texts of a tall box stay visible while it scrolls by.
  const followRail = (node, g) => {
    const offset = clamp((12 - view.y) / view.k - node.y, 0, node.h - 64)
    g.querySelector(".texts").setAttribute("transform", `translate(0,${offset})`)
  }
  const fit = (all) => {
    const { width, height } = model.scene
    if (!size.width || !width) return
    const across = size.width / width
    const wide = across < FAR ? MIN_FIT : Math.min(across, MAX_FIT) // everything as long as texts can be read, else larger and cut off
    view.k = all ? Math.min(across, size.height / height, MAX_FIT) : wide
    const first = nodes.get("attn_norm") ?? model.scene.nodes[0], axis = view.k > across ? first.x + first.w / 2 : width / 2
    view.x = size.width / 2 - axis * view.k
    view.y = all ? (size.height - height * view.k) / 2 : Math.max(0, (size.height - height * view.k) / 2)
    const before = !all && nodes.get("earlier_layers") // a layer on show stands at the top, with what feeds it
    if (before) view.y = 12 - before.y * view.k
    fitsAll = all
    apply()
  }
  const zoom = (factor, x = size.width / 2, y = size.height / 2) => {
    cancelAnimationFrame(animation)
    const k = clamp(view.k * factor, 0.05, 4), f = k / view.k
    Object.assign(view, { k, x: x - (x - view.x) * f, y: y - (y - view.y) * f })
    moved = true
    apply()
    saveCamera()
  }
  // Pan inside the drawing's bounds; returns how much of dy was left over, for the page to scroll.
  const pan = (dx, dy) => {
    cancelAnimationFrame(animation)
    const w = model.scene.width * view.k, h = model.scene.height * view.k
    const free = size.height - h - 56
    view.x = clamp(view.x + dx, size.width * 0.5 - w, size.width * 0.5)
    const y = clamp(view.y + dy, Math.min(view.y, 8, free), Math.max(view.y, 8, free))
    const rest = dy - (y - view.y)
    view.y = y
    moved = true
    apply()
    saveCamera()
    return rest
  }
  // Height of the stage that can be seen: on a phone the inspector lies over the lower part.
  const visibleHeight = () => Math.min(size.height, (model.floor ?? Infinity) - stage.getBoundingClientRect().top)
  // Move the camera so that a box is visible; a tall one that shows anywhere stays where it is.
  const reveal = (id, ms = 0) => {
    const n = nodes.get(id), height = visibleHeight()
    if (!n || !size.width) return
    const x = n.x * view.k + view.x, y = n.y * view.k + view.y, w = n.w * view.k, h = n.h * view.k
    const shows = x + w > 24 && x < size.width - 24 && y + h > 24 && y < height - 24
    if (shows && (n.open || n.h > RAIL || (x >= 0 && x + w <= size.width && y >= 0 && y + h <= height))) return
    const right = x < 0 || x + w > size.width ? size.width / 2 - (x + w / 2) : 0
    const lower = y < 0 || y + h > height ? height / 3 - y : 0
    flyTo(view.x + right, view.y + lower, ms)
  }
  const anchor = (n) => [(n.x + 18) * view.k + view.x, (n.y + (n.open ? 18 : n.h / 2)) * view.k + view.y]

  // ---- drawing
  const draw = () => {
    const { nodes: template = [], edges = [] } = model.scene
    const all = template.map((n) => ({ ...n, ...model.layer_texts[n.id] }))
    map.draw(model.scene)
    for (const g of Object.values(layer)) g.replaceChildren()
    nodes = new Map(all.map((n) => [n.id, n]))
    const drawBox = (n) => {
      const open = n.group && n.open
      if (open) drawHeader(n, layer.labels)
      return [n.id, drawNode(n, open ? layer.groups : layer.nodes)]
    }
    drawn = new Map([...all].sort((a, b) => a.depth - b.depth).map(drawBox))
    const rank = { store: 0, sum: 1, flow: 2 }
    lines = [...edges].sort((a, b) => rank[a.kind] - rank[b.kind]).map((edge) => {
      drawLabel(edge, layer.labels)
      return { edge, g: drawEdge(edge, layer.edges, edge.members.some(([, b]) => b === edge.target)) }
    })
    drawLiveTexts()
    markSelection()
  }
  // A letter of the equation: the box it lives in, or the closed group around it, and its way to the selection.
  const highlight = ({ detail }) => {
    const id = detail.find((key) => drawn.has(key)), to = boxOf(model.selected)
    drawn.forEach((g, key) => g.classList.toggle("lit", key === id))
    for (const { edge, g } of lines)
      g.classList.toggle("lit", !!id && id !== to && edge.members.some(([a, b]) => inside(a, id) && inside(b, to)))
  }
  const drawLiveTexts = () => drawn.forEach((g, id) => drawLive(nodes.get(id), g, model.live?.[id]))
  const inside = (id, group) => {
    for (let n = nodes.get(id); n; n = nodes.get(n.parent)) if (n.id === group) return true
    return false
  }
  // The selection is a box, a part of one ("kda_decay/mm1"), or an arrow to or from one ("kda_decay/to.kda_delta_rule").
  const boxOf = (id) => (drawn.has(id) ? id : id.split("/")[0])
  const isSelected = (edge) => edge.members.some((ends) => namesOf(ends).includes(model.selected))
  const namesOf = ([a, b]) => {
    const [from, to] = [a, b].map((end) => end.split("/")[0])
    if (from === to) return [a]
    return nodes.get(from)?.io ? [`${to}/from.${from}`] : [`${from}/to.${to}`]
  }
  const selectEdge = (id) => {
    const { edge } = lines.find((line) => line.edge.id === id)
    const names = [...new Set(edge.members.flatMap(namesOf))]
    select(names[(names.indexOf(model.selected) + 1) % names.length]) // edges that share a trunk are selected one after the other
  }
  const selectNextEdge = (id) => {
    const names = [...new Set(lines.flatMap(({ edge }) => edge.members.filter(([a]) => inside(a, id)).flatMap(namesOf)))]
    if (names.length) select(names[(names.indexOf(model.selected) + 1) % names.length])
  }
  // Selection: outline the box, colour what goes in and what comes out.
  const markSelection = () => {
    const id = boxOf(model.selected)
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
      g.classList.toggle("chosen", id !== model.selected && isSelected(edge))
      if (into || out) layer.edges.append(g)
    }
    setTabStop([focusedId, id].find((key) => drawn.has(key)) ?? nodes.keys().next().value)
  }
  const setTabStop = (id) => drawn.forEach((g, key) => g.setAttribute("tabindex", key === id ? 0 : -1))
  const select = (id) => {
    if (model.selected !== id) model.selected = id
    markSelection()
  }
  const toggle = (id) => {
    toggling = { id, anchor: anchor(nodes.get(id)) } // it stays under the pointer in the next scene
    moved = true
    model.send_msg({ type: "toggle", id })
  }
  const focus = (id) => {
    if (!drawn.has(id)) return
    setTabStop(id)
    drawn.get(id).focus({ preventScroll: true }) // focus reveals it
  }

  // ---- pointer: one drags, two pinch; under 4 px it was a click
  const fingers = new Map()
  const stagePoint = (ev) => {
    const box = stage.getBoundingClientRect()
    return [ev.clientX - box.left, ev.clientY - box.top]
  }
  const under = (ev, key) => ev.target.closest?.(`[data-${key}]`)?.dataset[key]
  const pinch = (before) => { // before: the two fingers as they were
    const [a, b] = [...fingers.values()], [p, q] = before
    const factor = Math.hypot(a[0] - b[0], a[1] - b[1]) / Math.max(1, Math.hypot(p[0] - q[0], p[1] - q[1]))
    const middle = [(a[0] + b[0]) / 2, (a[1] + b[1]) / 2]
    zoom(factor, ...middle)
    pan(middle[0] - (p[0] + q[0]) / 2, middle[1] - (p[1] + q[1]) / 2)
  }
  const down = (ev) => {
    if (ev.button) return
    fingers.set(ev.pointerId, stagePoint(ev))
    press = { id: under(ev, "id"), toggle: under(ev, "toggle"), edge: under(ev, "edge"), start: stagePoint(ev), dragged: fingers.size > 1 }
  }
  const drag = (ev) => {
    const before = [...fingers.values()], last = fingers.get(ev.pointerId), point = stagePoint(ev)
    if (!press.dragged && Math.hypot(point[0] - press.start[0], point[1] - press.start[1]) < CLICK) return
    if (!press.dragged) svg.setPointerCapture(ev.pointerId)
    press.dragged = true
    svg.classList.add("pan")
    tip.classList.remove("on")
    fingers.set(ev.pointerId, point)
    if (fingers.size === 2) return pinch(before)
    const rest = pan(point[0] - last[0], point[1] - last[1])
    if (ev.pointerType === "touch" && rest) window.scrollBy(0, -rest)
  }
  const click = () => {
    if (press.toggle) return toggle(press.toggle)
    if (press.edge) return selectEdge(press.edge)
    if (!press.id) return
    focus(press.id)
    select(press.id)
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
    const [x, y] = stagePoint(ev)
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
    if ((n?.group || n?.more) && !under(ev, "toggle")) toggle(n.id)
  })
  svg.addEventListener("wheel", (ev) => {
    const zooming = ev.ctrlKey || ev.metaKey, step = ev.deltaMode === 1 ? 20 : 1
    if (zooming) zoom(Math.exp(-clamp(ev.deltaY, -60, 60) * 0.01), ...stagePoint(ev))
    if (zooming || !pan(-ev.deltaX * step, -ev.deltaY * step) || ev.deltaX) ev.preventDefault()
  }, { passive: false })

  // ---- keyboard
  const siblings = (parent) => model.scene.nodes.filter((n) => n.parent === parent)
    .sort((a, b) => a.y - b.y || a.x - b.x).map((n) => n.id)
  const moves = {
    ArrowDown: (n, row) => focus(row[row.indexOf(n.id) + 1]),
    ArrowUp: (n, row) => focus(row[row.indexOf(n.id) - 1] ?? n.parent),
    ArrowRight: (n) => (n.more || (n.group && !n.open) ? toggle(n.id) : focus(siblings(n.id)[0])),
    ArrowLeft: (n) => (n.group && n.open ? toggle(n.id) : focus(n.parent)),
    Home: () => focus(siblings(null)[0]),
    End: () => focus(siblings(null).at(-1)),
    Enter: (n) => select(n.id),
    e: (n) => selectNextEdge(n.id),
    " ": (n) => select(n.id),
  }
  const keys = {
    Escape: () => select(""), "+": () => zoom(1.25), "=": () => zoom(1.25), "-": () => zoom(0.8),
    0: () => { fit(!fitsAll); moved = fitsAll; saveCamera() },
  }
  svg.addEventListener("keydown", (ev) => {
    const n = nodes.get(under(ev, "id"))
    if (ev.ctrlKey || ev.metaKey || ev.altKey || !(keys[ev.key] || (n && moves[ev.key]))) return
    if (ev.key === "Escape" && !model.selected) return // the page leaves the layer
    if (keys[ev.key]) keys[ev.key](); else moves[ev.key](n, siblings(n.parent))
    ev.preventDefault()
  })
  svg.addEventListener("focusin", (ev) => {
    if (focusedId !== under(ev, "id")) reveal((focusedId = under(ev, "id")))
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
  let redrawQueued = false
  const redraw = () => { // scene and texts may change in one message: one drawing
    if (!redrawQueued) queueMicrotask(redrawNow)
    redrawQueued = true
  }
  const redrawNow = () => {
    redrawQueued = false
    const focused = wrap.getRootNode().activeElement?.dataset?.id
    draw()
    const n = toggling && nodes.get(toggling.id), [x, y] = n ? anchor(n) : []
    if (n) Object.assign(view, { x: view.x + toggling.anchor[0] - x, y: view.y + toggling.anchor[1] - y })
    toggling = null
    if (moved) apply(); else fit(false)
    if (drawn.has(focused)) drawn.get(focused).focus({ preventScroll: true })
    if (revealTarget) revealWhenDrawn()
  }
  // What is selected elsewhere is flown to, when it is drawn.
  const revealWhenDrawn = () => {
    if (!drawn.has(revealTarget) || !size.width) return
    const id = revealTarget
    revealTarget = null
    reveal(id, 260)
  }
  const theme = () => wrap.classList.toggle("dark", model.dark)
  model.on("scene", redraw)
  model.on("layer_texts", redraw)
  model.on("selected", () => { markSelection(); revealTarget = boxOf(model.selected); revealWhenDrawn() })
  model.on("camera", () => { if (model.camera !== savedCamera) restoreCamera() })
  model.on("dark", theme)
  model.on("view", followView)
  model.on("floor", () => { if (model.floor < Infinity) reveal(boxOf(model.selected), 260) })
  model.on("live", drawLiveTexts)
  document.addEventListener("k3-highlight", highlight)
  model.on("remove", () => document.removeEventListener("k3-highlight", highlight))
  theme()
  draw()

  const observer = new ResizeObserver(() => {
    const first = !size.width
    size = { width: stage.clientWidth, height: stage.clientHeight }
    if (!size.width) return
    if ((first && model.camera) || isAsRestored()) restoreCamera() // the middle stays the middle, whatever comes around the stage
    else if (!moved) fit(false)
    else if (savedCamera) saveCamera()
    if (first || !moved) reveal(boxOf(model.selected))
    if (revealTarget) revealWhenDrawn()
    if (first) requestAnimationFrame(() => performance.mark("diagram-painted"))
  })
  observer.observe(stage)
  followAxes(stage, stop.signal)
  model.on("remove", () => { observer.disconnect(); stop.abort() })
}
