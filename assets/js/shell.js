// Everything of page.html but the diagram: slots, tabs, theme, share, the inspector's border, the connection.
/**
 * Sends {go: string}, a part of a link, and {tensor_query: string}; sets `dark`. Receives HTML for each of SLOTS
 * and `tensor_matches`, `current` (view, tab, model, select, layer, title) and `announcement`.
 */
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
const announce = (text) => { $("says").textContent = text }

// --- formulas: MathJax is large, so it comes with the first formula, from where Bokeh's own script came
let mathjax = null
const loadMathjax = () => mathjax ??= new Promise((resolve, reject) => {
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
  const { tex2svg, MathJax } = await loadMathjax()
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
let searchTimer = 0
const searchTensors = (field, model) => {
  clearTimeout(searchTimer)
  searchTimer = setTimeout(() => model.send_msg({ tensor_query: field.value }), 150)
}
const showTensorMatches = (model) => {
  const container = document.querySelector("[data-tensor-matches]")
  if (container) container.innerHTML = model.tensor_matches
}
const csv = (table) => all("tr", table).map((row) => {
  const textOf = (cell) => (cell.querySelector("summary") ?? cell).textContent.trim()
  const cells = [...row.children].flatMap((cell) => [textOf(cell), ...Array(cell.colSpan - 1).fill("")])
  return cells.map((text) => /^-?[\d,]+$/.test(text) ? text.replaceAll(",", "") : `"${text.replaceAll('"', '""')}"`).join()
}).join("\n") + "\n"
const saveCsv = (button) => {
  const link = document.createElement("a")
  link.href = URL.createObjectURL(new Blob([csv($("ledger-table"))], { type: "text/csv" }))
  link.download = button.dataset.csv
  link.click()
  URL.revokeObjectURL(link.href)
}

// --- letters of an equation: a row highlights its box in the diagram, and code the lines with its names
let litRow = null, symbolNames = "" // the names whose lines are highlighted in the code
const highlightBox = (chain) => document.dispatchEvent(new CustomEvent("k3-highlight", { detail: chain }))
const highlightRow = ({ target }) => {
  const row = target.closest?.("[data-lit]") ?? null
  if (row === litRow) return
  litRow = row
  highlightBox(row ? row.dataset.lit.split(" ") : [])
}
const linesOf = (names) => names.split(" ").flatMap((name) => all(`.line[data-names~="${name}"]`))
const highlightLines = (names) => {
  for (const line of all(".line.lit")) line.classList.remove("lit")
  const lines = names ? linesOf(names) : []
  for (const line of lines) line.classList.add("lit")
  return lines
}
const scrollToLines = () => {
  const first = highlightLines(symbolNames)[0]
  if (!first) return
  const panel = $("about-code")
  panel.scrollTop += first.getBoundingClientRect().top - panel.getBoundingClientRect().top - 96
}

// --- the tour: a card that keeps the focus from stop to stop; arrow keys walk it
const card = () => document.querySelector(".tour")
// a stop may be about something further down in the details
const scrollToShown = () => {
  const shown = card()?.dataset.shows && $("about-overview").querySelector(card().dataset.shows)
  if (shown) $("about-overview").scrollTop += shown.getBoundingClientRect().top - $("about-overview").getBoundingClientRect().top - 64
}
let requested = { stop: 0, when: -Infinity }
// the link of the stop one step further; quick steps count from the stop requested last, not from the one on show
const stopQuery = (by) => {
  const queries = card().dataset.queries.split(" "), now = performance.now()
  const from = now - requested.when < 1500 ? requested.stop : Number(card().dataset.stop)
  requested = { stop: Math.max(1, Math.min(queries.length, from + by)), when: now }
  return queries[requested.stop - 1]
}
const walkTour = (event) => {
  const tour = card(), target = event.composedPath()[0]
  if (!tour || event.ctrlKey || event.metaKey || event.altKey || !(target === document.body || tour.contains(target))) return
  const key = { ArrowRight: "tour-next", ArrowLeft: "tour-back", Escape: "tour-close" }[event.key]
  if (!key) return
  event.preventDefault()
  tour.querySelector(`[data-key=${key}]`).click()
}

// --- tabs, rows and layers: which one is current
const tabsOf = (list) => all("[role=tab]", list)
const chooseTab = (tab) => {
  for (const other of tabsOf(tab.closest("[role=tablist]"))) {
    const on = other === tab
    other.setAttribute("aria-selected", on)
    other.tabIndex = on ? 0 : -1
    $(other.getAttribute("aria-controls")).hidden = !on
  }
}
const markCurrent = (current) => {
  for (const row of all("[data-block]")) row.toggleAttribute("data-current", row.dataset.block === current.select)
  const layers = all("#layers button")
  layers.forEach((cell, index) => {
    const chosen = index === current.layer
    if (chosen && cell.getAttribute("aria-pressed") !== "true") cell.scrollIntoView({ block: "nearest", inline: "center" })
    cell.setAttribute("aria-pressed", chosen)
    cell.tabIndex = index === (current.layer ?? 0) ? 0 : -1
  })
}

// --- the inspector: a column with a border to drag, a sheet on a phone
const phone = matchMedia("(max-width: 759px)")
const showInspector = (open) => {
  root.classList.toggle("no-inspector", !open)
  $("reopen").setAttribute("aria-expanded", open)
}
const resizeByBorder = (border) => {
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
const isDark = () => root.classList.contains("dark")
const applyTheme = (model) => {
  const chosen = stored("k3scope-theme")
  root.classList.toggle("dark", chosen ? chosen === "dark" : system.matches)
  $("theme").setAttribute("aria-pressed", isDark())
  model.dark = isDark()
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
  let message = "Link copied"
  try { await copy(location.href) } catch { message = "Copy the address bar" }
  announce(message)
  button.dataset.message = message
  setTimeout(() => delete button.dataset.message, 2000)
}

// the item that an arrow key, Home or End leads to; null for other keys
const itemByKey = (event, items) => {
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key]
  const edge = { Home: 0, End: items.length - 1 }[event.key]
  if (step === undefined && edge === undefined) return null
  event.preventDefault()
  const index = items.indexOf(document.activeElement)
  return items[edge ?? (index + step + items.length) % items.length]
}

export function render({ model, el }) {
  el.hidden = true
  const stop = new AbortController()
  const on = (target, type, handler) => target.addEventListener(type, handler, { signal: stop.signal })
  const go = (link) => model.send_msg({ go: link })

  const slotOf = (name) => document.querySelector(`[data-slot=${name}]`)
  const fill = (name) => {
    const slot = slotOf(name), had = slot.childElementCount > 0
    const key = slot.contains(document.activeElement) && document.activeElement.dataset.key
    slot.innerHTML = model[name]
    delete slot.dataset.pending
    if (key) (slot.querySelector(`[data-key=${key}]:not(:disabled)`) ?? slot.querySelector("[data-key]"))?.focus()
    if (name === "tour" && !had && card()) {
      card().focus()
      if (phone.matches) showInspector(false) // the selection may have come before the card
    }
    if (name === "tour" && had && !card()) $("start-tour").focus()
    markCurrent(model.current)
    settle(name, slot)
  }
  // what is done to a slot once its HTML is there
  const settle = (name, slot) => {
    typeset(slot).then(scrollToShown)
    const marked = slot.querySelector(".marked")
    slot.scrollTop = marked ? marked.offsetTop - slot.offsetTop - 96 : 0
    if (name === "code") scrollToLines()
  }
  let before = model.current
  const sync = () => {
    const current = model.current
    for (const key of ["view", "tab"]) chooseTab($(`${key}-${current[key]}`))
    $("model").value = current.model
    document.title = current.title
    markCurrent(current)
    if (current.select && current.select !== before.select && !(phone.matches && card())) showInspector(true)
    before = current
  }

  on(document, "click", (event) => {
    const target = event.target.closest?.("[data-go]")
    if (event.target.closest?.("summary, .answer") && !event.target.closest("summary [data-go], .answer [data-go]")) return
    if (!target || event.ctrlKey || event.metaKey || event.shiftKey) return
    event.preventDefault()
    if (target.role === "tab" || target.getAttribute("role") === "tab") chooseTab(target)
    if (target.dataset.go.includes("tour=") && phone.matches) showInspector(false)
    else if (target.dataset.go.includes("select=")) showInspector(true)
    symbolNames = target.dataset.lines ?? ""
    go(target.dataset.step ? stopQuery(Number(target.dataset.step)) : target.dataset.go)
  })
  for (const type of ["mouseover", "focusin"]) on(document, type, highlightRow)
  on(document, "click", ({ target }) => {
    const letter = target.closest?.("[data-lines]")
    if (letter) { symbolNames = letter.dataset.lines; scrollToLines() }
    for (const open of all(":is(.facts, .ledger) details[open]")) if (!open.contains(target)) open.open = false
  })
  document.addEventListener("keydown", walkTour, { signal: stop.signal, capture: true }) // before Escape leaves the layer
  on(document, "keydown", (event) => {
    const list = event.target.closest?.("[role=tablist]")
    const next = list && itemByKey(event, tabsOf(list))
    if (next) { next.focus(); next.click() }
    const cell = event.target.closest?.("#layers button") && itemByKey(event, all("#layers button"))
    if (cell) cell.focus()
    if (event.key === "Escape") for (const open of all(":is(.facts, .ledger) details[open]")) open.open = false
    if (event.key === "Escape" && phone.matches) showInspector(false)
  })
  on(document, "input", ({ target }) => { if (target.matches?.("[data-tensor-query]")) searchTensors(target, model) })
  on(document, "click", ({ target }) => { if (target.matches?.("[data-csv]")) saveCsv(target) })
  on($("model"), "change", () => go(`model=${encodeURIComponent($("model").value)}`))
  on($("share"), "click", () => share($("share")))
  on($("theme"), "click", () => { stored("k3scope-theme", isDark() ? "light" : "dark"); applyTheme(model) })
  on(system, "change", () => applyTheme(model))
  on(document.querySelector(".skip"), "click", (event) => { event.preventDefault(); $("stage").focus() })
  on($("close"), "click", () => { showInspector(false); $("reopen").focus() })
  on($("reopen"), "click", () => showInspector(true))
  resizeByBorder($("border"))
  widths.observe($("inspector"))

  for (const name of SLOTS) { model.on(name, () => fill(name)); settle(name, slotOf(name)) }
  model.on("tensor_matches", () => showTensorMatches(model))
  model.on("current", sync)
  model.on("announcement", () => announce(model.announcement))
  model.document?.on_event?.("connection_lost", () => { $("lost").hidden = false })
  applyTheme(model)
  showInspector(!phone.matches || Boolean(model.current.select && !card()))
  sync()
  root.classList.add("live")
  model.on("remove", () => stop.abort())
}
