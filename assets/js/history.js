// Owns the browser's history: entries come from Python, Back and Forward go to Python.
/**
 * @typedef {Object} Entry what history.py writes
 * @property {string} search query string that the address shows
 * @property {?string} bare what the entry becomes once another is pushed over it; null: as it stands
 * @property {number} pushes entries pushed so far: one more than was seen means pushState
 * Sends {search: string}, the query string that Back or Forward went to.
 */
const currentSearch = () => (location.search === "?" ? "" : location.search)
const writeEntry = (method, search) => history[method](null, "", location.pathname + search + location.hash)

export function render({ model, el }) {
  el.hidden = true
  const framed = window.parent !== window // Back belongs to the page around the frame
  let { bare, pushes } = model.entry // of the entry in the window
  const write = () => {
    const next = model.entry, push = next.pushes > pushes && !framed
    if (push && bare !== null && bare !== currentSearch()) writeEntry("replaceState", bare)
    if (next.search !== currentSearch()) writeEntry(push ? "pushState" : "replaceState", next.search)
    bare = next.bare
    pushes = next.pushes
  }
  const navigated = () => {
    bare = null
    model.send_msg({ search: currentSearch() })
  }
  model.on("entry", write)
  window.addEventListener("popstate", navigated)
  model.on("remove", () => window.removeEventListener("popstate", navigated))
}
