/**
 * What the scripts of components share: elements, popovers, and the badge of a model.
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

// A button opens a popover upwards, inside the window; `focusFirst` puts the focus into it.
const opensUpwards = (button, panel, focusFirst) => {
  button.popoverTargetElement = panel
  panel.addEventListener("toggle", () => {
    if (!panel.matches(":popover-open")) {
      const focused = button.getRootNode().activeElement
      if (!focused || panel.contains(focused)) button.focus() // the focus inside the panel would be lost with it
      return
    }
    const corner = button.getBoundingClientRect()
    panel.style.bottom = `${innerHeight - corner.top + 6}px`
    panel.style.maxHeight = `${corner.top - 18}px`
    panel.style.right = `${Math.max(12, innerWidth - Math.max(corner.right, panel.offsetWidth + 12))}px`
    focusFirst()
  })
}

const badgeOf = (badge) => badge?.text
  ? h("em", { title: badge.detail, class: badge.warn ? null : "calm" },
    badge.href ? h("a", { href: badge.href, target: "_blank" }, badge.text) : badge.text)
  : null
