// The Compare view, after stand_in.js: a second model by name, or a config.json that is dropped, chosen or pasted; both drawn.
const LARGEST = 64 * 1024
const root = document.documentElement

// Two drawings that select together and move together.
function drawPair({ model, stop }) {
  const place = document.querySelector("[data-compare=pair]")
  const hosts = [...place.querySelectorAll("[data-side]")]
  let busy = false
  const nothing = { scene: { width: 0, height: 0, nodes: [], edges: [] }, words: {}, selected: "", camera: "", dark: false, live: {}, view: null }
  const choosing = (i) => (name, id) => {
    if (name !== "selected") return
    const block = id.split("/")[0]
    if (sides[1 - i].selected !== block) sides[1 - i].take("selected", block)
    model.send_msg({ select: block })
  }
  const sides = hosts.map((host, i) => Object.assign(standIn({ ...nothing }, choosing(i)), {
    send_msg: ({ type, id }) => { if (type === "toggle") model.send_msg({ toggle: id }) },
    onView: (view) => {
      if (busy) return
      busy = true
      sides[1 - i].take("view", { ...view })
      busy = false
    },
  }))
  let alive = false
  const show = () => {
    const { left, right, names, said } = model.pair
    place.hidden = !left
    if (!left) return
    place.querySelectorAll("figcaption").forEach((caption, i) => { caption.textContent = names[i] })
    const chip = ([kind, text]) => Object.assign(document.createElement("li"), { className: `m-${kind}`, textContent: text })
    place.querySelector("ul").replaceChildren(...said.map(chip))
    busy = true
    sides.forEach((side, i) => side.take("scene", [left, right][i]))
    if (!alive) hosts.forEach((host, i) => window.k3draw(host, sides[i]))
    alive = true
    busy = false
  }
  const choose = () => sides.forEach((side) => { if (side.selected !== model.selected) side.take("selected", model.selected) })
  const theme = () => sides.forEach((side) => side.take("dark", root.classList.contains("dark")))
  const watch = new MutationObserver(theme)
  watch.observe(root, { attributeFilter: ["class"] })
  stop.addEventListener("abort", () => watch.disconnect())
  model.on("pair", show)
  model.on("selected", choose)
  show()
  theme()
  choose()
}

export function render({ model, el }) {
  el.hidden = true
  const stage = document.getElementById("stage-compare")
  const stop = new AbortController()
  const on = (type, handler, target = stage) => target.addEventListener(type, handler, { signal: stop.signal, capture: target !== stage })
  const place = (name) => stage.querySelector(`[data-compare=${name}]`)
  const select = stage.querySelector("#compare-with")

  const bring = async (file) => {
    if (!file) return
    if (file.size > LARGEST) { place("wrong").textContent = `${file.name} is larger than 64 kB: no config.json is.`; return }
    model.send_msg({ config: await file.text(), name: file.name })
  }
  on("change", ({ target }) => {
    if (target === select) model.send_msg({ with: select.value })
    if (target.type === "file") { bring(target.files[0]); target.value = "" }
  })
  on("submit", (event) => {
    event.preventDefault()
    model.send_msg({ config: stage.querySelector("textarea").value, name: "pasted config.json" })
  })
  // a file may be dropped anywhere on the view, and a .json anywhere on the page
  const over = (yes) => stage.classList.toggle("over", yes)
  const isConfig = ({ dataTransfer }) => [...dataTransfer.items].some((item) => item.type === "application/json")
  on("dragover", (event) => { event.preventDefault(); over(true) })
  on("dragleave", (event) => { if (!stage.contains(event.relatedTarget)) over(false) })
  on("drop", (event) => { event.preventDefault(); over(false); bring(event.dataTransfer.files[0]) })
  on("dragover", (event) => { if (isConfig(event)) event.preventDefault() }, document)
  on("drop", (event) => {
    if (stage.contains(event.target) || !isConfig(event)) return
    event.preventDefault()
    event.stopPropagation()
    bring(event.dataTransfer.files[0])
  }, document)

  const fill = () => { place("results").innerHTML = model.results }
  const show = () => { select.value = model.other }
  const complain = () => { place("wrong").textContent = model.wrong && `${model.wrong}.` }
  model.on("results", fill)
  model.on("other", show)
  model.on("wrong", complain)
  model.on("asked", complain)
  if (model.results && !place("results").children.length) fill()
  show()
  drawPair({ model, stop: stop.signal })
  model.on("remove", () => stop.abort())
}
