// The Compare view: a second model by name, or a config.json that is dropped, chosen or pasted.
const LARGEST = 64 * 1024

export function render({ model, el }) {
  el.hidden = true
  const stage = document.getElementById("stage-compare")
  const stop = new AbortController()
  const on = (type, handler) => stage.addEventListener(type, handler, { signal: stop.signal })
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
  // dropping works anywhere on the view
  const over = (yes) => stage.classList.toggle("over", yes)
  on("dragover", (event) => { event.preventDefault(); over(true) })
  on("dragleave", (event) => { if (!stage.contains(event.relatedTarget)) over(false) })
  on("drop", (event) => { event.preventDefault(); over(false); bring(event.dataTransfer.files[0]) })

  const fill = () => { place("results").innerHTML = model.results }
  const show = () => { select.value = model.other }
  const complain = () => { place("wrong").textContent = model.wrong && `${model.wrong}.` }
  model.on("results", fill)
  model.on("other", show)
  model.on("wrong", complain)
  model.on("asked", complain)
  if (model.results && !place("results").children.length) fill()
  show()
  model.on("remove", () => stop.abort())
}
