// A click is answered by what the drawing knows of the box; the server's words take its place.
const preview = ({ scene, words }, id) => {
  const drawn = scene.nodes.find((node) => node.id === id)
  if (!drawn || drawn.io || id.includes("/")) return
  const node = { ...drawn, ...words[id] }
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
  overview.dataset.coming = ""
}
