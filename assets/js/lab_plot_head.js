// Over each plot, after dom.js: what it is, whose numbers it shows, which other there is, and a menu to save it.
export function render({ model, el }) {
  const title = h("h2", {}), note = h("p", {}), problem = h("p", { class: "none", role: "status" })
  const tools = h("div", { class: "tools" })
  el.append(h("div", { class: "over" }, title, tools), note, problem)

  const draw = () => {
    const { title: text, source, badge, note: noteText, choices, choice, problem: why } = model.about
    title.replaceChildren(...[text ?? "", h("span", {}, source ?? ""), badge?.warn ? badge_of(badge) : null].filter((part) => part != null))
    note.textContent = noteText ?? ""
    problem.textContent = why ?? ""
    problem.hidden = !why
    const kinds = choices?.length > 1 ? h("select", { "aria-label": "Picture", onchange: () => model.send_msg({ choice: kinds.value }) },
      ...choices.map(([key, name]) => h("option", { value: key }, name))) : null
    if (kinds) kinds.value = choice
    const save = h("select", { "aria-label": `Save ${text}`, class: "save", onchange: () => {
      model.send_msg({ save: save.value })
      save.selectedIndex = 0
    } }, h("option", { value: "" }, "Save"), ...["PNG", "SVG", "CSV", "NPZ"].map((kind) => h("option", {}, kind)))
    tools.replaceChildren(...[kinds, why ? null : save].filter(Boolean))
  }
  const download = () => {
    const { name, mime, data } = model.file
    if (!data) return
    const bytes = Uint8Array.from(atob(data), (c) => c.charCodeAt(0))
    const link = h("a", { href: URL.createObjectURL(new Blob([bytes], { type: mime })), download: name })
    link.click()
    setTimeout(() => URL.revokeObjectURL(link.href), 10000)
  }
  model.on("about", draw)
  model.on("file", download)
  draw()
}
