// The gallery, after dom.js: a button that opens a list of prompts, each a link, and of images to add.
const plain_click = (event) => event.button === 0 && !(event.metaKey || event.ctrlKey || event.shiftKey || event.altKey)

const examples_of = (model, send) => {
  const list = h("ul", {})
  const images = h("div", { class: "samples", role: "group", "aria-label": "Images to add" })
  const panel = h("div", { popover: "auto", class: "gallery", role: "dialog", "aria-label": "Examples" },
    h("h2", {}, "What shows the trained models best"), list, h("h2", {}, "Images to add"), images)
  const button = h("button", { type: "button", class: "examples", "aria-haspopup": "dialog" }, "Examples")
  button.popoverTargetElement = panel

  const choose = (event, type, more) => {
    if (!plain_click(event)) return // a new tab, say: the link itself
    event.preventDefault()
    panel.hidePopover()
    send(type, more)
  }
  const item = ({ name, href, place, look }, index) => h("li", {},
    h("a", { href, onclick: (event) => choose(event, "example", { index }) },
      h("b", {}, name), h("small", {}, place), h("span", {}, look)))
  const draw = () => {
    list.replaceChildren(...model.examples.map(item))
    images.replaceChildren(...model.samples.map(([name, label]) =>
      h("button", { type: "button", onclick: (event) => choose(event, "sample", { name }) }, label)))
  }
  panel.addEventListener("toggle", () => {
    if (!panel.matches(":popover-open")) {
      const held = button.getRootNode().activeElement
      if (!held || panel.contains(held)) button.focus() // what has the focus goes with the list
      return
    }
    const at = button.getBoundingClientRect()
    panel.style.bottom = `${innerHeight - at.top + 6}px`
    panel.style.maxHeight = `${at.top - 18}px`
    panel.style.right = `${Math.max(12, innerWidth - Math.max(at.right, panel.offsetWidth + 12))}px`
    list.querySelector("a")?.focus()
  })
  model.on("examples", draw)
  model.on("samples", draw)
  draw()
  return { button, panel }
}
