// The drawing is alive before the server's half is: the page brings its first scene, and a model that stands in.
const model = (() => {
  const values = JSON.parse(document.getElementById("first").textContent), heard = {}, waiting = []
  const touched = new Set() // what the visitor changed while nobody listened
  let far = null
  const on = (name, act) => { (heard[name] ??= []).push(act) }
  const take = (name, value) => {
    values[name] = value
    for (const act of heard[name] ?? []) act()
  }
  const set = (name, value) => {
    if (value === values[name]) return
    take(name, value)
    if (far) far[name] = value
    else touched.add(name)
  }
  const send_msg = (data) => { if (far) far.send_msg(data); else waiting.push(data) }
  // The server's model has nothing to say at first: it was made from the same link.
  const join = (other) => {
    far = other
    for (const name of touched) far[name] = values[name]
    for (const data of waiting) far.send_msg(data)
    for (const name of Object.keys(values)) far.on(name, () => { if (far[name] !== values[name]) take(name, far[name]) })
    if (Object.keys(far.live).length) take("live", far.live)
  }
  const made = { on, send_msg, join }
  for (const name of Object.keys(values))
    Object.defineProperty(made, name, { get: () => values[name], set: (value) => set(name, value) })
  values.dark = document.documentElement.classList.contains("dark")
  return made
})()
const place = document.getElementById("diagram").attachShadow({ mode: "open" })
html("style", "", place, JSON.parse(document.getElementById("diagram-style").textContent))
drawDiagram(model, place)
window.k3diagram = model
