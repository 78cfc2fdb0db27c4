/** Compares the log with its signed checkpoints, those in the log and one that somebody has kept. */
import type { Checkpoint } from '../../domain/transparency/checkpoint.ts'
import { parseCheckpoint } from '../../domain/transparency/checkpoint.ts'
import { growingTree } from '../../domain/transparency/merkle-tree.ts'
import { parseNote, signatureProblem, type VerifierKey } from '../../domain/transparency/signed-note.ts'
import { decode, UnreadableEvent } from '../../events/codec.ts'
import { leafOf } from '../../events/store/chain.ts'
import { type EventStore, type RecordedEvent, StreamUnusable } from '../../events/store/event-store.ts'
import { BrokenEvent } from '../../events/store/sqlite/log.ts'
import { LOG_CHECKPOINTS_STREAM } from '../../events/streams.ts'
import { BrokenFile } from '../../storage/sqlite/sqlite.ts'

export interface CheckpointChecks {
  /** Takes the next sound event of the log. */
  add(event: RecordedEvent): void
  /** Returns the first problem of the events so far, and of a log that ends with them. */
  problem(): string | undefined
  /** Number of checkpoints of the log that the events so far agree with. */
  agreed(): number
}

export interface CheckpointOptions {
  /** A checkpoint from outside of the log. */
  since?: Checkpoint
  /** Checks the signatures by this key. Those of other keys are not checked. */
  key?: VerifierKey
}

/** A checkpoint to compare with the log, and how messages call it. */
interface Expected {
  root: string
  name: string
}

const inBase64 = (root: Uint8Array) => Buffer.from(root).toString('base64')

/** Reads the checkpoints of the log. Keeps about 100 bytes for each. */
export async function createCheckpointChecks(
  { readStream }: Pick<EventStore, 'readStream'>,
  { since, key }: CheckpointOptions,
): Promise<CheckpointChecks> {
  const tree = growingTree()
  const expected = new Map<number, Expected[]>()
  let problem: string | undefined
  let agreed = 0

  const expect = (size: number, one: Expected) => expected.set(size, [...(expected.get(size) ?? []), one])

  function compare(): void {
    for (const { root, name } of expected.get(tree.size()) ?? []) {
      if (root !== inBase64(tree.root())) {
        problem ??= `its first ${tree.size()} events are not those of ${name}: an event was changed, removed or inserted`
      } else agreed += 1
    }
  }

  if (since !== undefined) {
    expect(since.size, { root: inBase64(since.root), name: `the checkpoint of ${since.origin}` })
  }
  try {
    for await (const recorded of readStream(LOG_CHECKPOINTS_STREAM)) {
      const { type, data, revision, metadata } = decode(recorded)
      if (type !== 'LogCheckpointSigned') continue
      const name = `its checkpoint ${revision} of ${metadata.at}`
      problem ??= noteProblem(data, key, name)
      expect(data.size, { root: data.root, name })
    }
  } catch (error) {
    // The check of the hash chains finds the damage.
    const isDamage = [BrokenEvent, BrokenFile, StreamUnusable, UnreadableEvent].some(
      (kind) => error instanceof kind,
    )
    if (!isDamage) throw error
  }
  compare()

  return {
    add(event) {
      tree.add(leafOf(event))
      compare()
    },
    problem() {
      // A checkpoint in the log covers only events before it, so a larger one shows that some of these were removed.
      const [size, [{ name } = { name: '' }] = []] =
        expected.entries().find(([size]) => size > tree.size()) ?? []
      if (problem !== undefined || size === undefined) return problem
      return `it has ${tree.size()} events, but ${name} has ${size}: events were removed`
    },
    agreed: () => agreed,
  }
}

/** Returns why a recorded checkpoint does not say what its note says, or is not signed as it claims. */
function noteProblem(
  { size, root, note }: { size: number; root: string; note: string },
  key: VerifierKey | undefined,
  name: string,
): string | undefined {
  const parsed = parseNote(note)
  const checkpoint = parsed && parseCheckpoint(parsed.text)
  if (parsed === undefined || checkpoint?.size !== size || inBase64(checkpoint.root) !== root) {
    return `the note of ${name} says something else than its event`
  }
  const isOwn = key && parsed.signatures.some(({ name, id }) => name === key.name && id === key.id)
  const signature = isOwn ? signatureProblem(parsed, key) : undefined
  return signature && `the note of ${name} is not genuine: ${signature}`
}
