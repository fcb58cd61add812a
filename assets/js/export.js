// The diagram outside the page: as a file, on paper, in a frame of another page. Goes before controls.js.
/** Sends {export: "svg" | "png" | "json"} and {cancel_export: true}; receives the custom messages {says}, how it stands and "" at its end, {problem}, and
 * {name, type, base64, note}, the file to save. */
const $ = (id) => document.getElementById(id)

// --- the diagram as a file, made from what is on the screen now
function exportMenu({ model, on }) {
  const menu = $("export"), summary = menu.querySelector("summary")
  const close = () => { menu.open = false }
  const state = $("export-state"), cancel = state.querySelector("button")
  // What is being written can be cancelled; why there is no file stays a while.
  const showState = (text, pending) => {
    $("says").textContent = text
    state.querySelector("span").textContent = text
    state.hidden = !text
    cancel.hidden = !pending
    if (text && !pending) setTimeout(() => { if (cancel.hidden) state.hidden = true }, 8000)
  }
  const save = ({ name, type, base64, note, says, problem }) => {
    if (says === "") { state.hidden = true; return }
    if (says || problem) { showState(says ?? problem, Boolean(says)); return }
    const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0))
    const link = document.createElement("a")
    link.href = URL.createObjectURL(new Blob([bytes], { type }))
    link.download = name
    link.click()
    setTimeout(() => URL.revokeObjectURL(link.href), 1000)
    $("says").textContent = `${name} saved${note}`
  }
  on(menu, "click", ({ target }) => {
    const form = target.dataset.export
    if (form) model.send_msg({ export: form })
    if (!form && !target.matches("[data-print]")) return
    close()
    summary.focus()
    if (!form) window.print()
  })
  on(cancel, "click", () => { model.send_msg({ cancel_export: true }); summary.focus() })
  on(menu, "keydown", (event) => {
    if (event.key !== "Escape" || !menu.open) return
    close()
    summary.focus()
    event.stopPropagation()
  })
  on(document, "click", ({ target }) => { if (!menu.contains(target)) close() })
  model.on("msg:custom", save)
}

// --- on paper: the whole diagram in light colours, wherever the camera is
const inShadows = (root, query) => root.querySelector(query) ?? [...root.querySelectorAll("*")]
  .reduce((match, el) => match ?? (el.shadowRoot && inShadows(el.shadowRoot, query)), null)

function printing({ on }) {
  let restore = () => {}
  const setAttributes = (el, values) => {
    for (const [name, value] of Object.entries(values))
      if (value === null) el.removeAttribute(name); else el.setAttribute(name, value)
  }
  const swap = (el, values) => {
    const before = Object.fromEntries(Object.keys(values).map((name) => [name, el.getAttribute(name)]))
    setAttributes(el, values)
    return () => setAttributes(el, before)
  }
  const lightClasses = (el) => el.getAttribute("class")?.split(" ").filter((name) => !/^(very)?far$|^dark$/.test(name)).join(" ") ?? ""
  on(window, "beforeprint", () => {
    const svg = inShadows(document, "svg.tree"), all = svg.querySelector("g"), wrap = svg.closest(".k3d")
    const { x, y, width, height } = all.getBBox() // the style sheet takes the camera away
    const undo = [swap(svg, { viewBox: `${x - 8} ${y - 8} ${width + 16} ${height + 16}` })]
    for (const el of [wrap, document.documentElement]) undo.push(swap(el, { class: lightClasses(el) }))
    restore = () => undo.forEach((step) => step())
  })
  on(window, "afterprint", () => { restore(); restore = () => {} })
}

// --- in a frame (`?embed=1`): the way to the same view on a page of its own
function framedLink({ on }) {
  const link = $("own-page")
  const setHref = () => {
    const parts = location.search.slice(1).split("&").filter((part) => part && !/^embed(=|$)/.test(part))
    link.href = location.pathname + (parts.length ? `?${parts.join("&")}` : "")
  }
  for (const type of ["pointerenter", "focus", "click"]) on(link, type, setHref)
  setHref()
}
