// A click is answered at once by what the scene has of the box; the server's details replace it.
const previewSubject = ({ scene, layer_texts: layerTexts }, id) => {
  const box = scene.nodes.find((node) => node.id === id)
  if (!box || box.io || id.includes("/")) return
  const node = { ...box, ...layerTexts[id] }
  const subject = document.querySelector("[data-slot=subject]"), overview = document.querySelector("[data-slot=overview]")
  subject.replaceChildren()
  html("p", `kind k-${node.kind}`, subject, KINDS.find(([kind]) => kind === node.kind)?.[1]).prepend(document.createElement("i"))
  html("h2", "", subject, node.title).dataset.testid = "subject"
  const numbers = html("p", "numbers", subject, node.params ? " parameters" : "no parameters of its own")
  if (node.params) numbers.prepend(Object.assign(document.createElement("b"), { textContent: node.params.toLocaleString("en-US") }))
  const lead = !overview.hidden && overview.querySelector(".lead")
  if (!lead) return
  lead.textContent = node.summary
  overview.scrollTop = 0
  overview.dataset.pending = ""
}
