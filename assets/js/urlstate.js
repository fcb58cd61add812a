// Owns the browser's history: entries come from Python, Back and Forward go to Python.
const here = () => (location.search === "?" ? "" : location.search)
const place = (how, search) => history[how](null, "", location.pathname + search + location.hash)

export function render({ model, el }) {
  el.hidden = true
  const framed = window.parent !== window // Back belongs to the page around the frame
  let { bare, pushes } = model.entry // bare: what the entry in the window is without the run on its way; null: as it stands
  const write = () => {
    const next = model.entry, push = next.pushes > pushes && !framed
    if (push && bare !== null && bare !== here()) place("replaceState", bare)
    if (next.search !== here()) place(push ? "pushState" : "replaceState", next.search)
    bare = next.bare
    pushes = next.pushes
  }
  const arrive = () => {
    bare = null
    model.send_msg({ search: here() })
  }
  model.on("entry", write)
  window.addEventListener("popstate", arrive)
  model.on("remove", () => window.removeEventListener("popstate", arrive))
}
