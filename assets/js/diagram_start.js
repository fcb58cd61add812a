// Draws the diagram before there is a session, from the first scene in the page; the session's model connects later.
/**
 * Sends {type: "toggle", id, toggles} for the press that opens or closes a group, counted, and
 * {type: "prefetch", id} when the pointer or the focus comes to a group whose next scene is not cached.
 * Receives, as JSON, `scene` (key, next: key by group, toggles: the presses that it answers) and `prefetched`, a scene.
 */
const model = (() => {
  const initial = JSON.parse(document.getElementById("first").textContent)
  const changedEarly = new Set(), sentEarly = [] // while no session was there
  let server = null
  const local = localModel({ ...initial, dark: document.documentElement.classList.contains("dark"), floor: Infinity }, (name, value) => {
    if (name === "selected") previewSubject(local, value)
    if (server) server[name] = value
    else changedEarly.add(name)
  })
  // Scenes by key: a toggle that leads to a cached one is answered from it, and the server's answer only confirms it.
  const scenes = new Map(), requested = new Set()
  let toggles = 0
  const cache = (scene) => {
    scenes.set(scene.key, scene)
    if (scenes.size > 24) scenes.delete(scenes.keys().next().value)
  }
  const prefetch = (id) => {
    const key = local.scene.next[id]
    if (!server || !key || scenes.has(key) || requested.has(key)) return
    requested.add(key)
    server.send_msg({ type: "prefetch", id })
  }
  const takeScene = (scene) => {
    cache(scene)
    // an answer to an earlier press would undo the presses after it
    if (scene.toggles >= toggles && scene.key !== local.scene.key) local.set("scene", scene)
  }
  const send_msg = (data) => { // called as Panel calls it on the server's model
    const cached = data.type === "toggle" && scenes.get(local.scene.next[data.id])
    const message = data.type === "toggle" ? { ...data, toggles: ++toggles } : data
    if (server) server.send_msg(message); else sentEarly.push(message)
    if (cached) local.set("scene", cached)
  }
  cache(local.scene)
  // The server's values are not taken over at first: they were made from the same link.
  const connect = (sessionModel) => {
    server = sessionModel
    for (const name of changedEarly) server[name] = local[name]
    for (const message of sentEarly) server.send_msg(message)
    server.on("scene", () => takeScene(JSON.parse(server.scene)))
    server.on("prefetched", () => {
      const scene = JSON.parse(server.prefetched)
      requested.delete(scene.key)
      cache(scene)
    })
    for (const name of Object.keys(initial).filter((key) => key !== "scene"))
      server.on(name, () => { if (server[name] !== local[name]) local.set(name, server[name]) })
    if (Object.keys(server.live).length) local.set("live", server.live)
  }
  // On a phone the inspector comes up over the diagram: what is selected moves out from under it.
  const setFloor = (inspector) => {
    const { height, top } = inspector.getBoundingClientRect(), fixed = getComputedStyle(inspector).position === "fixed"
    local.set("floor", height && fixed ? top : Infinity)
  }
  return Object.assign(local, { send_msg, connect, prefetch, setFloor })
})()
const drawInto = (host, sceneModel) => {
  const shadow = host.attachShadow({ mode: "open" })
  html("style", "", shadow, JSON.parse(document.getElementById("diagram-style").textContent))
  drawDiagram(sceneModel, shadow)
}
const start = () => {
  const host = document.getElementById("diagram")
  drawInto(host, model)
  for (const type of ["pointerover", "focusin"])
    host.shadowRoot.addEventListener(type, ({ target }) => {
      const box = target.closest("[data-id]")
      if (box?.hasAttribute("aria-expanded")) model.prefetch(box.dataset.id)
    })
}
if (document.hidden) start()
else requestAnimationFrame(() => setTimeout(start)) // what stands around it is on screen a frame earlier
document.addEventListener("DOMContentLoaded", () => {
  const inspector = document.getElementById("inspector")
  new ResizeObserver(() => model.setFloor(inspector)).observe(inspector)
})
window.k3diagram = model
window.k3draw = drawInto // other views draw scenes of their own
