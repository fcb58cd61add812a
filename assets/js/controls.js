// Search, the strip of layers by keyboard, and the fields for the step that shapes are shown for.
/**
 * Sends {query} while the search is typed into, {choose: id} for the hit that is opened, and {go}, a part of a
 * link, Receives `results` ({query, hits}) and `step` (phase, B, T, types).
 */
const typing = (event) => event.composedPath()[0].matches?.("input, textarea, select, [contenteditable]")

// --- the strip: arrows move through the stack, digits name a layer, Escape leaves it
function layerStrip({ model, on }) {
  const strip = $("layers"), cells = () => [...strip.querySelectorAll("button")]
  let typed = "", timer = 0
  const choose = (index, ms) => {
    cells()[index].focus()
    clearTimeout(timer)
    timer = setTimeout(() => { typed = ""; model.send_msg({ go: `layer=${index}` }) }, ms)
  }
  const targetIndex = (key, index, last) => ({
    ArrowDown: index + 1, ArrowRight: index + 1, ArrowUp: index - 1, ArrowLeft: index - 1, Home: 0, End: last,
    PageDown: index + 12, PageUp: index - 12,
  })[key]
  const press = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return
    const all = cells(), last = all.length - 1, next = targetIndex(event.key, all.indexOf(event.target), last)
    if (next !== undefined) choose(Math.max(0, Math.min(last, next)), 60)
    else if (/^\d$/.test(event.key)) {
      typed = Number(typed + event.key) <= last ? typed + event.key : event.key
      choose(Number(typed), 400)
    } else return
    event.preventDefault()
    event.stopPropagation()
  }
  on(strip, "keydown", press, true)
  on(document, "keydown", (event) => {
    if (event.key !== "Escape" || event.defaultPrevented || typing(event)) return
    if (strip.querySelector("[aria-pressed=true]")) model.send_msg({ go: "layer=" })
  })
  // an arrow key from "All layers" enters the strip
  on($("all-layers"), "keydown", (event) => {
    if (!["ArrowDown", "ArrowRight"].includes(event.key)) return
    event.preventDefault()
    cells().find((cell) => cell.tabIndex === 0)?.focus()
  })
}

// --- the step: a field requests its value; the answer sets it, back to what it was where that is refused
function stepFields({ model, on }) {
  const fields = [...document.querySelectorAll("#controls input")]
  const request = (field) => model.send_msg({ go: `${field.dataset.axis}=${field.value.replace(/[\s,]/g, "")}` })
  const show = () => {
    for (const field of fields) field.value = model.step[field.dataset.axis]
    for (const button of document.querySelectorAll("#controls [data-phase]"))
      button.setAttribute("aria-pressed", button.dataset.phase === model.step.phase)
    const types = document.querySelector("#controls [data-types]")
    types.setAttribute("aria-pressed", model.step.types)
    types.dataset.go = model.step.types ? "types=" : "types=on"
  }
  for (const field of fields) {
    on(field, "change", () => request(field))
    on(field, "keydown", (event) => {
      const by = { ArrowUp: 1, ArrowDown: -1 }[event.key]
      if (by) { field.value = Math.max(1, Number(field.value) + by); request(field); event.preventDefault() }
    })
  }
  model.on("step", show)
  show()
}

// --- axis names in the inspector highlight the same names in the diagram, and the other way round
function axisNames({ on }) {
  const announceAxis = (name) => document.dispatchEvent(new CustomEvent("k3-axis", { detail: name }))
  const name = (target) => target.closest?.("#inspector [data-axis]")?.dataset.axis
  for (const type of ["pointerover", "focusin"])
    on($("inspector"), type, ({ target }) => announceAxis(name(target) ?? ""))
  for (const type of ["pointerleave", "focusout"]) on($("inspector"), type, () => announceAxis(""))
  on(document, "k3-axis", ({ detail }) => {
    for (const el of document.querySelectorAll("#inspector [data-axis]"))
      el.classList.toggle("lit", el.dataset.axis === detail)
  })
}

// --- search
function searchField({ model, on }) {
  const field = $("find"), list = $("hits")
  let timer = 0, active = 0
  const options = () => [...list.querySelectorAll("[role=option]")]
  const open = (yes) => {
    list.hidden = !yes
    field.setAttribute("aria-expanded", yes)
    if (!yes) field.removeAttribute("aria-activedescendant")
  }
  const activate = (index) => {
    const all = options()
    if (!all.length) return
    active = (index + all.length) % all.length
    all.forEach((option, i) => option.setAttribute("aria-selected", i === active))
    field.setAttribute("aria-activedescendant", all[active].id)
    all[active].scrollIntoView({ block: "nearest" })
  }
  const element = (tag, cls, text) => Object.assign(document.createElement(tag), { className: cls, textContent: text })
  const option = (hit, i) => {
    const li = element("li", `k-${hit.kind}`, "")
    li.id = `hit-${i}`
    li.setAttribute("role", "option")
    li.dataset.block = hit.part ? `${hit.block}/${hit.part}` : hit.block
    const title = element("b", "", hit.title), path = element("span", "path", hit.path.join(" › "))
    const text = element("span", "text", "")
    text.append(hit.text[0], element("mark", "", hit.text[1]), hit.text[2])
    li.append(element("i", "swatch", ""), title, path)
    if (hit.what !== "title") li.append(text)
    return li
  }
  const show = () => {
    const { query, hits } = model.results
    if (query !== field.value.slice(0, 100) || !query.trim()) return
    const none = element("li", "none", `Nothing of this model speaks of “${query}”.`)
    list.replaceChildren(...(hits.length ? hits.map(option) : [none]))
    open(document.activeElement === field)
    activate(0)
  }
  const choose = (li) => {
    if (!li?.dataset.block) return
    model.send_msg({ choose: li.dataset.block })
    open(false)
    field.blur()
  }
  const keys = {
    ArrowDown: () => (list.hidden ? show() : activate(active + 1)), ArrowUp: () => activate(active - 1),
    Enter: () => choose(options()[active]), Escape: () => { open(false); field.blur() },
  }
  on(field, "keydown", (event) => {
    if (!keys[event.key]) return
    event.preventDefault()
    event.stopPropagation()
    keys[event.key]()
  })
  on(field, "input", () => {
    clearTimeout(timer)
    if (!field.value.trim()) return open(false)
    timer = setTimeout(() => model.send_msg({ query: field.value }), 60)
  })
  on(field, "focus", () => { field.select(); if (model.results.query) show() })
  on(field, "blur", () => open(false))
  on(list, "pointerdown", (event) => event.preventDefault()) // the field keeps the focus
  on(list, "click", ({ target }) => choose(target.closest("[role=option]")))
  on(document, "keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || typing(event)) return
    event.preventDefault()
    field.focus()
  })
  model.on("results", show)
}

export function render({ model, el }) {
  el.hidden = true
  const stop = new AbortController()
  const on = (target, type, handler, capture = false) => target.addEventListener(type, handler, { signal: stop.signal, capture })
  for (const part of [layerStrip, stepFields, exportMenu, printing, framedLink, axisNames, searchField]) part({ model, on })
  model.on("remove", () => stop.abort())
}
