/** Reads the output of `git cat-file` in its batch modes. */

/** The type and the size of an object. */
export interface ObjectHeader {
  sha: string
  type: string
  /** The length of its content in bytes. */
  size: number
}

export interface ObjectAnswer extends ObjectHeader {
  /** The first bytes of the object, at most the number that was wanted; empty when only the header was asked for. */
  content: Buffer
}

export interface AnswerReader {
  /**
   * Returns the number of content bytes to keep of the object whose header has just arrived; undefined when no content
   * follows.
   */
  wants(): number | undefined
  /** Receives each answer in order. For a missing object it is git's line `<name> missing`. */
  found(answer: ObjectAnswer | string): void
}

const HEADER = /^([0-9a-f]{40}) ([a-z]+) (\d+)$/
const NEWLINE = 0x0a
const NOTHING = Buffer.alloc(0)

/** Splits the output into answers while it arrives. Holds only the wanted bytes of an object. */
export function splitAnswers({ wants, found }: AnswerReader): (chunk: Buffer) => void {
  let line: Buffer = NOTHING
  let object: { header: ObjectHeader; held: Buffer[]; keep: number; left: number } | undefined

  function takeLine(text: string): void {
    const [, sha, type, size] = HEADER.exec(text) ?? []
    if (sha === undefined || type === undefined) {
      found(text)
      return
    }
    const header = { sha, type, size: Number(size) }
    const keep = wants()
    if (keep === undefined) found({ ...header, content: NOTHING })
    // A newline follows the content.
    else object = { header, held: [], keep: Math.min(keep, header.size), left: header.size + 1 }
  }

  return (chunk) => {
    let rest = chunk
    while (rest.length > 0) {
      if (object === undefined) {
        const end = rest.indexOf(NEWLINE)
        line = Buffer.concat([line, end === -1 ? rest : rest.subarray(0, end)])
        if (end === -1) return
        rest = rest.subarray(end + 1)
        const text = line.toString('latin1')
        line = NOTHING
        takeLine(text)
        continue
      }
      const part = rest.subarray(0, object.left)
      rest = rest.subarray(part.length)
      object.left -= part.length
      const wanted = part.subarray(0, object.keep)
      object.keep -= wanted.length
      if (wanted.length > 0) object.held.push(wanted)
      if (object.left > 0) continue
      const { header, held } = object
      object = undefined
      found({ ...header, content: Buffer.concat(held) })
    }
  }
}
