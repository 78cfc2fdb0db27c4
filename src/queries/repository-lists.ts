/**
 * All repositories of a user, of an organization, and of the requester: `/users/{username}/repos`,
 * `/orgs/{org}/repos`, `/user/repos`. They have no pages, so they are streamed.
 */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { sendStreamedList } from '../http/streamed-list.ts'
import type { AccountDocument } from '../projections/accounts.ts'
import type { Filter } from '../projections/read-store.ts'
import { ANYONE, type RepositoryDocument, repositoryKey } from '../projections/repositories.ts'
import { Refused, refuse } from '../refusal.ts'
import { accessTo } from '../rights/access.ts'
import { signedIn } from '../rights/requester.ts'
import { canSee } from '../rights/visibility.ts'
import type { Services } from '../services.ts'
import { OrganizationParams, organizationFor } from '../wire/organizations.ts'
import { PlainRepositoryWire, repositoryWire } from '../wire/repositories.ts'
import { accountNamed, UsernameParams } from '../wire/users.ts'

/** Repositories that are read, and held, at once: a few milliseconds of work. */
const CHUNK = 200

type Selection = Filter<RepositoryDocument>

/** Keys between these two, both exclusive; without `below` there is no end. */
interface KeyRange {
  above: string
  below?: string
}

/** A key is `owner/name`, so an owner's repositories stand together: `0` is what follows `/`. */
function keysOf({ login }: AccountDocument): Required<KeyRange> {
  const above = repositoryKey(login, '')
  return { above, below: `${above.slice(0, -1)}0` }
}

/** Of an owner's repositories, those that a listing shows: the private ones to itself and its members alone. */
function shownOf(owner: AccountDocument, requester: AccountDocument | null): Selection {
  const all =
    requester !== null &&
    (requester.siteAdmin || requester.id === owner.id || requester.memberships[`${owner.id}`] !== undefined)
  return all ? {} : { readers: ANYONE }
}

/** What was given to an account by name: as owner, as collaborator, as member of the owning organization. */
function givenTo(requester: AccountDocument): Selection {
  const organizations = Object.keys(requester.memberships).map(Number)
  return { readers: { $in: [requester.id, ...organizations] } }
}

export function repositoryListRoutes(services: Services): FastifyPluginAsyncTypebox {
  const { repositories, accounts } = services.views

  /**
   * By owner, then by name, whatever their case. Each read goes on behind the last key of the one before: a
   * repository that is renamed meanwhile may be missed or come twice, all others come once.
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

  async function* ownThenGiven(requester: AccountDocument) {
    const own = keysOf(requester)
    yield* inOrder({}, own)
    // The others stand before and behind the own ones, and no key is on either border.
    const given = givenTo(requester)
    yield* inOrder(given, { above: '', below: own.above })
    yield* inOrder(given, { above: own.below })
  }

  /** With the owners of each part read at once, and the requester's access to each. */
  async function* wires(
    parts: AsyncIterable<RepositoryDocument[]>,
    requester: AccountDocument | null,
  ): AsyncGenerator<Static<typeof PlainRepositoryWire>[]> {
    const publicUrl = services.publicUrl()
    for await (const part of parts) {
      const owners = await accounts.getMany([...new Set(part.map(({ ownerId }) => `${ownerId}`))])
      const byId = new Map(owners.map((owner) => [owner.id, owner]))
      yield part.flatMap((repository) => {
        const owner = byId.get(repository.ownerId)
        return owner === undefined
          ? []
          : [repositoryWire(repository, owner, accessTo(repository, requester), publicUrl)]
      })
    }
  }

  function send(
    reply: FastifyReply,
    total: number,
    parts: AsyncIterable<RepositoryDocument[]>,
    requester: AccountDocument | null,
  ): void {
    reply.header('X-Total-Count', total)
    reply.header('Access-Control-Expose-Headers', 'X-Total-Count')
    sendStreamedList(reply, wires(parts, requester))
  }

  async function sendRepositoriesOf(owner: AccountDocument, request: FastifyRequest, reply: FastifyReply) {
    const { requester } = request
    const selection = shownOf(owner, requester)
    const keys = keysOf(owner)
    const total = await repositories.count({ ...selection, key: { $gt: keys.above, $lt: keys.below } })
    send(reply, total, inOrder(selection, keys), requester)
  }

  return async (app) => {
    const schema = { tags: ['repository'], response: { 200: Type.Array(PlainRepositoryWire) } }

    app.get(
      '/users/:username/repos',
      { config: { scope: ['user', 'repository'] }, schema: { ...schema, params: UsernameParams } },
      async (request, reply) => {
        const owner = await accountNamed(services, request.params.username)
        if (!canSee(owner, request.requester)) throw new Refused(refuse.notFound('user not found'))
        await sendRepositoriesOf(owner, request, reply)
        return reply
      },
    )

    app.get(
      '/orgs/:org/repos',
      {
        config: { scope: ['organization', 'repository'] },
        schema: { ...schema, params: OrganizationParams },
      },
      async (request, reply) => {
        await sendRepositoriesOf(await organizationFor(services, request, request.params.org), request, reply)
        return reply
      },
    )

    app.get('/user/repos', { config: { scope: ['user', 'repository'] }, schema }, async (request, reply) => {
      const requester = signedIn(request)
      // The owner is among the readers of its own.
      const total = await repositories.count(givenTo(requester))
      send(reply, total, ownThenGiven(requester), requester)
      return reply
    })
  }
}
