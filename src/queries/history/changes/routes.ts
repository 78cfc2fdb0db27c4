/** `GET /repos/{owner}/{repo}/changes?from=&to=`: what differs between two moments, and the events that caused it. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { onRepository } from '../../../access/repository-access.ts'
import { Nullable } from '../../../api/nullable.ts'
import { RepositoryParams } from '../../../api/repositories/repositories.ts'
import { clientOf } from '../../../auth/requester.ts'
import { nextSlice } from '../../../concurrency/event-loop.ts'
import { Refused, refuse } from '../../../errors/refusal.ts'
import { decode } from '../../../events/codec.ts'
import { LOG_START, type Position, type RecordedEvent } from '../../../events/store/event-store.ts'
import { disconnectSignal } from '../../../http/requests/client-disconnect.ts'
import { OptionalText } from '../../../http/requests/optional-text.ts'
import { PageQuery } from '../../../http/requests/paging.ts'
import { namesIn, RepeatedText } from '../../../http/requests/repeated-text.ts'
import { type MomentClient, type MomentPoint, type Moments, runAt } from '../../../services/moment.ts'
import type { Services } from '../../../services/services.ts'
import { pagedRows } from '../../paged-list.ts'
import { indexedHistory } from '../history-index.ts'
import { repositoryPermissions } from '../history-permissions.ts'
import { momentIn } from '../moments/time-travel.ts'
import {
  KIND_NAMES,
  type KindName,
  readResources,
  touchedResources,
  type ViewedRepository,
} from './resources.ts'
import { differenceOf } from './summary.ts'

/** Maximum number of events between the two moments: each is read and folded. */
const MAX_EVENTS = 100_000
/** Maximum number of events that the answer names for one resource. */
const MAX_EVENTS_OF_RESOURCE = 100
/** Number of events that are read per slice of the event loop. */
const EVENTS_PER_SLICE = 100

const MomentWire = Type.Object(
  {
    position: Type.Integer({ description: 'Position of the last event of the repository up to the moment' }),
    at: Type.String({ description: 'Time of that event' }),
  },
  { title: 'ResolvedMoment' },
)

const CausingEventWire = Type.Object(
  {
    position: Type.Integer(),
    stream: Type.String(),
    revision: Type.Integer(),
    type: Type.String(),
    at: Type.String(),
    actor: Nullable(Type.String()),
  },
  { title: 'CausingEvent' },
)

const ChangedResourceWire = Type.Object(
  {
    kind: Type.Enum(KIND_NAMES),
    id: Type.String(),
    change: Type.Enum(['created', 'changed', 'deleted', 'created_and_deleted']),
    fields: Type.Array(Type.Object({ field: Type.String(), before: Type.Unknown(), after: Type.Unknown() })),
    events: Type.Array(CausingEventWire),
    event_count: Type.Integer(),
  },
  { title: 'ChangedResource' },
)

const ChangesWire = Type.Object({
  from: Nullable(MomentWire, { description: 'The earlier moment; null before the repository existed' }),
  to: MomentWire,
  changes: Type.Array(ChangedResourceWire),
})

/** A resource and the events that touched it. */
interface Touched {
  kind: KindName
  id: string
  events: Static<typeof CausingEventWire>[]
  count: number
}

const keyOf = ({ kind, id }: Pick<Touched, 'kind' | 'id'>) => `${kind} ${id}`

type Resolved = Awaited<ReturnType<Moments['resolve']>>

const pointWire = ({ position, at }: MomentPoint) => ({ position, at })

/** The end of the log. */
const NOW = { position: Number.MAX_SAFE_INTEGER }

const causingEvent = ({ position, stream, revision, type, metadata: { at, actor } }: RecordedEvent) => ({
  ...{ position, stream, revision, type, at },
  actor: actor?.login ?? null,
})

/**
 * Returns the resources that the events from `after` (exclusive) to `upTo` (inclusive) touch, in the order of the kinds
 * and then of their first event. Ignores events that the requester may not see.
 * @throws Refused (unprocessable) for too many events
 */
