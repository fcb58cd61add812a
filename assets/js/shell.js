// Brings the fixed places of page.html to life: slots, tabs, theme, share, the inspector's border, the connection.
const SLOTS = ["facts", "problems", "crumbs", "layers", "subject", "overview", "parameters", "code", "ledger", "tour"]
const root = document.documentElement
const $ = (id) => document.getElementById(id)
const all = (query, from = document) => [...from.querySelectorAll(query)]
const stored = (key, value) => {
  try {
    if (value === undefined) return localStorage.getItem(key)
    localStorage.setItem(key, value)
  } catch { return null } // storage may be refused
}
const say = (text) => { $("says").textContent = text }

// --- formulas: MathJax is large, so it comes with the first formula, from where Bokeh's own script came
let mathjax = null
const load_mathjax = () => mathjax ??= new Promise((resolve, reject) => {
  const bokeh = document.querySelector('script[src*="/bokeh.min.js"], script[src*="/bokeh.js"]')
  const script = document.createElement("script")
  script.src = bokeh.src.replace(/bokeh(\.min)?\.js/, "bokeh-mathjax.min.js")
  script.onload = () => resolve(Bokeh.require("models/text/mathjax"))
  script.onerror = reject
  document.head.append(script)
})
const typeset = async (slot) => {
  const formulas = all("[data-tex]", slot)
  if (!formulas.length) return
  const { tex2svg, MathJax } = await load_mathjax()
  const draw = tex2svg ?? MathJax.tex2svg
  for (const formula of formulas) {
    const drawn = draw(formula.dataset.tex, { display: formula.tagName === "DIV" })
    formula.setAttribute("role", "math")
    formula.setAttribute("aria-label", formula.dataset.tex)
    formula.replaceChildren(drawn)
    if (formula.tagName === "DIV") shrink(formula)
  }
}
// a formula wider than its column gets smaller, down to where it is still read; then it scrolls
const shrink = (formula) => {
  const span = () => {
    const parts = all("svg", formula).map((part) => part.getBoundingClientRect()) // a wide one is set in several
    return Math.max(...parts.map((r) => r.right)) - Math.min(...parts.map((r) => r.left))
  }
  const room = formula.clientWidth - 24
  let scale = 1
  formula.style.fontSize = ""
  for (let again = 0; again < 2 && room > 0 && span() > room; again++) { // gaps between the parts shrink less
    scale = Math.max(scale * room / span(), 0.55)
    formula.style.fontSize = `${scale * 100}%`
  }
}
const widths = new ResizeObserver(() => all(".equation[role=math]").forEach(shrink))

// --- the ledger: its search and its export
let typing = 0
const search_tensors = (field, model) => {
  clearTimeout(typing)
  typing = setTimeout(() => model.send_msg({ find: field.value }), 150)
}
const show_found = (model) => {
  const place = document.querySelector("[data-found]")
  if (place) place.innerHTML = model.found
}
const csv = (table) => all("tr", table).map((row) => {
  const words = (cell) => (cell.querySelector("summary") ?? cell).textContent.trim()
  const cells = [...row.children].flatMap((cell) => [words(cell), ...Array(cell.colSpan - 1).fill("")])
  return cells.map((text) => /^-?[\d,]+$/.test(text) ? text.replaceAll(",", "") : `"${text.replaceAll('"', '""')}"`).join()
}).join("\n") + "\n"
const save_csv = (button) => {
  const link = document.createElement("a")
  link.href = URL.createObjectURL(new Blob([csv($("ledger-table"))], { type: "text/csv" }))
  link.download = button.dataset.csv
  link.click()
  URL.revokeObjectURL(link.href)
}

// --- letters of an equation: a row lights its box in the drawing, and code knows the names it goes by
let lit = null, sought = ""
const light = (chain) => document.dispatchEvent(new CustomEvent("k3-light", { detail: chain }))
const follow = ({ target }) => {
  const row = target.closest?.("[data-lit]") ?? null
  if (row === lit) return
  lit = row
  light(row ? row.dataset.lit.split(" ") : [])
}
const lines_of = (names) => names.split(" ").flatMap((name) => all(`.line[data-names~="${name}"]`))
const show_lines = (names) => {
  for (const line of all(".line.lit")) line.classList.remove("lit")
  const lines = names ? lines_of(names) : []
  for (const line of lines) line.classList.add("lit")
  return lines
}
const find_lines = () => {
  const first = show_lines(sought)[0]
  if (!first) return
  const panel = $("about-code")
  panel.scrollTop += first.getBoundingClientRect().top - panel.getBoundingClientRect().top - 96
}

