/** Checks that DATA_DIR has the files that the log names: attached files, and large files (git LFS). */
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { forEachConcurrently } from '../../concurrency/for-each-concurrently.ts'
import { decode } from '../../events/codec.ts'
import { type EventOf, type EventType, type Handlers, handle, handledBy } from '../../events/handlers.ts'
import { withoutTexts } from '../../events/sealing/sealed-texts.ts'
import type { EventStore, Position, RecordedEvent } from '../../events/store/event-store.ts'
import { lfsPath } from '../../git/lfs/lfs-files.ts'
import { unlessMissing } from '../../storage/disk.ts'

/** Maximum number of reported files. */
const MAX_REPORTED = 100

export interface DataFilesOptions {
  dataDir: string
  /** Whether large files are read and compared with their hashes. */
  deep: boolean
}

interface FileProblem {
  /** Below DATA_DIR. */
  path: string
  problem: string
}

export interface NamedFiles {
  /** Adds the next event of the log. */
  add(event: RecordedEvent): void
  /**
   * Compares with DATA_DIR. `from`: the position of the last added event. Later events are read when a file is missing,
   * because it may have been deleted since. Aborted by `signal`.
   */
  compare(log: Pick<EventStore, 'readAll'>, from: Position, signal?: AbortSignal): Promise<FilesReport>
}

export interface FilesReport {
  /** Number of intact files. */
  files: number
  /** At most 100. */
  problems: readonly FileProblem[]
}

/** Sizes in bytes, by paths below DATA_DIR. */
type Sizes = Map<string, number>

/** The files of each repository. */
interface Names {
  of(repoId: number): Sizes
  end(repoId: number): void
}

const attachmentPath = (uuid: string) => `attachments/${uuid.slice(0, 2)}/${uuid}`
const objectPath = (repoId: number, oid: string) => `git/${repoId}.git/${lfsPath(oid)}`

type Attached = EventOf<'AttachmentAdded' | 'IssueFileAdded'>
type Detached = EventOf<'AttachmentDeleted' | 'IssueFileDeleted' | 'ReleaseAssetDeleted'>

const attached = (names: Names, { data: { repoId, attachment } }: Attached) =>
  void names.of(repoId).set(attachmentPath(attachment.uuid), attachment.size)
const detached = (names: Names, { data: { repoId, uuid } }: Detached) =>
  void names.of(repoId).delete(attachmentPath(uuid))

function allDetached(
  names: Names,
  { data: { repoId, files } }: EventOf<'TextsErased' | 'CommentsDeleted' | 'IssueDeleted'>,
) {
  for (const uuid of files) names.of(repoId).delete(attachmentPath(uuid))
}

/** Effects of events on the set of named files. Other events are not decoded. */
const naming = {
  AttachmentAdded: attached,
  IssueFileAdded: attached,
  ReleaseAssetAdded: (names, { data: { repoId, asset } }) =>
    void names.of(repoId).set(attachmentPath(asset.uuid), asset.size),
  AttachmentDeleted: detached,
  IssueFileDeleted: detached,
  ReleaseAssetDeleted: detached,
  TextsErased: allDetached,
  CommentsDeleted: allDetached,
  IssueDeleted: allDetached,
  LfsObjectsAdded(names, { data: { repoId, objects } }) {
    for (const { oid, size } of objects) names.of(repoId).set(objectPath(repoId, oid), size)
  },
  RepositoryDeleted: (names, { data: { repoId } }) => names.end(repoId),
} satisfies Partial<Handlers<EventType, Names, void>>

const isNaming = handledBy(naming)

/** Keeps the path of each file in memory: about 200 bytes per file. */
export function createNamedFiles({ dataDir, deep }: DataFilesOptions): NamedFiles {
  const repositories = new Map<number, Sizes>()
  const deleted = new Set<number>()
  const names: Names = {
    of(repoId) {
      const known: Sizes = repositories.get(repoId) ?? new Map()
      // Events after a deletion belong to no repository.
      if (!deleted.has(repoId)) repositories.set(repoId, known)
      return known
    },
    end(repoId) {
      repositories.delete(repoId)
      deleted.add(repoId)
    },
  }

  function add(recorded: RecordedEvent): void {
    if (!isNaming(recorded)) return
    const event: { type: string } = decode(withoutTexts(recorded))
    if (isNaming(event)) handle(naming, names, event)
  }

  /** Returns the problem of a file; undefined when it matches the log. */
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
    return path.endsWith(sha256) ? undefined : 'its SHA-256 differs from its name'
  }

  const isStillNamed = (path: string) => repositories.values().some((sizes) => sizes.has(path))

  return {
    add,
    async compare(log, from, signal) {
      const problems: FileProblem[] = []
      let intact = 0
      for (const sizes of repositories.values()) {
        await forEachConcurrently(sizes, async ([path, size]) => {
          if (problems.length >= MAX_REPORTED) return
          const problem = await problemOf(path, size, signal)
          if (problem === undefined) intact += 1
          else problems.push({ path, problem })
        })
      }
      if (problems.length === 0) return { files: intact, problems }
      for await (const event of log.readAll({ from })) add(event)
      return {
        files: intact,
        problems: problems.filter(({ path }) => isStillNamed(path)).slice(0, MAX_REPORTED),
      }
    },
  }
}

async function hashOf(file: string, signal: AbortSignal | undefined): Promise<string> {
  const hash = createHash('sha256')
  await pipeline(createReadStream(file), hash, { ...(signal && { signal }) })
  return hash.digest('hex')
}
