/** The signed checkpoints of the log, and proofs that rest on them. */
import type { KeyObject } from 'node:crypto'
import { consistencyProof, inclusionProof } from '../domain/transparency/merkle-tree.ts'
import { decode } from '../events/codec.ts'
import type { EventStore, Position } from '../events/store/event-store.ts'
import { LOG_CHECKPOINTS_STREAM } from '../events/streams.ts'
import { type LogTree, LogTreeIncomplete } from '../projections/installation/log-tree.ts'

/** The name of the log, and the private key that signs its checkpoints. */
export interface LogSigner {
  origin: string
  privateKey: KeyObject
}

export interface SignedCheckpoint {
  /** Number of events that it covers. */
  size: number
  /** Root hash in base64. */
  root: string
  /** The signed note. */
  note: string
  /** When it was signed: ISO 8601. */
  at: string
  /** The revision of its event in the stream of checkpoints. */
  revision: number
}

/** A proof that an event is in the log of a checkpoint. Hashes are in base64, in the order of RFC 9162. */
export interface InclusionProof {
  /** The index of the event in the log, from 0. */
  index: number
  /** The size of the checkpoint. */
  size: number
  hashes: readonly string[]
  /** The checkpoint as a signed note. */
  note: string
}

export type LogCheckpoints = ReturnType<typeof createLogCheckpoints>

/** `events`: the log. */
export function createLogCheckpoints(
  events: Pick<EventStore, 'readStream'>,
  tree: LogTree,
  signer: LogSigner,
) {
  const inBase64 = (hashes: readonly Uint8Array[]) =>
    hashes.map((hash) => Buffer.from(hash).toString('base64'))

  async function latest(): Promise<SignedCheckpoint | undefined> {
    const options = { direction: 'backwards', maxCount: 1 } as const
    for await (const recorded of events.readStream(LOG_CHECKPOINTS_STREAM, options)) {
      const { type, data, revision, metadata } = decode(recorded)
      if (type === 'LogCheckpointSigned') return { ...data, at: metadata.at, revision }
    }
    return undefined
  }

  return {
    tree,
    signer,

    /** Returns the checkpoint that was signed last; undefined when there is none yet. */
    latest,

    /**
     * Returns the proof that the event at a position is in the log of the latest checkpoint; undefined when no checkpoint
     * covers the event yet, the tree is being built, or there is no event at the position.
     */
    async inclusionProof(position: Position): Promise<InclusionProof | undefined> {
      const [checkpoint, index] = await Promise.all([latest(), tree.indexOf(position)])
      if (checkpoint === undefined || index === undefined || index >= checkpoint.size) return undefined
      const { size, note } = checkpoint
      const hashes = await unlessIncomplete(inclusionProof(index, size, tree.nodeReader()))
      return hashes && { index, size, hashes: inBase64(hashes), note }
    },

    /**
     * Returns the proof that the log of `to` events starts with that of `from` events (1 ≤ from ≤ to), in base64; undefined
     * while the tree is smaller than `to`.
     */
    async consistencyProof(from: number, to: number): Promise<string[] | undefined> {
      const hashes = await unlessIncomplete(consistencyProof(from, to, tree.nodeReader()))
      return hashes && inBase64(hashes)
    },
  }
}

/** Returns undefined when the tree lacks a hash. */
async function unlessIncomplete<T>(proof: Promise<T>): Promise<T | undefined> {
  try {
    return await proof
  } catch (error) {
    if (error instanceof LogTreeIncomplete) return undefined
    throw error
  }
}
