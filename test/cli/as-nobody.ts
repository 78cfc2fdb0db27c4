/** Makes file modes effective in tests that run as root. */

const NOBODY = 65534

/** Runs the work as the user nobody when the test runs as root; otherwise as the current user. */
export async function asNobody<T>(work: () => Promise<T>): Promise<T> {
  if (process.geteuid?.() !== 0) return work()
  process.seteuid?.(NOBODY)
  try {
    return await work()
  } finally {
    process.seteuid?.(0)
  }
}
