/**
 * The gallery, after dom.js: a button that opens a list of prompts, each a link, and of images to attach.
 *
 * Shows `examples`: { name, href, view_title, caption }[] and `samples`: [name, label][].
 * Sends example { index } and attach_sample { name }.
 */
const isPlainClick = (event) => event.button === 0 && !(event.metaKey || event.ctrlKey || event.shiftKey || event.altKey)

const examplesOf = (model, send) => {
  const list = h("ul", {})
  const samples = h("div", { class: "samples", role: "group", "aria-label": "Images to add" })
  const panel = h("div", { popover: "auto", class: "popover gallery", role: "dialog", "aria-label": "Examples" },
    h("h2", {}, "What shows the trained models best"), list, h("h2", {}, "Images to add"), samples)
  const button = h("button", { type: "button", class: "examples", "aria-haspopup": "dialog" }, "Examples")

  const choose = (event, type, fields) => {
    if (!isPlainClick(event)) return // a new tab, say: the link itself
    event.preventDefault()
    panel.hidePopover()
    send(type, fields)
  }
  const item = ({ name, href, view_title: viewTitle, caption }, index) => h("li", {},
    h("a", { href, onclick: (event) => choose(event, "example", { index }) },
      h("b", {}, name), h("small", {}, viewTitle), h("span", {}, caption)))
  const draw = () => {
    list.replaceChildren(...model.examples.map(item))
    samples.replaceChildren(...model.samples.map(([name, label]) =>
      h("button", { type: "button", onclick: (event) => choose(event, "attach_sample", { name }) }, label)))
  }
  opensUpwards(button, panel, () => list.querySelector("a")?.focus())
  model.on("examples", draw)
  model.on("samples", draw)
  draw()
  return { button, panel }
}
