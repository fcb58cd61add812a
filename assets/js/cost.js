// The Cost view: controls write a point, its readings come back; any number explains where it comes from.
/**
 * Sends {point}, the values of FIELDS joined by commas as the link has them. Receives `point`, `results` (HTML)
 * and `problem`, a sentence on a point that cannot be read.
 */
const FIELDS = ["context", "batch", "phase", "experts", "conv", "device", "count"]
const INTERVAL = 40 // ms between two messages while a slider moves

export function render({ model, el }) {
  el.hidden = true
  const stage = document.getElementById("stage-cost")
  const stop = new AbortController()
  const on = (type, handler, options = {}) => stage.addEventListener(type, handler, { signal: stop.signal, ...options })
  const all = (query) => [...stage.querySelectorAll(query)]
  const place = (name) => stage.querySelector(`[data-cost=${name}]`)
  const control = (name) => stage.querySelector(`[data-field=${name}]`)

  // --- controls
  let timer = 0, sent = 0, pinned = "" // pinned: the number whose explanation stays
  const send = () => {
    timer ||= setTimeout(() => {
      timer = 0
      sent = performance.now()
      model.send_msg({ point: FIELDS.map((name) => control(name).value).join() })
    }, sent + INTERVAL - performance.now()) // the first one at once
  }
  const syncSlider = (range) => {
    const value = Number(control(range.dataset.log).value) || 1
    if (Math.round(2 ** range.value) !== value) range.value = Math.log2(value)
    range.setAttribute("aria-valuetext", `${value.toLocaleString("en")} ${range.dataset.log === "batch" ? "sequences" : "tokens"}`)
  }
  const show = () => {
    const values = model.point.split(",")
    FIELDS.forEach((name, i) => {
      const input = control(name)
      if (input !== document.activeElement && input.value !== values[i]) input.value = values[i]
    })
    all("[data-log]").forEach((range) => { if (range !== document.activeElement) syncSlider(range) })
  }
  on("input", ({ target }) => {
    if (target.dataset.log) {
      control(target.dataset.log).value = Math.round(2 ** target.value)
      syncSlider(target)
    } else if (target.dataset.field) {
      all(`[data-log=${target.dataset.field}]`).forEach(syncSlider)
    } else return
    send()
  })
  on("submit", (event) => event.preventDefault())

  // --- where a number comes from
  const showExplanation = (title, names, how) => {
    const parts = [["b", title], ["span", names], ["code", how]]
    place("how").replaceChildren(...parts.filter(([, text]) => text).flatMap(([tag, text]) => {
      const part = document.createElement(tag)
      part.textContent = text
      return [part, " "]
    }))
  }
  const explain = (target) => {
    const number = target.closest?.("[data-ask]")
    if (number) showExplanation(number.dataset.title, number.dataset.names, number.dataset.how)
    return number
  }
  const explainPinned = () => {
    const number = pinned && stage.querySelector(`[data-ask="${pinned}"]`)
    if (number) { explain(number); number.setAttribute("aria-pressed", true) }
  }
  on("pointerover", ({ target }) => explain(target))
  const clearLines = () => all("figure .hovered").forEach((line) => line.setAttribute("d", ""))
  on("pointerout", ({ target, relatedTarget }) => {
    if (target.closest?.("[data-ask], figure")) explainPinned()
    if (!relatedTarget?.closest?.("svg")) clearLines()
  })
  on("focusin", ({ target }) => explain(target))
  on("click", ({ target }) => {
    const number = explain(target)
    if (!number) return
    pinned = pinned === number.dataset.ask ? "" : number.dataset.ask
    all("[data-ask][aria-pressed]").forEach((other) => other.removeAttribute("aria-pressed"))
    explainPinned()
  })

  // --- the charts: the nearest context of the curves under the pointer
  const contexts = () => stage.querySelector("[data-contexts]").dataset.contexts.split(",")
  const gridEnds = (svg) => {
    const grid = [...svg.querySelectorAll(".grid path")].map((p) => Number(/^M([\d.]+) [\d.]+V/.exec(p.getAttribute("d"))?.[1])).filter(Boolean)
    return [grid[0], grid.at(-1)]
  }
  const point = (figure, index) => {
    const [first, last] = gridEnds(figure.querySelector("svg"))
    return { figure, index, context: contexts()[index], x: first + index / (contexts().length - 1) * (last - first) }
  }
  const nearest = (event) => {
    const figure = event.target.closest?.("figure")
    const svg = figure?.querySelector("svg")
    if (!svg) return null
    const [, , width] = svg.getAttribute("viewBox").split(" ").map(Number)
    const box = svg.getBoundingClientRect(), [first, last] = gridEnds(svg)
    const share = ((event.clientX - box.left) / box.width * width - first) / (last - first)
    return point(figure, Math.round(Math.min(Math.max(share, 0), 1) * (contexts().length - 1)))
  }
  const explainPoint = ({ figure, index, context, x }) => {
    all("figure .hovered").forEach((line) => line.setAttribute("d", `M${x} 14V246`))
    showExplanation(`${figure.dataset.chart} at ${Number(context).toLocaleString("en")} tokens`, "", JSON.parse(figure.dataset.explanations)[index])
  }
  const setContext = (context) => {
    control("context").value = context
    all("[data-log=context]").forEach(syncSlider)
    send()
  }
  on("pointermove", (event) => {
    const nearestPoint = nearest(event)
    if (nearestPoint) explainPoint(nearestPoint)
  })
  on("click", (event) => {
    const nearestPoint = nearest(event)
    if (nearestPoint) setContext(nearestPoint.context)
  })
  // by keyboard: arrows walk from point to point, Enter goes there
  const focused = { index: 0 }
  on("keydown", (event) => {
    const figure = event.target.closest?.("figure")
    const last = figure?.querySelector("svg") && contexts().length - 1
    if (!last) return
    const step = { ArrowRight: focused.index + 1, ArrowLeft: focused.index - 1, Home: 0, End: last }[event.key]
    if (step === undefined && event.key !== "Enter") return
    event.preventDefault()
    if (event.key === "Enter") return setContext(contexts()[focused.index])
    focused.index = Math.min(Math.max(step, 0), last)
    explainPoint(point(figure, focused.index))
  })
  on("focusin", ({ target }) => {
    if (!target.matches?.("figure[data-chart]")) return
    const now = Number(control("context").value), allContexts = contexts().map(Number)
    focused.index = allContexts.findLastIndex((context) => context <= now)
    explainPoint(point(target, Math.max(focused.index, 0)))
  })

  const fill = () => {
    const focusedNumber = document.activeElement?.dataset?.ask
    const open = stage.querySelector("details")?.open
    place("results").innerHTML = model.results
    if (open) stage.querySelector("details").open = true
    if (focusedNumber) stage.querySelector(`[data-ask="${focusedNumber}"]`)?.focus({ preventScroll: true })
    explainPinned()
  }
  model.on("results", fill)
  model.on("point", show)
  model.on("problem", () => { place("problem").textContent = model.problem })
  if (model.results && !place("results").children.length) fill()
  show()
  model.on("remove", () => stop.abort())
}
