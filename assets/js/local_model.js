// A model in the browser with the interface that a drawing expects of the server's: plain values and listeners.
/**
 * `set` changes a value and calls the listeners of its name: a change that comes from outside the drawing.
 * A plain assignment, as the drawing itself does it, calls `onChange(name, value)` too.
 */
const localModel = (values, onChange) => {
  const listeners = {}
  const model = {
    on: (name, listener) => { (listeners[name] ??= []).push(listener) },
    set: (name, value) => {
      values[name] = value
      for (const listener of listeners[name] ?? []) listener()
    },
  }
  for (const name of Object.keys(values))
    Object.defineProperty(model, name, {
      get: () => values[name],
      set: (value) => {
        if (value === values[name]) return
        model.set(name, value)
        onChange(name, value)
      },
    })
  return model
}
