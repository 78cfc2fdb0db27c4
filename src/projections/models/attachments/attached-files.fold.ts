/** The files of a repository: of comments, issues and releases. */
import type { Views } from '../../views/views.ts'

/** Batch size of document reads. */
const BATCH = 500

export interface AttachedFile {
  uuid: string
  /** In bytes. */
  size: number
}

type FileViews = Pick<Views, 'comments' | 'issueFiles' | 'releases'>

/** Reads the files of some documents. `place`: the key of the document. */
type Read = (after: number) => Promise<{ place: number; files: readonly AttachedFile[] }[]>

/** Yields all files of a repository in batches, also of a deleted one. */
export async function* filesOfRepository(views: FileViews, repoId: number): AsyncGenerator<AttachedFile[]> {
  const byId = { sort: [['id', 1]], limit: BATCH } as const
  const sources: Read[] = [
    async (after) =>
      (await views.comments.find({ repoId, id: { $gt: after } }, byId)).map(({ id, attachments }) => ({
        place: id,
        files: attachments,
      })),
    async (after) =>
      (
        await views.issueFiles.find({ repoId, index: { $gt: after } }, { sort: [['index', 1]], limit: BATCH })
      ).map(({ index, files }) => ({ place: index, files })),
    async (after) =>
      (await views.releases.find({ repoId, id: { $gt: after } }, byId)).map(({ id, assets }) => ({
        place: id,
        files: assets,
      })),
  ]
  for (const read of sources) {
    let after = 0
    for (;;) {
      const found = await read(after)
      yield found.flatMap(({ files }) => files)
      if (found.length < BATCH) break
      after = found.at(-1)?.place ?? after
    }
  }
}

/** Returns the repository of each of these files, by uuid. */
export async function repositoriesOfFiles(
  views: FileViews,
  uuids: readonly string[],
): Promise<Map<string, number>> {
  const wanted = { $in: [...uuids] }
  const [comments, issues, releases] = await Promise.all([
    views.comments.find({ attachmentUuids: wanted }),
    views.issueFiles.find({ uuids: wanted }),
    views.releases.find({ assetUuids: wanted }),
  ])
  const owners = [
    ...comments.map(({ repoId, attachmentUuids }) => ({ repoId, uuids: attachmentUuids })),
    ...issues,
    ...releases.map(({ repoId, assetUuids }) => ({ repoId, uuids: assetUuids })),
  ]
  return new Map(owners.flatMap((owner) => owner.uuids.map((uuid) => [uuid, owner.repoId] as const)))
}
