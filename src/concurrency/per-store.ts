/** Caches that belong to one store each. Several stores can be open in one process, for example in tests. */

/**
 * Returns a function that gives the cache of a store. `make` makes the cache at the first call for the store.
 * The cache is garbage-collected together with its store.
 */
export function perStore<Store extends object, Cache>(
  make: (store: Store) => Cache,
): (store: Store) => Cache {
  const caches = new WeakMap<Store, Cache>()
  return (store) => {
    const known = caches.get(store)
    if (known !== undefined) return known
    const cache = make(store)
    caches.set(store, cache)
    return cache
  }
}
