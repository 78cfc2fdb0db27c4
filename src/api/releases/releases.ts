/** Releases on the wire, and the look-up of the release in a path. */
import { type Static, Type } from 'typebox'
import { type Access, atLeast } from '../../access/access.ts'
import type { RepositoryAccess } from '../../access/repository-access.ts'
import { wholeSeconds } from '../../domain/times.ts'
import type { Refused } from '../../errors/refusal.ts'
import { pathNumber } from '../../http/requests/path-number.ts'
import type { ReleaseDocument } from '../../projections/models/releases/releases.fold.ts'
import type { RepositoryDocument } from '../../projections/models/repositories/repositories.fold.ts'
import { notFoundIn } from '../../projections/views/view.ts'
import type { Services } from '../../services/services.ts'
import { AttachmentWire, attachmentWire } from '../attachments/attachments.ts'
import { Nullable } from '../nullable.ts'
import { UserWire, usersById } from '../users/users.ts'

export const ReleaseParams = Type.Object({ owner: Type.String(), repo: Type.String(), id: Type.String() })

/** `*`: the tag, which may contain slashes. */
export const ReleaseTagParams = Type.Object({ owner: Type.String(), repo: Type.String(), '*': Type.String() })

export const ReleaseWire = Type.Object(
  {
    id: Type.Integer(),
    tag_name: Type.String(),
    target_commitish: Type.String(),
    name: Type.String(),
    body: Type.String(),
    url: Type.String(),
    html_url: Type.String(),
    tarball_url: Type.String(),
    zipball_url: Type.String(),
    upload_url: Type.String(),
    draft: Type.Boolean(),
    prerelease: Type.Boolean(),
    created_at: Type.String(),
    /** Null for a draft. */
    published_at: Nullable(Type.String()),
    author: Nullable(UserWire),
    assets: Type.Array(AttachmentWire),
  },
  { title: 'Release' },
)

/** Encodes a tag for the path of a URL, with its slashes. */
const inPath = (tag: string) => tag.split('/').map(encodeURIComponent).join('/')

/** Returns releases of one repository as Gitea's `Release`, in the given order. One look-up reads all authors. */
export async function releaseWires(
  services: Services,
  { ownerLogin, name: repo }: Pick<RepositoryDocument, 'ownerLogin' | 'name'>,
  releases: readonly ReleaseDocument[],
): Promise<Static<typeof ReleaseWire>[]> {
  const publicUrl = services.publicUrl()
  const people = await usersById(
    services,
    releases.map(({ author }) => author.id),
  )
  const page = `${publicUrl}/${ownerLogin}/${repo}`
  return releases.map((release) => {
    const { id, tag, target, name, body, draft, prerelease, createdAt, publishedAt, author, assets } = release
    const url = `${publicUrl}/api/v1/repos/${ownerLogin}/${repo}/releases/${id}`
    return {
      id,
      tag_name: tag,
      target_commitish: target,
      name,
      body,
      url,
      html_url: `${page}/releases/tag/${inPath(tag)}`,
      tarball_url: `${page}/archive/${inPath(tag)}.tar.gz`,
      zipball_url: `${page}/archive/${inPath(tag)}.zip`,
      upload_url: `${url}/assets`,
      draft,
      prerelease,
      created_at: wholeSeconds(createdAt),
      published_at: wholeSeconds(publishedAt),
      author: people.get(author.id) ?? null,
      assets: assets.map((file) => attachmentWire(file, publicUrl)),
    }
  })
}

export async function releaseWire(
  services: Services,
  repository: RepositoryDocument,
  release: ReleaseDocument,
): Promise<Static<typeof ReleaseWire>> {
  const [wire] = await releaseWires(services, repository, [release])
  if (wire === undefined) throw new Error(`release ${release.id} has no wire form`)
  return wire
}

/** Only writers see drafts. */
export const maySeeDrafts = (access: Access) => atLeast(access, 'write')

const noSuchRelease = ({ views }: Pick<Services, 'views'>): Refused =>
  notFoundIn(views.releases, 'release not found')

/** Returns the release if the requester may see it. @throws Refused (not found) */
function visibleRelease(
  services: Services,
  { repository, access }: RepositoryAccess,
  release: ReleaseDocument | undefined,
): ReleaseDocument {
  if (release?.repoId === repository.id && (!release.draft || maySeeDrafts(access))) return release
  throw noSuchRelease(services)
}

/** Returns the repository's release with that id. @throws Refused (not found), also for a hidden draft */
export async function releaseFor(
  services: Services,
  found: RepositoryAccess,
  id: string,
): Promise<ReleaseDocument> {
  const number = pathNumber(id)
  return visibleRelease(
    services,
    found,
    number === undefined ? undefined : await services.views.releases.get(`${number}`),
  )
}

/** Returns the repository's release of that tag. @throws Refused (not found), also for a hidden draft */
export async function releaseOfTag(
  services: Services,
  found: RepositoryAccess,
  tag: string,
): Promise<ReleaseDocument> {
  const release = await services.views.releases.findOne({ repoId: found.repository.id, tag })
  return visibleRelease(services, found, release)
}
