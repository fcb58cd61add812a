// The drawing is alive before the server's half is: the page brings its first scene, and a model that stands in.
const model = (() => {
  const first = JSON.parse(document.getElementById("first").textContent), waiting = []
  const touched = new Set() // what the visitor changed while nobody listened
  let far = null
  const made = standIn({ ...first, dark: document.documentElement.classList.contains("dark"), floor: Infinity }, (name, value) => {
    if (name === "selected") preview(made, value)
    if (far) far[name] = value
    else touched.add(name)
  })
  // Scenes by key: a toggle that leads to a known one is answered here, and the server's answer only confirms it.
  const scenes = new Map(), wanted = new Set()
  let asked = 0
  const know = (scene) => {
    scenes.set(scene.key, scene)
    if (scenes.size > 24) scenes.delete(scenes.keys().next().value)
  }
  const near = (id) => {
    const key = made.scene.next[id]
    if (!far || !key || scenes.has(key) || wanted.has(key)) return
    wanted.add(key)
    far.send_msg({ type: "near", id })
  }
  const arrived = (scene) => {
    know(scene)
    if (scene.n >= asked && scene.key !== made.scene.key) made.take("scene", scene)
  }
  const send_msg = (data) => {
    const ready = data.type === "toggle" && scenes.get(made.scene.next[data.id])
    const told = data.type === "toggle" ? { ...data, n: ++asked } : data
    if (far) far.send_msg(told); else waiting.push(told)
    if (ready) made.take("scene", ready)
  }
  know(made.scene)
  // The server's model has nothing to say at first: it was made from the same link.
  const join = (other) => {
    far = other
    for (const name of touched) far[name] = made[name]
    for (const data of waiting) far.send_msg(data)
    far.on("scene", () => arrived(far.scene))
    far.on("ahead", () => { wanted.delete(far.ahead.key); know(far.ahead) })
    for (const name of Object.keys(first).filter((key) => key !== "scene"))
      far.on(name, () => { if (far[name] !== made[name]) made.take(name, far[name]) })
    if (Object.keys(far.live).length) made.take("live", far.live)
  }
  // On a phone the details come up over the drawing: what is selected moves out from under them.
  const cover = (sheet) => {
    const { height, top } = sheet.getBoundingClientRect(), fixed = getComputedStyle(sheet).position === "fixed"
    made.take("floor", height && fixed ? top : Infinity)
  }
  return Object.assign(made, { send_msg, join, near, cover })
})()
const drawInto = (host, shown) => {
  const place = host.attachShadow({ mode: "open" })
  html("style", "", place, JSON.parse(document.getElementById("diagram-style").textContent))
  drawDiagram(shown, place)
}
const drawFirst = () => {
  const place = document.getElementById("diagram")
  drawInto(place, model)
  for (const type of ["pointerover", "focusin"])
    place.shadowRoot.addEventListener(type, ({ target }) => {
      const box = target.closest("[data-id]")
      if (box?.hasAttribute("aria-expanded")) model.near(box.dataset.id)
    })
}
if (document.hidden) drawFirst()
else requestAnimationFrame(() => setTimeout(drawFirst)) // what stands around it is on screen a frame earlier
document.addEventListener("DOMContentLoaded", () => {
  const sheet = document.getElementById("inspector")
  new ResizeObserver(() => model.cover(sheet)).observe(sheet)
})
window.k3diagram = model
window.k3draw = drawInto // other views draw scenes of their own