// --- the tour: a card that keeps the focus from stop to stop; arrow keys walk it
const card = () => document.querySelector(".tour")
// a stop may be about something further down in the details
const show_there = () => {
  const there = card()?.dataset.shows && $("about-overview").querySelector(card().dataset.shows)
  if (there) $("about-overview").scrollTop += there.getBoundingClientRect().top - $("about-overview").getBoundingClientRect().top - 64
}
let asked = { stop: 0, when: -Infinity }
// the place one step further; steps that follow quickly count from the one asked for, not from the one shown
const step_to = (by) => {
  const places = card().dataset.places.split(" "), now = performance.now()
  const from = now - asked.when < 1500 ? asked.stop : Number(card().dataset.at)
  asked = { stop: Math.max(1, Math.min(places.length, from + by)), when: now }
  return places[asked.stop - 1]
}
const walk = (event) => {
  const here = card(), at = event.composedPath()[0]
  if (!here || event.ctrlKey || event.metaKey || event.altKey || !(at === document.body || here.contains(at))) return
  const key = { ArrowRight: "tour-next", ArrowLeft: "tour-back", Escape: "tour-close" }[event.key]
  if (!key) return
  event.preventDefault()
  here.querySelector(`[data-key=${key}]`).click()
}

// --- what is chosen
const tabs_of = (list) => all("[role=tab]", list)
const choose_tab = (tab) => {
  for (const other of tabs_of(tab.closest("[role=tablist]"))) {
    const on = other === tab
    other.setAttribute("aria-selected", on)
    other.tabIndex = on ? 0 : -1
    $(other.getAttribute("aria-controls")).hidden = !on
  }
}
const mark = (now) => {
  for (const row of all("[data-block]")) row.toggleAttribute("data-current", row.dataset.block === now.select)
  const layers = all("#layers button")
  layers.forEach((cell, index) => {
    const chosen = index === now.layer
    if (chosen && cell.getAttribute("aria-pressed") !== "true") cell.scrollIntoView({ block: "nearest", inline: "center" })
    cell.setAttribute("aria-pressed", chosen)
    cell.tabIndex = index === (now.layer ?? 0) ? 0 : -1
  })
}

// --- the inspector: a column with a border to drag, a sheet on a phone
const phone = matchMedia("(max-width: 759px)")
const show_inspector = (open) => {
  root.classList.toggle("no-inspector", !open)
  $("reopen").setAttribute("aria-expanded", open)
}
const drag_border = (border) => {
  const width = () => $("inspector").getBoundingClientRect().width
  const set = (px) => {
    const fits = Math.round(Math.min(Math.max(px, 320), innerWidth * 0.6))
    root.style.setProperty("--inspector", `${fits}px`)
    border.setAttribute("aria-valuenow", fits)
    stored("k3scope-inspector", fits)
  }
  const before = Number(stored("k3scope-inspector"))
  if (before) set(before)
  border.onpointerdown = (event) => {
    border.setPointerCapture(event.pointerId)
    border.onpointermove = (move) => set(innerWidth - move.clientX)
    border.onpointerup = () => { border.onpointermove = null }
  }
  border.onkeydown = (event) => {
    const step = { ArrowLeft: 16, ArrowRight: -16 }[event.key]
    if (step) set(width() + step)
  }
}

// --- theme: the system's until the visitor chooses
const system = matchMedia("(prefers-color-scheme: dark)")
const is_dark = () => root.classList.contains("dark")
const apply_theme = (model) => {
  const chosen = stored("k3scope-theme")
  root.classList.toggle("dark", chosen ? chosen === "dark" : system.matches)
  $("theme").setAttribute("aria-pressed", is_dark())
  model.dark = is_dark()
}

// --- share: the clipboard needs https or localhost; the old command serves plain http
const copy = async (text) => {
  if (navigator.clipboard && isSecureContext) return navigator.clipboard.writeText(text)
  const area = document.createElement("textarea")
  area.value = text
  document.body.append(area)
  area.select()
  const done = document.execCommand("copy")
  area.remove()
  if (!done) throw new Error("refused")
}
const share = async (button) => {
  let told = "Link copied"
  try { await copy(location.href) } catch { told = "Copy the address bar" }
  say(told)
  button.dataset.told = told
  setTimeout(() => delete button.dataset.told, 2000)
}

const arrows = (event, items) => {
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key]
  const edge = { Home: 0, End: items.length - 1 }[event.key]
  if (step === undefined && edge === undefined) return null
  event.preventDefault()
  const at = items.indexOf(document.activeElement)
  return items[edge ?? (at + step + items.length) % items.length]
}

