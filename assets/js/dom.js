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

// What must be known of a model beside its numbers, with a way to its card; nothing for one that needs no word.
const badge_of = (badge) => badge?.text
  ? h("em", { title: badge.says, class: badge.warn ? null : "calm" },
    badge.href ? h("a", { href: badge.href, target: "_blank" }, badge.text) : badge.text)
  : null
