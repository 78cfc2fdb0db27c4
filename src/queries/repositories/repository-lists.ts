/**
 * All repositories of a user, of an organization, or of the requester: `/users/{username}/repos`, `/orgs/{org}/repos`,
 * `/user/repos`. Without a requested page, these lists are complete and streamed. See `repositories.list.1` to
 * `repositories.list.4`.
 */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply } from 'fastify'
import { canSee, publicReaderIds, readerIdsOf, teamReaderIdsOf } from '../../access/visibility.ts'
import { OrganizationParams, organizationFor } from '../../api/organizations/organizations.ts'
import { RepositoryWire, repositoryWires } from '../../api/repositories/repositories.ts'
import { accountNamed, UsernameParams } from '../../api/users/users.ts'
import { signedIn } from '../../auth/requester.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import { sendStreamedList } from '../../http/answers/streamed-list.ts'
import { type Page, sendOnePage, sendPaging, wantedPage } from '../../http/requests/paging.ts'
import {
  type RepositoryDocument,
  repositoryKey,
} from '../../projections/models/repositories/repositories.fold.ts'
import type { AccountDocument } from '../../projections/models/users/accounts.fold.ts'
import type { Filter, Sort } from '../../projections/store/read-store.ts'
import type { Services } from '../../services/services.ts'
import { listSchema, type PageRequest } from '../paged-list.ts'

/** Number of repositories read and held at a time: a few milliseconds of work. */
const CHUNK = 200

type Selection = Filter<RepositoryDocument>

/** An exclusive range of keys; without `below`, it has no upper limit. */
interface KeyRange {
  above: string
  below?: string
}

/** Returns the keys of an owner's repositories. A key is `owner/name`, and `0` is the character after `/`. */
function keysOf({ login }: AccountDocument): Required<KeyRange> {
  const above = repositoryKey(login, '')
  return { above, below: `${above.slice(0, -1)}0` }
}

/**
 * Returns the filter for an owner's repositories that the requester sees: private ones only as the owner, a member (of
 * the organization or of a team that has it) or a site admin.
 */
function visibleTo(owner: AccountDocument, requester: AccountDocument | null): Selection {
  const all =
    requester !== null &&
    (requester.siteAdmin || requester.id === owner.id || requester.memberships[`${owner.id}`] !== undefined)
  const teams = requester === null ? [] : teamReaderIdsOf(requester)
  return all ? {} : { readers: { $in: [...publicReaderIds(requester), ...teams] } }
}

/**
 * Returns the filter for repositories that list the requester: as owner, collaborator, or member of the owning
 * organization or of a team.
 */
function grantedTo(requester: AccountDocument): Selection {
  return { readers: { $in: readerIdsOf(requester) } }
}

const BY_KEY: Sort<RepositoryDocument> = [['key', 1]]

/** Returns the part of a selection in the range of keys. */
function within(selection: Selection, { above, below }: KeyRange): Selection {
  return { ...selection, key: below === undefined ? { $gt: above } : { $gt: above, $lt: below } }
}

export function repositoryListRoutes(services: Services): FastifyPluginAsyncTypebox {
  const { repositories } = services.views

  /**
   * Yields repositories in batches, sorted by owner and name without case. Each read starts after the last key. A
   * repository that is renamed meanwhile may be missing or repeated.
   */
  async function* inOrder(selection: Selection, { above, below }: KeyRange) {
    let last = above
    for (;;) {
      const range = { above: last, ...(below !== undefined && { below }) }
      const found = await repositories.find(within(selection, range), { sort: BY_KEY, limit: CHUNK })
      if (found.length > 0) yield found
      if (found.length < CHUNK) return
      last = found.at(-1)?.key ?? last
    }
  }

  /** Returns the page of the rows of these ranges, one range after the other. */
  async function slice(ranges: readonly (KeyRange & { selection: Selection; total: number })[], page: Page) {
    const found: RepositoryDocument[] = []
    let { skip } = page
    for (const { selection, total, ...range } of ranges) {
      const limit = page.limit - found.length
      if (skip < total && limit > 0) {
        found.push(...(await repositories.find(within(selection, range), { sort: BY_KEY, skip, limit })))
      }
      skip = Math.max(0, skip - total)
    }
    return found
  }

  /** Sends the repositories of these ranges in order: all, or the requested page. */
  async function send(
    request: PageRequest,
    reply: FastifyReply,
    ranges: readonly (KeyRange & { selection: Selection })[],
  ) {
    const { requester } = request
    const counted = await Promise.all(
      ranges.map(async ({ selection, ...range }) => {
        return { ...range, selection, total: await repositories.count(within(selection, range)) }
      }),
    )
    const total = counted.reduce((sum, range) => sum + range.total, 0)
    const page = wantedPage(request.query, services.config)
    if (page !== undefined) {
      sendPaging(request, reply, services.publicUrl(), page, total)
      return repositoryWires(services, await slice(counted, page), requester)
    }
    sendOnePage(request, reply, services.publicUrl(), total)
    async function* wires() {
      for (const { selection, ...range } of ranges) {
        for await (const part of inOrder(selection, range)) {
          yield await repositoryWires(services, part, requester)
        }
      }
    }
    return sendStreamedList(reply, wires())
  }

  const sendRepositoriesOf = (owner: AccountDocument, request: PageRequest, reply: FastifyReply) =>
    send(request, reply, [{ selection: visibleTo(owner, request.requester), ...keysOf(owner) }])

  return async (app) => {
    const schema = { tags: ['repository'], ...listSchema(RepositoryWire) }

    app.get(
      '/users/:username/repos',
      { config: { scope: ['user', 'repository'] }, schema: { ...schema, params: UsernameParams } },
      async (request, reply) => {
        const owner = await accountNamed(services, request.params.username)
        if (!canSee(owner, request.requester)) throw new Refused(refuse.notFound('user not found'))
        return sendRepositoriesOf(owner, request, reply)
      },
    )

    app.get(
      '/orgs/:org/repos',
      {
        config: { scope: ['organization', 'repository'] },
        schema: { ...schema, params: OrganizationParams },
      },
      async (request, reply) => {
        const owner = await organizationFor(services, request, request.params.org)
        return sendRepositoriesOf(owner, request, reply)
      },
    )

    app.get('/user/repos', { config: { scope: ['user', 'repository'] }, schema }, async (request, reply) => {
      const requester = signedIn(request)
      const own = keysOf(requester)
      const granted = grantedTo(requester)
      return send(request, reply, [
        { selection: {}, ...own },
        // The other keys are before and after the requester's own.
        { selection: granted, above: '', below: own.above },
        { selection: granted, above: own.below },
      ])
    })
  }
}
