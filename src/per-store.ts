/** What is remembered of a store, beside it: several stores can be open in one process, as in tests. */

/**
 * A function that gives each store its own memory, made by `make` when it is first asked for. The memory is gone
 * with the store.
 */
export function perStore<Store extends object, Memory>(make: () => Memory): (store: Store) => Memory {
  const memories = new WeakMap<Store, Memory>()
  return (store) => {
    const before = memories.get(store)
    if (before !== undefined) return before
    const memory = make()
    memories.set(store, memory)
    return memory
  }
}
