// Owns the browser's history: entries come from Python, Back and Forward go to Python.
const here = () => (location.search === "?" ? "" : location.search)

export function render({ model, el }) {
  el.hidden = true
  const write = () => {
    const { search, push } = model.entry
    if (search === here()) return
    const url = location.pathname + search + location.hash
    const framed = window.parent !== window // Back belongs to the page around the frame
    if (push && !framed) history.pushState(null, "", url)
    else history.replaceState(null, "", url)
  }
  const arrive = () => model.send_msg({ search: here() })
  model.on("entry", write)
  window.addEventListener("popstate", arrive)
  model.on("remove", () => window.removeEventListener("popstate", arrive))
}
