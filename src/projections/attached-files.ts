/** The files of a repository, whatever they are attached to. */
import type { Views } from './views.ts'

/** This many documents are read together. */
const BATCH = 500

export interface AttachedFile {
  uuid: string
  /** In bytes. */
  size: number
}

/** What has files, in the order of the ids. */
type Owners = { id: number; repoId: number } & ({ attachments: AttachedFile[] } | { assets: AttachedFile[] })

const filesOf = (owner: Owners) => ('assets' in owner ? owner.assets : owner.attachments)

/** All files of a repository, in parts: also of one that was deleted. */
export async function* filesOfRepository(
  { comments, releases }: Pick<Views, 'comments' | 'releases'>,
  repoId: number,
): AsyncGenerator<AttachedFile[]> {
  const sources = [
    (after: number) => comments.find({ repoId, id: { $gt: after } }, { sort: [['id', 1]], limit: BATCH }),
    (after: number) => releases.find({ repoId, id: { $gt: after } }, { sort: [['id', 1]], limit: BATCH }),
  ]
  for (const read of sources) {
    let last = 0
    for (;;) {
      const found: Owners[] = await read(last)
      yield found.flatMap(filesOf)
      if (found.length < BATCH) break
      last = found.at(-1)?.id ?? last
    }
  }
}

/** The files with these uuids, each with its repository. */
export async function repositoriesOfFiles(
  { comments, releases }: Pick<Views, 'comments' | 'releases'>,
  uuids: readonly string[],
): Promise<Map<string, number>> {
  const wanted = { $in: [...uuids] }
  const [ofComments, ofReleases] = await Promise.all([
    comments.find({ attachmentUuids: wanted }),
    releases.find({ assetUuids: wanted }),
  ])
  const owners: Owners[] = [...ofComments, ...ofReleases]
  return new Map(owners.flatMap((owner) => filesOf(owner).map(({ uuid }) => [uuid, owner.repoId] as const)))
}
