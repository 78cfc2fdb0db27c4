/** Waiting that ends when nobody is interested any more. */

/**
 * What a promise gives, to somebody who may be gone before: then `left` is called, and the error is the signal's reason.
 * The work behind the promise goes on unless `left` ends it.
 */
export function unlessGone<T>(
  promise: Promise<T>,
  gone: AbortSignal | undefined,
  left: () => void,
): Promise<T> {
  if (gone === undefined) return promise
  return new Promise((resolve, reject) => {
    const leave = () => {
      left()
      reject(gone.reason)
    }
    gone.addEventListener('abort', leave, { once: true })
    promise.then(resolve, reject).finally(() => gone.removeEventListener('abort', leave))
  })
}
