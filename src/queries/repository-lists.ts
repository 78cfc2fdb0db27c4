/**
 * All repositories of a user, of an organization, or of the requester: `/users/{username}/repos`, `/orgs/{org}/repos`,
 * `/user/repos`. These lists have no pages, so they are streamed.
 */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { sendOnePage } from '../http/paging.ts'
import { sendStreamedList } from '../http/streamed-list.ts'
import type { AccountDocument } from '../projections/accounts.ts'
import type { Filter } from '../projections/read-store.ts'
import { type RepositoryDocument, repositoryKey } from '../projections/repositories.ts'
import { Refused, refuse } from '../refusal.ts'
import { signedIn } from '../rights/requester.ts'
import { canSee, everybodyLike } from '../rights/visibility.ts'
import type { Services } from '../services.ts'
import { OrganizationParams, organizationFor } from '../wire/organizations.ts'
import { PlainRepositoryWire, repositoryWires } from '../wire/repositories.ts'
import { accountNamed, UsernameParams } from '../wire/users.ts'

/** Repositories that are read and held at one time: a few milliseconds of work. */
const CHUNK = 200

type Selection = Filter<RepositoryDocument>

/** The keys between these two, both exclusive; without `below` there is no upper limit. */
interface KeyRange {
  above: string
  below?: string
}

/** The keys of an owner's repositories. A key is `owner/name`, and `0` is the character after `/`. */
function keysOf({ login }: AccountDocument): Required<KeyRange> {
  const above = repositoryKey(login, '')
  return { above, below: `${above.slice(0, -1)}0` }
}

/** The repositories of an owner that the requester sees: private ones only as the owner, a member or a site admin. */
function visibleTo(owner: AccountDocument, requester: AccountDocument | null): Selection {
  const all =
    requester !== null &&
    (requester.siteAdmin || requester.id === owner.id || requester.memberships[`${owner.id}`] !== undefined)
  return all ? {} : { readers: { $in: everybodyLike(requester) } }
}

/** The repositories that list the requester: as owner, as collaborator, as member of the owning organization. */
function grantedTo(requester: AccountDocument): Selection {
  const organizations = Object.keys(requester.memberships).map(Number)
  return { readers: { $in: [requester.id, ...organizations] } }
}

export function repositoryListRoutes(services: Services): FastifyPluginAsyncTypebox {
  const { repositories } = services.views

  /**
   * Yields repositories in parts, sorted by owner and name; case does not matter. Each read starts after the last key of
   * the read before. A repository that is renamed in between may be missed or come twice; all others come once.
   */
  async function* inOrder(selection: Selection, { above, below }: KeyRange) {
    let last = above
    for (;;) {
      const key = below === undefined ? { $gt: last } : { $gt: last, $lt: below }
      const found = await repositories.find({ ...selection, key }, { sort: [['key', 1]], limit: CHUNK })
      if (found.length > 0) yield found
      if (found.length < CHUNK) return
      last = found.at(-1)?.key ?? last
    }
  }

  async function* ownThenOthers(requester: AccountDocument) {
    const own = keysOf(requester)
    yield* inOrder({}, own)
    // The keys of the others are before and after the requester's own, and no key equals either border.
    const granted = grantedTo(requester)
    yield* inOrder(granted, { above: '', below: own.above })
    yield* inOrder(granted, { above: own.below })
  }

  async function* wires(parts: AsyncIterable<RepositoryDocument[]>, requester: AccountDocument | null) {
    for await (const part of parts) yield await repositoryWires(services, part, requester)
  }

  async function sendRepositoriesOf(owner: AccountDocument, request: FastifyRequest, reply: FastifyReply) {
    const { requester } = request
    const selection = visibleTo(owner, requester)
    const keys = keysOf(owner)
    const total = await repositories.count({ ...selection, key: { $gt: keys.above, $lt: keys.below } })
    sendOnePage(request, reply, services.publicUrl(), total)
    return sendStreamedList(reply, wires(inOrder(selection, keys), requester))
  }

  return async (app) => {
    const schema = { tags: ['repository'], response: { 200: Type.Array(PlainRepositoryWire) } }

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
      // `readers` includes the owner.
      const total = await repositories.count(grantedTo(requester))
      sendOnePage(request, reply, services.publicUrl(), total)
      return sendStreamedList(reply, wires(ownThenOthers(requester), requester))
    })
  }
}
