// Connects the session's model to the diagram, which diagram_start.js has drawn by the time this comes.
export function render({ model, el }) {
  el.hidden = true
  window.k3diagram.connect(model)
}
