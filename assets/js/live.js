// The Live tab, after dom.js: numbers and bars of one block. Everything is set as text.
const NS = "http://www.w3.org/2000/svg"
const svg = (tag, attributes, parent) => {
  const el = document.createElementNS(NS, tag)
  for (const [key, value] of Object.entries(attributes)) el.setAttribute(key, value)
  parent?.append(el)
  return el
}
const short = (value) => (Number.isInteger(value) ? value.toLocaleString("en-US") : value >= 99.95 ? Math.round(value).toLocaleString("en-US") : value.toPrecision(3))

const columns = ({ labels, values, tips, chosen, title }) => {
  const height = 96, width = 360, step = width / values.length, gap = step > 4 ? 1 : 0
  const top = Math.max(...values) || 1
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img" })
  picture.setAttribute("aria-label", `${title}: ${values.length} values, largest ${short(top)}`)
  values.forEach((value, i) => {
    const tall = (value / top) * height
    const bar = svg("g", { class: i === chosen ? "bar chosen" : "bar" }, picture)
    svg("rect", { class: "hit", x: i * step, y: 0, width: step, height }, bar)
    svg("rect", { x: i * step + gap / 2, y: height - tall, width: step - gap, height: tall }, bar)
    svg("title", {}, bar).textContent = tips[i]
  })
  const every = Math.ceil(labels.length / 12)
  const axis = h("div", { class: "axis", "aria-hidden": "true" },
    ...labels.map((label, i) => h("span", {}, i % every ? "" : label)))
  return h("div", { class: "columns" }, h("span", { class: "top" }, short(top)), picture, axis)
}

const rows = ({ labels, values, tips }) => {
  const top = Math.max(...values) || 1
  return h("ol", { class: "rows" }, ...values.map((value, i) => h("li", {},
    h("span", {}, labels[i]), h("i", {}, h("b", { style: `width:${(100 * value) / top}%` })), h("span", { class: "n" }, tips[i]))))
}

const chart = (c) => h("section", {}, h("h3", {}, c.title), h("p", {}, c.text), c.kind === "rows" ? rows(c) : columns(c))

const table = (t) => h("section", { class: "point", "data-testid": "point" },
  h("h3", {}, h("code", {}, t.name), h("span", {}, t.shape), t.bad ? h("em", {}, "NaN or infinity") : null),
  h("dl", {}, ...t.cells.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))))

export function render({ model, el }) {
  const root = h("div", { class: "frame" })
  el.append(root)
  const ask = (type, more = {}) => model.send_msg({ type, ...more })
  const empty = (r) => [
    h("p", { class: "lead" }, r.empty),
    h("button", { type: "button", class: "main", onclick: () => ask("example") }, `Run an example: ${r.example}`),
  ]
  const layers = (r) => h("div", { class: "layers", role: "group", "aria-label": "Layer shown" }, h("span", {}, "layer"),
    ...r.layers.map((layer) => h("button", {
      type: "button", "aria-pressed": String(layer === r.layer), onclick: () => ask("layer", { layer }),
    }, String(layer))))
  const full = (r) => [
    h("p", { class: "source" }, h("b", {}, r.source), badge_of(r.badge)),
    r.note ? h("p", {}, r.note, " ", r.draw
      ? h("button", { type: "button", class: "plain", onclick: () => ask("draw") }, `Draw ${r.draw}`) : null) : null,
    r.bad ? h("p", { class: "bad" }, r.bad) : null,
    r.layers.length ? layers(r) : null,
    ...r.charts.map(chart),
    r.tables.length ? h("h2", {}, "Outputs, over all tokens") : null,
    ...r.tables.map(table),
  ]
  const draw = () => {
    const r = model.readout
    const focused = root.getRootNode().activeElement?.textContent
    root.replaceChildren(...(r.source ? full(r) : r.empty ? empty(r) : []).filter(Boolean))
    for (const button of root.querySelectorAll(".layers button")) if (button.textContent === focused) button.focus()
  }
  model.on("readout", draw)
  draw()
}
