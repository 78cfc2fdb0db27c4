/** Tags on the wire. */
import { type Static, Type } from 'typebox'
import { wholeSeconds } from '../../domain/times.ts'
import { type CommitFacts, commitFacts } from '../../git/commits/commits.ts'
import { objectReaders } from '../../git/objects/object-readers.ts'
import { type TagFacts, tagFacts } from '../../git/refs/tags.ts'
import type { RepositoryDocument } from '../../projections/models/repositories/repositories.fold.ts'
import type { TagDocument } from '../../projections/models/tags/tags.fold.ts'
import { gitDirOf, type Services } from '../../services/services.ts'
import { CommitMetaWire } from '../contents/commits.ts'

/** `*`: the name of the tag, which may contain slashes. */
export const TagParams = Type.Object({ owner: Type.String(), repo: Type.String(), '*': Type.String() })

export const TagWire = Type.Object(
  {
    name: Type.String(),
    message: Type.String(),
    id: Type.String(),
    commit: CommitMetaWire,
    zipball_url: Type.String(),
    tarball_url: Type.String(),
  },
  { title: 'Tag' },
)

/** A tag's objects in git. */
interface TagObjects {
  /** Undefined for a tag without an object of its own. */
  tag: TagFacts | undefined
  commit: CommitFacts | undefined
}

/** Returns tags as Gitea's `Tag`. */
export async function tagWires(
  services: Services,
  repository: RepositoryDocument,
  tags: readonly TagDocument[],
): Promise<Static<typeof TagWire>[]> {
  const dir = gitDirOf(services, repository.id)
  const shas = tags.map(({ sha }) => sha)
  const facts = await tagFacts(dir, shas)
  const unpeeled = shas.map((sha) => {
    const object = facts.get(sha)?.object
    return object?.type === 'commit' ? object.sha : sha
  })
  const before = await commitFacts(dir, unpeeled)
  const missing = unpeeled.filter((sha) => !before.has(sha))
  // Only tags of tags, very large tags, and tags of trees or blobs.
  const peeled = missing.length === 0 ? [] : await objectReaders.headers(dir, missing, { peel: true })
  const commits = new Map([...before].map(([id, commit]) => [id, commit]))
  const others = await commitFacts(
    dir,
    peeled.flatMap((header) => (header === undefined ? [] : [header.sha])),
  )
  for (const [i, sha] of missing.entries()) {
    const commit = others.get(peeled[i]?.sha ?? '')
    if (commit !== undefined) commits.set(sha, commit)
  }
  const publicUrl = services.publicUrl()
  return tags.map((document, i) => {
    const objects = { tag: facts.get(document.sha), commit: commits.get(unpeeled[i] ?? '') }
    return tagWire(document, objects, repository, publicUrl)
  })
}

function tagWire(
  { name, sha, date }: TagDocument,
  { tag, commit }: TagObjects,
  repository: RepositoryDocument,
  publicUrl: string,
): Static<typeof TagWire> {
  const fullName = `${repository.ownerLogin}/${repository.name}`
  const of = commit?.sha ?? tag?.object.sha ?? sha
  const path = name.split('/').map(encodeURIComponent).join('/')
  return {
    name,
    message: (tag?.message ?? commit?.message ?? '').trim(),
    id: sha,
    commit: {
      url: `${publicUrl}/api/v1/repos/${fullName}/git/commits/${of}`,
      sha: of,
      created: tag?.tagger?.date ?? commit?.committer.date ?? wholeSeconds(new Date(date).toISOString()),
    },
    zipball_url: `${publicUrl}/${fullName}/archive/${path}.zip`,
    tarball_url: `${publicUrl}/${fullName}/archive/${path}.tar.gz`,
  }
}
