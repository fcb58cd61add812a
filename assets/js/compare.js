// The Compare view: a second model by name, or a config.json that is dropped, chosen or pasted; both drawn.
/**
 * Goes after local_model.js. Sends {with: name}, {config: text, name}, {cancel: true}, {select: block} and {toggle: group}.
 * Receives `results` (HTML), `other`, `problem`, `pending` (how a comparison stands that is on its way), `answers`, `selected` and `pair`, as JSON: the scenes left and right,
 * their names, and counts, [mark, text] of each way to differ.
 */
const LARGEST = 64 * 1024
const root = document.documentElement

// Two drawings that select together and move together.
function drawPair({ model, stop }) {
  const section = document.querySelector("[data-compare=pair]")
  const hosts = [...section.querySelectorAll("[data-side]")]
  let syncing = false // one side moves the other, which must not move it back
  const empty = { scene: { width: 0, height: 0, nodes: [], edges: [] }, layer_texts: {}, selected: "", camera: "", dark: false, live: {}, view: null }
  const selecting = (i) => (name, id) => {
    if (name !== "selected") return
    const block = id.split("/")[0]
    if (sides[1 - i].selected !== block) sides[1 - i].set("selected", block)
    model.send_msg({ select: block })
  }
  const sides = hosts.map((host, i) => Object.assign(localModel({ ...empty }, selecting(i)), {
    send_msg: ({ type, id }) => { if (type === "toggle") model.send_msg({ toggle: id }) },
    onView: (view) => {
      if (syncing) return
      syncing = true
      sides[1 - i].set("view", { ...view })
      syncing = false
    },
  }))
  let drawn = false
  const show = () => {
    const { left, right, names, counts } = JSON.parse(model.pair || "{}")
    section.hidden = !left
    if (!left) return
    section.querySelectorAll("figcaption").forEach((caption, i) => { caption.textContent = names[i] })
    const chip = ([kind, text]) => Object.assign(document.createElement("li"), { className: `m-${kind}`, textContent: text })
    section.querySelector("ul").replaceChildren(...counts.map(chip))
    syncing = true
    sides.forEach((side, i) => side.set("scene", [left, right][i]))
    if (!drawn) hosts.forEach((host, i) => window.k3draw(host, sides[i]))
    drawn = true
    syncing = false
  }
  const select = () => sides.forEach((side) => { if (side.selected !== model.selected) side.set("selected", model.selected) })
  const theme = () => sides.forEach((side) => side.set("dark", root.classList.contains("dark")))
  const observer = new MutationObserver(theme)
  observer.observe(root, { attributeFilter: ["class"] })
  stop.addEventListener("abort", () => observer.disconnect())
  model.on("pair", show)
  model.on("selected", select)
  show()
  theme()
  select()
}

export function render({ model, el }) {
  el.hidden = true
  const stage = document.getElementById("stage-compare")
  const stop = new AbortController()
  const on = (type, handler, target = stage) => target.addEventListener(type, handler, { signal: stop.signal, capture: target !== stage })
  const place = (name) => stage.querySelector(`[data-compare=${name}]`)
  const select = stage.querySelector("#compare-with")

  const sendFile = async (file) => {
    if (!file) return
    if (file.size > LARGEST) { place("problem").textContent = `${file.name} is larger than 64 kB: no config.json is.`; return }
    model.send_msg({ config: await file.text(), name: file.name })
  }
  on("change", ({ target }) => {
    if (target === select) model.send_msg({ with: select.value })
    if (target.type === "file") { sendFile(target.files[0]); target.value = "" }
  })
  on("submit", (event) => {
    event.preventDefault()
    model.send_msg({ config: stage.querySelector("textarea").value, name: "pasted config.json" })
  })
  // a file may be dropped anywhere on the view, and a .json anywhere on the page
  const setDropTarget = (on) => stage.classList.toggle("over", on)
  const isConfig = ({ dataTransfer }) => [...dataTransfer.items].some((item) => item.type === "application/json")
  on("dragover", (event) => { event.preventDefault(); setDropTarget(true) })
  on("dragleave", (event) => { if (!stage.contains(event.relatedTarget)) setDropTarget(false) })
  on("drop", (event) => { event.preventDefault(); setDropTarget(false); sendFile(event.dataTransfer.files[0]) })
  on("dragover", (event) => { if (isConfig(event)) event.preventDefault() }, document)
  on("drop", (event) => {
    if (stage.contains(event.target) || !isConfig(event)) return
    event.preventDefault()
    event.stopPropagation()
    sendFile(event.dataTransfer.files[0])
  }, document)

  const fill = () => { place("results").innerHTML = model.results }
  const show = () => { select.value = model.other }
  const showProblem = () => { place("problem").textContent = model.problem && `${model.problem}.` }
  const showPending = () => {
    place("pending").hidden = !model.pending
    place("pending").querySelector("span").textContent = model.pending && `${model.pending}.`
  }
  on("click", ({ target }) => { if (target.matches("[data-cancel]")) model.send_msg({ cancel: true }) })
  model.on("pending", showPending)
  model.on("results", fill)
  model.on("other", show)
  model.on("problem", showProblem)
  model.on("answers", showProblem)
  if (model.results && !place("results").children.length) fill()
  show()
  drawPair({ model, stop: stop.signal })
  model.on("remove", () => stop.abort())
}
