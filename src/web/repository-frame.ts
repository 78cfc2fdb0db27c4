/** The frame of the pages of a repository: breadcrumbs, tabs and headers. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Access } from '../access/access.ts'
import { onRepository, type RepositoryRequest } from '../access/repository-access.ts'
import { isOpenTo } from '../access/visibility.ts'
import { pathInUrl } from '../git/objects/byte-names.ts'
import { basePath } from '../http/requests/base-path.ts'
import type { RepositoryDocument } from '../projections/models/repositories/repositories.fold.ts'
import type { Services } from '../services/services.ts'
import { tabs } from './components.ts'
import { type Crumb, type DocumentParts, documentOf, type Site } from './layout.ts'
import { HTML } from './pages.ts'

/** A repository, as its pages show it to a requester. */
export interface Frame {
  site: Site
  repository: RepositoryDocument
  access: Access
  /** `owner/name`. */
  fullName: string
  /** The path of the repository's first page. */
  path: string
}

export type Tab = 'code' | 'issues' | 'pulls' | 'commits' | 'releases'

export const siteOf = ({ publicUrl }: Pick<Services, 'publicUrl'>, { requester }: FastifyRequest): Site => ({
  base: basePath(publicUrl()),
  login: requester?.login ?? null,
})

export function frameFor(site: Site, { repository, access }: Pick<Frame, 'repository' | 'access'>): Frame {
  const fullName = `${repository.ownerLogin}/${repository.name}`
  return { site, repository, access, fullName, path: `${site.base}/${fullName}` }
}

/** The frame of the repository in the request's path. @throws Refused as `onRepository` */
export async function frameOf(
  services: Services,
  request: FastifyRequest & RepositoryRequest,
): Promise<Frame> {
  return frameFor(siteOf(services, request), await onRepository(services, request, 'read'))
}

export function repositoryTabs({ repository, path }: Frame, current: Tab | undefined): string {
  const { openIssues, openPulls, releases = 0, defaultBranch, empty } = repository
  const tab = (of: Tab, place: string, text: string, count?: number) => ({
    href: path + place,
    text,
    isCurrent: of === current,
    ...(count !== undefined && { count }),
  })
  return tabs('Repository', [
    tab('code', '', 'Code'),
    tab('issues', '/issues', 'Issues', openIssues),
    tab('pulls', '/pulls', 'Pull requests', openPulls),
    ...(empty ? [] : [tab('commits', `/commits/branch/${pathInUrl(defaultBranch)}`, 'Commits')]),
    tab('releases', '/releases', 'Releases', releases),
  ])
}

/** Sends a page of a repository. `crumbs`: those below the repository. */
export function sendRepositoryPage(
  reply: FastifyReply,
  frame: Frame,
  current: Tab,
  { title, crumbs = [], ...parts }: DocumentParts,
): FastifyReply {
  const { site, repository, fullName, path } = frame
  const isOpen = isOpenTo(repository, null)
  const own: Crumb[] = [
    { text: repository.ownerLogin, href: `${site.base}/${repository.ownerLogin}` },
    crumbs.length === 0 ? { text: repository.name } : { text: repository.name, href: path },
  ]
  const text = documentOf(site, {
    mainClass: 'stack',
    ...parts,
    title: title === '' ? fullName : `${title} · ${fullName}`,
    crumbs: [...own, ...crumbs],
    tabs: repositoryTabs(frame, current),
  })
  return reply
    .type(HTML)
    .headers({ 'Cache-Control': isOpen ? 'private, no-cache' : 'private, no-store', Vary: 'Accept' })
    .send(text)
}