export function render({ model, el }) {
  el.hidden = true
  const stop = new AbortController()
  const on = (target, type, handler) => target.addEventListener(type, handler, { signal: stop.signal })
  const go = (where) => model.send_msg({ go: where })

  const slot_of = (name) => document.querySelector(`[data-slot=${name}]`)
  const fill = (name) => {
    const slot = slot_of(name), had = slot.childElementCount > 0
    const key = slot.contains(document.activeElement) && document.activeElement.dataset.key
    slot.innerHTML = model[name]
    delete slot.dataset.coming
    if (key) (slot.querySelector(`[data-key=${key}]:not(:disabled)`) ?? slot.querySelector("[data-key]"))?.focus()
    if (name === "tour" && !had && card()) {
      card().focus()
      if (phone.matches) show_inspector(false) // the selection may have come before the card
    }
    if (name === "tour" && had && !card()) $("start-tour").focus()
    mark(model.now)
    settle(name, slot)
  }
  // what is done to a place once its HTML is there
  const settle = (name, slot) => {
    typeset(slot).then(show_there)
    const marked = slot.querySelector(".marked")
    slot.scrollTop = marked ? marked.offsetTop - slot.offsetTop - 96 : 0
    if (name === "code") find_lines()
  }
  let before = model.now
  const sync = () => {
    const now = model.now
    for (const key of ["view", "tab"]) choose_tab($(`${key}-${now[key]}`))
    $("model").value = now.model
    document.title = now.title
    mark(now)
    if (now.select && now.select !== before.select && !(phone.matches && card())) show_inspector(true)
    before = now
  }

  on(document, "click", (event) => {
    const target = event.target.closest?.("[data-go]")
    if (event.target.closest?.("summary, .answer") && !event.target.closest("summary [data-go], .answer [data-go]")) return
    if (!target || event.ctrlKey || event.metaKey || event.shiftKey) return
    event.preventDefault()
    if (target.role === "tab" || target.getAttribute("role") === "tab") choose_tab(target)
    if (target.dataset.go.includes("tour=") && phone.matches) show_inspector(false)
    else if (target.dataset.go.includes("select=")) show_inspector(true)
    sought = target.dataset.lines ?? ""
    go(target.dataset.step ? step_to(Number(target.dataset.step)) : target.dataset.go)
  })
  for (const type of ["mouseover", "focusin"]) on(document, type, follow)
  on(document, "click", ({ target }) => {
    const letter = target.closest?.("[data-lines]")
    if (letter) { sought = letter.dataset.lines; find_lines() }
    for (const open of all(":is(.facts, .ledger) details[open]")) if (!open.contains(target)) open.open = false
  })
  document.addEventListener("keydown", walk, { signal: stop.signal, capture: true }) // before Escape leaves the layer
  on(document, "keydown", (event) => {
    const list = event.target.closest?.("[role=tablist]")
    const next = list && arrows(event, tabs_of(list))
    if (next) { next.focus(); next.click() }
    const cell = event.target.closest?.("#layers button") && arrows(event, all("#layers button"))
    if (cell) cell.focus()
    if (event.key === "Escape") for (const open of all(":is(.facts, .ledger) details[open]")) open.open = false
    if (event.key === "Escape" && phone.matches) show_inspector(false)
  })
  on(document, "input", ({ target }) => { if (target.matches?.("[data-find]")) search_tensors(target, model) })
  on(document, "click", ({ target }) => { if (target.matches?.("[data-csv]")) save_csv(target) })
  on($("model"), "change", () => go(`model=${encodeURIComponent($("model").value)}`))
  on($("share"), "click", () => share($("share")))
  on($("theme"), "click", () => { stored("k3scope-theme", is_dark() ? "light" : "dark"); apply_theme(model) })
  on(system, "change", () => apply_theme(model))
  on(document.querySelector(".skip"), "click", (event) => { event.preventDefault(); $("stage").focus() })
  on($("close"), "click", () => { show_inspector(false); $("reopen").focus() })
  on($("reopen"), "click", () => show_inspector(true))
  drag_border($("border"))
  widths.observe($("inspector"))

  for (const name of SLOTS) { model.on(name, () => fill(name)); settle(name, slot_of(name)) }
  model.on("found", () => show_found(model))
  model.on("now", sync)
  model.on("said", () => say(model.said))
  model.document?.on_event?.("connection_lost", () => { $("lost").hidden = false })
  apply_theme(model)
  show_inspector(!phone.matches || Boolean(model.now.select && !card()))
  sync()
  root.classList.add("live")
  model.on("remove", () => stop.abort())
}
