/** Checkpoints of a log in the form of C2SP (c2sp.org/tlog-checkpoint): the text of a signed note. */

const ROOT_BYTES = 32

/** The state of a log at a size. */
export interface Checkpoint {
  /** The name of the log. */
  origin: string
  /** Number of events. */
  size: number
  /** Root hash of the Merkle tree of these events. */
  root: Uint8Array
}

export const checkpointText = ({ origin, size, root }: Checkpoint) =>
  `${origin}\n${size}\n${Buffer.from(root).toString('base64')}\n`

/** Reads the text of a note; undefined when it is not a checkpoint. Ignores extension lines. */
export function parseCheckpoint(text: string): Checkpoint | undefined {
  const [origin = '', digits = '', base64 = '', ...extensions] = text.slice(0, -1).split('\n')
  const size = Number(digits)
  const root = Buffer.from(base64, 'base64')
  const isCanonical = /^(?:0|[1-9]\d*)$/.test(digits) && root.toString('base64') === base64
  if (origin === '' || !isCanonical || !Number.isSafeInteger(size) || root.length !== ROOT_BYTES) {
    return undefined
  }
  return text.endsWith('\n') && !extensions.includes('') ? { origin, size, root } : undefined
}

/**
 * Returns why a checkpoint is not of the log that a key signs. A signature covers the text only, so the same key under another
 * name would match, too.
 */
export const originProblem = ({ origin }: Checkpoint, { name }: { name: string }): string | undefined =>
  origin === name ? undefined : `it is of the log ${origin}, but the key signs ${name}`
