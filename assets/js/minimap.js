// A small picture of the whole scene with a frame around what is visible; shown when much is not.
const MAP_W = 132, MAP_H = 200

function minimap(stage, move) {
  const map = shape("svg", { class: "map", "aria-hidden": "true" })
  const boxes = shape("g", {}, map), frame = shape("rect", { class: "frame", rx: 2 }, map)
  stage.append(map)
  let scale = 1, content = { width: 1, height: 1 }
  const draw = (scene) => {
    content = scene
    scale = Math.min(MAP_W / scene.width, MAP_H / scene.height)
    map.setAttribute("width", scene.width * scale)
    map.setAttribute("height", scene.height * scale)
    map.setAttribute("viewBox", `0 0 ${scene.width} ${scene.height}`)
    boxes.replaceChildren()
    for (const n of [...scene.nodes].sort((a, b) => a.depth - b.depth)) {
      const cls = `k-${n.kind}${n.open ? " open" : ""}`
      shape("rect", { class: cls, x: n.x, y: n.y, width: n.w, height: n.h, rx: 8 }, boxes)
    }
  }
  // view: x, y of the drawing on the stage and the zoom k; size: of the stage
  const follow = (view, size, moved) => {
    const w = size.width / view.k, h = size.height / view.k
    const muchHidden = w < content.width - 8 || (moved && h < content.height / 1.5)
    map.classList.toggle("on", muchHidden && size.width > 576)
    for (const [key, value] of Object.entries({ x: -view.x / view.k, y: -view.y / view.k, width: w, height: h }))
      frame.setAttribute(key, value)
  }
  const go = (ev) => {
    const box = map.getBoundingClientRect()
    move((ev.clientX - box.left) / scale, (ev.clientY - box.top) / scale)
  }
  map.addEventListener("pointerdown", (ev) => { map.setPointerCapture(ev.pointerId); go(ev) })
  map.addEventListener("pointermove", (ev) => { if (map.hasPointerCapture(ev.pointerId)) go(ev) })
  return { draw, follow }
}
