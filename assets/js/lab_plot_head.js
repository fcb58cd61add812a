/**
 * Over each plot, after dom.js: its title, whose numbers it shows, which other picture there is, a menu to save it.
 *
 * Shows `about`: { title, source, badge, note, problem, choice, choices: [key, label][] }; a `file`
 * { name, mime, data in base64, count } is downloaded when it comes.
 * Sends { choice: key } and { save: "PNG" | "SVG" | "CSV" | "NPZ" }.
 */
const FORMATS = ["PNG", "SVG", "CSV", "NPZ"]

const pictureMenu = (model, { choices, choice }) => {
  if (!(choices?.length > 1)) return null
  const menu = h("select", { "aria-label": "Picture", onchange: () => model.send_msg({ choice: menu.value }) },
    ...choices.map(([key, label]) => h("option", { value: key }, label)))
  menu.value = choice
  return menu
}

const saveMenu = (model, title) => {
  const menu = h("select", { "aria-label": `Save ${title}`, class: "save", onchange: () => {
    model.send_msg({ save: menu.value })
    menu.selectedIndex = 0
  } }, h("option", { value: "" }, "Save"), ...FORMATS.map((format) => h("option", {}, format)))
  return menu
}

const download = ({ name, mime, data }) => {
  if (!data) return
  const bytes = Uint8Array.from(atob(data), (c) => c.charCodeAt(0))
  const link = h("a", { href: URL.createObjectURL(new Blob([bytes], { type: mime })), download: name })
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 10000) // the browser reads it after the click
}

export function render({ model, el }) {
  const heading = h("h2", {}), note = h("p", {}), problem = h("p", { class: "empty", role: "status" })
  const tools = h("div", { class: "tools" })
  el.append(h("div", { class: "heading" }, heading, tools), note, problem)

  const draw = () => {
    const { about } = model
    const badge = about.badge?.warn ? badgeOf(about.badge) : null
    heading.replaceChildren(...[about.title ?? "", h("span", {}, about.source ?? ""), badge].filter((part) => part != null))
    note.textContent = about.note ?? ""
    problem.textContent = about.problem ?? ""
    problem.hidden = !about.problem
    tools.replaceChildren(...[pictureMenu(model, about), about.problem ? null : saveMenu(model, about.title)].filter(Boolean))
  }
  model.on("about", draw)
  model.on("file", () => download(model.file))
  draw()
}
