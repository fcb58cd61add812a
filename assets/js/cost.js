// The Cost view: controls write a point, its readings come back; any number says where it comes from.
const FIELDS = ["context", "batch", "phase", "experts", "conv", "device", "count"]
const TICK = 40 // ms between two questions while a slider moves

export function render({ model, el }) {
  el.hidden = true
  const stage = document.getElementById("stage-cost")
  const stop = new AbortController()
  const on = (type, handler, more = {}) => stage.addEventListener(type, handler, { signal: stop.signal, ...more })
  const all = (query) => [...stage.querySelectorAll(query)]
  const place = (name) => stage.querySelector(`[data-cost=${name}]`)
  const control = (name) => stage.querySelector(`[data-at=${name}]`)

  // --- controls
  let waiting = 0, sent = 0, pinned = ""
  const send = () => {
    waiting ||= setTimeout(() => {
      waiting = 0
      sent = performance.now()
      model.send_msg({ at: FIELDS.map((name) => control(name).value).join() })
    }, sent + TICK - performance.now()) // the first one at once
  }
  const slide = (range) => {
    const value = Number(control(range.dataset.log).value) || 1
    if (Math.round(2 ** range.value) !== value) range.value = Math.log2(value)
    range.setAttribute("aria-valuetext", `${value.toLocaleString("en")} ${range.dataset.log === "batch" ? "sequences" : "tokens"}`)
  }
  const show = () => {
    const values = model.at.split(",")
    FIELDS.forEach((name, i) => {
      const input = control(name)
      if (input !== document.activeElement && input.value !== values[i]) input.value = values[i]
    })
    all("[data-log]").forEach((range) => { if (range !== document.activeElement) slide(range) })
  }
  on("input", ({ target }) => {
    if (target.dataset.log) {
      control(target.dataset.log).value = Math.round(2 ** target.value)
      slide(target)
    } else if (target.dataset.at) {
      all(`[data-log=${target.dataset.at}]`).forEach(slide)
    } else return
    send()
  })
  on("submit", (event) => event.preventDefault())

  // --- where a number comes from
  const say = (title, names, how) => {
    const parts = [["b", title], ["span", names], ["code", how]]
    place("how").replaceChildren(...parts.filter(([, text]) => text).flatMap(([tag, text]) => {
      const part = document.createElement(tag)
      part.textContent = text
      return [part, " "]
    }))
  }
  const ask = (target) => {
    const number = target.closest?.("[data-ask]")
    if (number) say(number.dataset.title, number.dataset.names, number.dataset.how)
    return number
  }
  const ask_pinned = () => {
    const number = pinned && stage.querySelector(`[data-ask="${pinned}"]`)
    if (number) { ask(number); number.setAttribute("aria-pressed", true) }
  }
  on("pointerover", ({ target }) => ask(target))
  const unline = () => all("figure .over").forEach((line) => line.setAttribute("d", ""))
  on("pointerout", ({ target, relatedTarget }) => {
    if (target.closest?.("[data-ask], figure")) ask_pinned()
    if (!relatedTarget?.closest?.("svg")) unline()
  })
  on("focusin", ({ target }) => ask(target))
  on("click", ({ target }) => {
    const number = ask(target)
    if (!number) return
    pinned = pinned === number.dataset.ask ? "" : number.dataset.ask
    all("[data-ask][aria-pressed]").forEach((other) => other.removeAttribute("aria-pressed"))
    ask_pinned()
  })

  // --- the pictures: the nearest context of the curves under the pointer
  const contexts = () => stage.querySelector("[data-contexts]").dataset.contexts.split(",")
  const ends = (svg) => {
    const grid = [...svg.querySelectorAll(".grid path")].map((p) => Number(/^M([\d.]+) [\d.]+V/.exec(p.getAttribute("d"))?.[1])).filter(Boolean)
    return [grid[0], grid.at(-1)]
  }
  const point = (figure, index) => {
    const [first, last] = ends(figure.querySelector("svg"))
    return { figure, index, context: contexts()[index], x: first + index / (contexts().length - 1) * (last - first) }
  }
  const nearest = (event) => {
    const figure = event.target.closest?.("figure")
    const svg = figure?.querySelector("svg")
    if (!svg) return null
    const [, , width] = svg.getAttribute("viewBox").split(" ").map(Number)
    const box = svg.getBoundingClientRect(), [first, last] = ends(svg)
    const share = ((event.clientX - box.left) / box.width * width - first) / (last - first)
    return point(figure, Math.round(Math.min(Math.max(share, 0), 1) * (contexts().length - 1)))
  }
  const tell = (at) => {
    all("figure .over").forEach((line) => line.setAttribute("d", `M${at.x} 14V246`))
    say(`${at.figure.dataset.picture} at ${Number(at.context).toLocaleString("en")} tokens`, "", JSON.parse(at.figure.dataset.points)[at.index])
  }
  const go_to = (context) => {
    control("context").value = context
    all("[data-log=context]").forEach(slide)
    send()
  }
  on("pointermove", (event) => {
    const at = nearest(event)
    if (at) tell(at)
  })
  on("click", (event) => {
    const at = nearest(event)
    if (at) go_to(at.context)
  })
  // by keyboard: arrows walk from point to point, Enter goes there
  const walked = { index: 0 }
  on("keydown", (event) => {
    const figure = event.target.closest?.("figure")
    const last = figure?.querySelector("svg") && contexts().length - 1
    if (!last) return
    const step = { ArrowRight: walked.index + 1, ArrowLeft: walked.index - 1, Home: 0, End: last }[event.key]
    if (step === undefined && event.key !== "Enter") return
    event.preventDefault()
    if (event.key === "Enter") return go_to(contexts()[walked.index])
    walked.index = Math.min(Math.max(step, 0), last)
    tell(point(figure, walked.index))
  })
  on("focusin", ({ target }) => {
    if (!target.matches?.("figure[data-picture]")) return
    const now = Number(control("context").value), all_contexts = contexts().map(Number)
    walked.index = all_contexts.findLastIndex((context) => context <= now)
    tell(point(target, Math.max(walked.index, 0)))
  })

  const fill = () => {
    const focused = document.activeElement?.dataset?.ask
    const open = stage.querySelector("details")?.open
    place("results").innerHTML = model.results
    if (open) stage.querySelector("details").open = true
    if (focused) stage.querySelector(`[data-ask="${focused}"]`)?.focus({ preventScroll: true })
    ask_pinned()
  }
  model.on("results", fill)
  model.on("at", show)
  model.on("wrong", () => { place("wrong").textContent = model.wrong })
  if (model.results && !place("results").children.length) fill()
  show()
  model.on("remove", () => stop.abort())
}