async function touchedBetween(
  services: Services,
  request: FastifyRequest,
  repoId: number,
  { after, upTo, kinds }: { after: Position; upTo: Position; kinds: readonly KindName[] },
  gone: AbortSignal,
): Promise<Touched[]> {
  const visible = await repositoryPermissions(services, request, repoId)()
  if (visible === undefined) throw new Refused(refuse.notFound('repository not found'))
  const found = new Map<string, Touched>()
  let count = 0
  for await (const recorded of indexedHistory(services, repoId).read({ ...visible.events }, after, upTo)) {
    count += 1
    if (count > MAX_EVENTS) {
      throw new Refused(refuse.unprocessable(`from: there are more than ${MAX_EVENTS} events up to \`to\``))
    }
    if (count % EVENTS_PER_SLICE === 0) {
      await nextSlice()
      gone.throwIfAborted()
    }
    for (const { kind, id } of touchedResources(decode(recorded), repoId, kinds)) {
      const touched = found.get(keyOf({ kind, id })) ?? { kind, id, events: [], count: 0 }
      found.set(keyOf(touched), touched)
      touched.count += 1
      if (touched.events.length < MAX_EVENTS_OF_RESOURCE) touched.events.push(causingEvent(recorded))
    }
  }
  return kinds.flatMap((kind) => [...found.values()].filter((touched) => touched.kind === kind))
}

/** The kinds in a query; all without one. @throws Refused (unprocessable) for an unknown kind */
function kindsIn(given: string | readonly string[] | undefined): readonly KindName[] {
  const names = namesIn(given)
  const unknown = names.find((name) => !KIND_NAMES.some((kind) => kind === name))
  if (unknown !== undefined) {
    throw new Refused(refuse.unprocessable(`kind: must be among ${KIND_NAMES.join(', ')}`))
  }
  return names.length === 0 ? KIND_NAMES : KIND_NAMES.filter((kind) => names.includes(kind))
}

const ChangesQuery = Type.Object({
  from: Type.String({ description: 'Earlier moment: a date, a time (RFC 3339), or @position' }),
  to: OptionalText('Later moment; default: now'),
  kind: RepeatedText(`Kinds of resources: ${KIND_NAMES.join(', ')}`),
  ...PageQuery,
})

export function changesRoutes(services: Services): FastifyPluginAsyncTypebox {
  /** Returns the resources of the page as they are at a moment, by kind and id; none before the repository existed. */
  async function resourcesAt(
    point: Resolved,
    { repository: { id: repoId }, access, requester }: ViewedRepository,
    page: readonly Touched[],
    client: MomentClient,
  ): Promise<ReadonlyMap<string, object>> {
    if (point === undefined || page.length === 0) return new Map()
    async function read(): Promise<ReadonlyMap<string, object>> {
      const found = new Map<string, object>()
      const repository = await services.views.repositories.get(`${repoId}`)
      if (repository === undefined) return found
      for (const [kind, touched] of Map.groupBy(page, (each) => each.kind)) {
        const ids = touched.map(({ id }) => id)
        const resources = await readResources({ services, repository, access, requester }, kind, ids)
        for (const [id, resource] of resources) found.set(keyOf({ kind, id }), resource)
      }
      return found
    }
    if (point.isNow) return read()
    const moment = await services.moments.open({ kind: 'repository', id: repoId }, point, client)
    try {
      return await runAt(moment, read)
    } finally {
      moment.release()
    }
  }

  return async (app) => {
    app.get(
      '/repos/:owner/:repo/changes',
      {
        schema: {
          tags: ['repository'],
          params: RepositoryParams,
          querystring: ChangesQuery,
          response: { 200: ChangesWire },
        },
      },
      async (request, reply) => {
        const found = await onRepository(services, request, 'read')
        const { id } = found.repository
        const { requester, query } = request
        const kinds = kindsIn(query.kind)
        const gone = disconnectSignal(reply)
        const [from, to] = await Promise.all(
          [momentIn('from', query.from), query.to ? momentIn('to', query.to) : NOW].map((wanted) =>
            services.moments.resolve({ kind: 'repository', id }, wanted),
          ),
        )
        if (to === undefined) throw new Refused(refuse.notFound('to: the repository did not exist yet'))
        const after = from?.position ?? LOG_START
        if (after > to.position) throw new Refused(refuse.unprocessable('from: must not be later than to'))
        const all = await touchedBetween(services, request, id, { after, upTo: to.position, kinds }, gone)
        const page = pagedRows(services, request, reply, all)
        const viewed = { ...found, services, requester }
        const client = { client: clientOf(request), gone }
        const before = await resourcesAt(from, viewed, page, client)
        const now = await resourcesAt(to, viewed, page, client)
        const changes = page.map(({ count, ...touched }) => {
          const difference = differenceOf(before.get(keyOf(touched)), now.get(keyOf(touched)))
          return { ...touched, ...difference, event_count: count }
        })
        return { from: from === undefined ? null : pointWire(from), to: pointWire(to), changes }
      },
    )
  }
}
