/**
 * Returns a function that gets the cache of a store, and creates it at the first call. The cache is garbage-collected with
 * its store: several stores can be open in one process, for example in tests.
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
