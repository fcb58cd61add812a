/**
 * The Live tab, after dom.js: numbers and bars of one block. Everything is set as text.
 *
 * Shows `readout`: { source, badge, note, drawable (title of a model to draw, or ""), layer, layers, problem,
 * charts: Chart[], tables: { name, shape, cells: [name, value][], not_finite }[] }, or { empty, example } before a run.
 * Sends { type: "layer", layer }, { type: "draw" } and { type: "example" }.
 *
 * @typedef {{ kind: "columns" | "rows", title: string, text: string, labels: string[], values: (number | null)[],
 *   tips: string[], chosen: number | null }} Chart
 */
const NS = "http://www.w3.org/2000/svg"
const svgElement = (tag, attributes, parent) => {
  const el = document.createElementNS(NS, tag)
  for (const [key, value] of Object.entries(attributes)) el.setAttribute(key, value)
  parent?.append(el)
  return el
}
const shortNumber = (value) => {
  if (Number.isInteger(value)) return value.toLocaleString("en-US")
  return value >= 99.95 ? Math.round(value).toLocaleString("en-US") : value.toPrecision(3)
}

// of what is finite; null has no bar
const largest = (values) => Math.max(0, ...values.filter((value) => value !== null)) || 1

const columnChart = ({ labels, values, tips, chosen, title }) => {
  const height = 96, width = 360, step = width / values.length, gap = step > 4 ? 1 : 0
  const top = largest(values), missing = values.filter((value) => value === null).length
  const scale = missing === values.length ? "not finite" : shortNumber(top)
  const picture = svgElement("svg", {
    viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img",
    "aria-label": `${title}: ${values.length} values, largest ${scale}${missing ? `, ${missing} not finite` : ""}`,
  })
  values.forEach((value, i) => {
    const barHeight = (value / top) * height
    const bar = svgElement("g", { class: i === chosen ? "bar chosen" : "bar" }, picture)
    svgElement("rect", { class: "hit", x: i * step, y: 0, width: step, height }, bar) // small values have a tip too
    if (value !== null) svgElement("rect", { x: i * step + gap / 2, y: height - barHeight, width: step - gap, height: barHeight }, bar)
    svgElement("title", {}, bar).textContent = tips[i]
  })
  const every = Math.ceil(labels.length / 12)
  const axis = h("div", { class: "axis", "aria-hidden": "true" },
    ...labels.map((label, i) => h("span", {}, i % every ? "" : label)))
  return h("div", { class: "columns" }, h("span", { class: "top" }, scale), picture, axis)
}

const rowChart = ({ labels, values, tips }) => {
  const top = largest(values)
  return h("ol", { class: "rows" }, ...values.map((value, i) => h("li", {},
    h("span", {}, labels[i]), h("i", {}, h("b", { style: `width:${(100 * (value ?? 0)) / top}%` })), h("span", { class: "n" }, tips[i]))))
}

const chartSection = (chart) => h("section", {}, h("h3", {}, chart.title), h("p", {}, chart.text),
  chart.kind === "rows" ? rowChart(chart) : columnChart(chart))

const tableSection = (table) => h("section", { class: "point", "data-testid": "point" },
  h("h3", {}, h("code", {}, table.name), h("span", {}, table.shape), table.not_finite ? h("em", {}, "NaN or infinity") : null),
  h("dl", {}, ...table.cells.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))))

export function render({ model, el }) {
  const root = h("div", { class: "frame" })
  el.append(root)
  const send = (type, fields = {}) => model.send_msg({ type, ...fields })
  const emptyParts = (r) => [
    h("p", { class: "lead" }, r.empty),
    h("button", { type: "button", class: "main", onclick: () => send("example") }, `Run an example: ${r.example}`),
  ]
  const layerButtons = (r) => h("div", { class: "layers", role: "group", "aria-label": "Layer shown" }, h("span", {}, "layer"),
    ...r.layers.map((layer) => h("button", {
      type: "button", "aria-pressed": String(layer === r.layer), onclick: () => send("layer", { layer }),
    }, String(layer))))
  const readoutParts = (r) => [
    h("p", { class: "source" }, h("b", {}, r.source), badgeOf(r.badge)),
    r.note ? h("p", {}, r.note, " ", r.drawable
      ? h("button", { type: "button", class: "plain", onclick: () => send("draw") }, `Draw ${r.drawable}`) : null) : null,
    r.problem ? h("p", { class: "problem" }, r.problem) : null,
    r.layers.length ? layerButtons(r) : null,
    ...r.charts.map(chartSection),
    r.tables.length ? h("h2", {}, "Outputs, over all tokens") : null,
    ...r.tables.map(tableSection),
  ]
  const draw = () => {
    const r = model.readout
    const focused = root.getRootNode().activeElement?.textContent
    root.replaceChildren(...(r.source ? readoutParts(r) : r.empty ? emptyParts(r) : []).filter(Boolean))
    for (const button of root.querySelectorAll(".layers button")) if (button.textContent === focused) button.focus()
  }
  model.on("readout", draw)
  draw()
}
