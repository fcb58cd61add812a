/**
 * What the scripts of components share: elements, and the badge of a model.
 *
 * @typedef {{ text: string, detail: string, href: string, warn: boolean }} Badge what must be known of a model
 *   beside its numbers, and the address of its card; an empty object for a model that needs no word
 */

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

const badgeOf = (badge) => badge?.text
  ? h("em", { title: badge.detail, class: badge.warn ? null : "calm" },
    badge.href ? h("a", { href: badge.href, target: "_blank" }, badge.text) : badge.text)
  : null
