/** Checks that the files which the log names are in DATA_DIR: attached files, and large files (git LFS). */
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { unlessMissing } from '../disk.ts'
import { decode } from '../events/codec.ts'
import type { EventStore, Position, RecordedEvent } from '../events/event-store.ts'
import { withoutTexts } from '../events/sealed-texts.ts'
import { lfsPath } from '../git/lfs-files.ts'
import { forEachConcurrently } from '../turns.ts'

/** The most files that are named. */
const MOST = 100

export interface DataFilesOptions {
  dataDir: string
  /** Whether large files are read to the end, and compared with their hashes. */
  deep: boolean
}

export interface FileProblem {
  /** Below DATA_DIR. */
  path: string
  problem: string
}

export interface NamedFiles {
  /** Takes the next event of the log. */
  add(event: RecordedEvent): void
  /**
   * Compares with DATA_DIR. `from`: the position of the last event that was added; later ones are read when a file is not
   * there, because it may be deleted since. Aborted by `signal`.
   */
  compare(log: Pick<EventStore, 'readAll'>, from: Position, signal?: AbortSignal): Promise<FilesReport>
}

export interface FilesReport {
  /** How many files are there and right. */
  files: number
  /** At most 100. */
  problems: readonly FileProblem[]
}

/** Sizes in bytes, by paths below DATA_DIR. */
type Sizes = Map<string, number>

const attachmentPath = (uuid: string) => `attachments/${uuid.slice(0, 2)}/${uuid}`
const objectPath = (repoId: number, oid: string) => `git/${repoId}.git/${lfsPath(oid)}`

/** Types of events that name files, or end them. The others are not decoded. */
const TYPES: ReadonlySet<string> = new Set([
  'RepositoryDeleted',
  'AttachmentAdded',
  'AttachmentDeleted',
  'IssueFileAdded',
  'IssueFileDeleted',
  'ReleaseAssetAdded',
  'ReleaseAssetDeleted',
  'TextsErased',
  'LfsObjectsAdded',
])

/** Keeps the path of each file in memory: about 200 bytes for one. */
export function createNamedFiles({ dataDir, deep }: DataFilesOptions): NamedFiles {
  const repositories = new Map<number, Sizes>()
  const deleted = new Set<number>()

  function named(repoId: number): Sizes {
    const known: Sizes = repositories.get(repoId) ?? new Map()
    // What comes after its end is nobody's.
    if (!deleted.has(repoId)) repositories.set(repoId, known)
    return known
  }

  function add(recorded: RecordedEvent): void {
    if (!TYPES.has(recorded.type)) return
    const event = decode(withoutTexts(recorded))
    switch (event.type) {
      case 'RepositoryDeleted':
        repositories.delete(event.data.repoId)
        deleted.add(event.data.repoId)
        return
      case 'AttachmentAdded':
      case 'IssueFileAdded':
        named(event.data.repoId).set(attachmentPath(event.data.attachment.uuid), event.data.attachment.size)
        return
      case 'ReleaseAssetAdded':
        named(event.data.repoId).set(attachmentPath(event.data.asset.uuid), event.data.asset.size)
        return
      case 'AttachmentDeleted':
      case 'IssueFileDeleted':
      case 'ReleaseAssetDeleted':
        named(event.data.repoId).delete(attachmentPath(event.data.uuid))
        return
      case 'TextsErased':
        for (const uuid of event.data.files) named(event.data.repoId).delete(attachmentPath(uuid))
        return
      case 'LfsObjectsAdded': {
        const { repoId, objects } = event.data
        for (const { oid, size } of objects) named(repoId).set(objectPath(repoId, oid), size)
        return
      }
    }
  }

  /** What is wrong with a file; undefined when it is as the log says. */
  async function problemOf(
    path: string,
    size: number,
    signal: AbortSignal | undefined,
  ): Promise<string | undefined> {
    signal?.throwIfAborted()
    const file = join(dataDir, path)
    const found = await unlessMissing(stat(file))
    if (found === undefined) return 'it is missing'
    if (found.size !== size) return `it has ${found.size} bytes, not ${size}`
    if (!deep || !path.startsWith('git/')) return undefined
    const sha256 = await unlessMissing(hashOf(file, signal))
    if (sha256 === undefined) return 'it is missing'
    return path.endsWith(sha256) ? undefined : 'its bytes are not those that its name says'
  }

  const isStillNamed = (path: string) => [...repositories.values()].some((sizes) => sizes.has(path))

  return {
    add,
    async compare(log, from, signal) {
      const problems: FileProblem[] = []
      let right = 0
      for (const sizes of repositories.values()) {
        await forEachConcurrently(sizes, async ([path, size]) => {
          if (problems.length >= MOST) return
          const problem = await problemOf(path, size, signal)
          if (problem === undefined) right += 1
          else problems.push({ path, problem })
        })
      }
      if (problems.length === 0) return { files: right, problems }
      for await (const event of log.readAll({ from })) add(event)
      return { files: right, problems: problems.filter(({ path }) => isStillNamed(path)).slice(0, MOST) }
    },
  }
}

async function hashOf(file: string, signal: AbortSignal | undefined): Promise<string> {
  const hash = createHash('sha256')
  await pipeline(createReadStream(file), hash, { ...(signal && { signal }) })
  return hash.digest('hex')
}
