// One element with attributes, listeners and children; strings among the children become text.
const h = (tag, attributes = {}, ...children) => {
  const el = document.createElement(tag)
  for (const [key, value] of Object.entries(attributes)) {
    if (value === false || value == null) continue
    if (key === "class") el.className = value
    else if (key.startsWith("on")) el[key] = value
    else el.setAttribute(key, value === true ? "" : value)
  }
  el.append(...children.filter((child) => child != null))
  return el
}
