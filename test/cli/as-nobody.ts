/** The file modes that a test sets count for those who run it as root, too. */

const NOBODY = 65534

/** Does the work as somebody whom nothing belongs to, where root does it; else as whoever runs the test. */
export async function asNobody<T>(work: () => Promise<T>): Promise<T> {
  if (process.geteuid?.() !== 0) return work()
  process.seteuid?.(NOBODY)
  try {
    return await work()
  } finally {
    process.seteuid?.(0)
  }
}
