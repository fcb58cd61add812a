// The server's half of the drawing; diagram_first.js has drawn it by the time this comes.
export function render({ model, el }) {
  el.hidden = true
  window.k3diagram.join(model)
}
