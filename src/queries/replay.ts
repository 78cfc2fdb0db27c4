/**
 * Issues and pull requests as they were: what `GET` of one would have answered at a moment of its life, and what
 * changed between two. Made of the same folds and the same wire functions as the answers of now.
 *
 * What an answer names (labels, the milestone, repositories and their names, accounts) is as it was, too. Counters
 * of milestones and repositories are those of now, and so are the requester's rights: see `replay-named.ts`.
 */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply } from 'fastify'
import { type Static, Type } from 'typebox'
import { instantOf } from '../commands/date-time.ts'
import { Refused, refuse } from '../commands/refusal.ts'
import { discussionStream, pullStream } from '../events/streams.ts'
import { type RepositoryAccess, repositoryFor } from '../http/requests.ts'
import type { AccountDocument } from '../projections/accounts.ts'
import { issueId } from '../projections/issue-selection.ts'
import { type IssueDocument, issueFold } from '../projections/issues.ts'
import { type PullDocument, pullFold, pullId } from '../projections/pulls.ts'
import type { Fold } from '../projections/read-model.ts'
import { changesBetween } from '../replay/changes.ts'
import { createMilestones, type Milestones } from '../replay/milestones.ts'
import { rangeOf, replayStream, type Stand } from '../replay/replay-stream.ts'
import type { AnswerServices, Services } from '../services.ts'
import { IssueWire, type NamedDocuments } from './issue-wire.ts'
import { IssueParams, issueFor, issueWires } from './issues.ts'
import { PullParams, PullRequestWire, pullFor, pullWire, surroundings } from './pulls.ts'
import { namedThen } from './replay-named.ts'

/** A revision of the stream, or a time: ISO 8601 in UTC with milliseconds. */
export type Moment = { revision: number } | { at: string }

/** An answer as it was, and the last event that is in it. */
export interface Replay<W> {
  body: W
  last: Stand
}

/** Replays one issue or pull request. All of them throw Refused (not found) with the range that there is. */
export interface Replayer<W> {
  at(moment: Moment): Promise<Replay<W>>
  /** Both revisions. */
  between(from: number, to: number): Promise<{ from: Replay<W>; to: Replay<W> }>
}

const pullMilestones = createMilestones<PullDocument>()
const issueMilestones = createMilestones<IssueDocument>()

interface Replayable<D extends object, W> {
  fold: Fold<D>
  id: string
  stream: string
  milestones: Milestones<D>
  wire(document: D, named: NamedDocuments): Promise<W>
}

function replayer<D extends object, W>(
  services: AnswerServices,
  { fold, id, stream, milestones, wire }: Replayable<D, W>,
): Replayer<W> {
  async function outOfRange(): Promise<Refused> {
    const range = await rangeOf(services.events, stream)
    const errors = range && [
      `revision: ${range.first.revision} to ${range.last.revision}`,
      `at: from ${range.first.at}; the last event is of ${range.last.at}`,
    ]
    return new Refused(refuse.notFound('there is nothing at that moment', errors))
  }

  async function replayedAt(moment: Moment) {
    const { events } = services
    // Which events a time takes in is known only when all are read.
    const start = 'revision' in moment ? milestones.before(events, stream, moment.revision) : undefined
    const replayed = await replayStream(events, stream, fold, id, moment, start, (passed) => {
      if ('revision' in moment) milestones.keep(events, stream, passed)
    })
    const { document, last } = replayed
    if (document === undefined || last === undefined) throw await outOfRange()
    if ('revision' in moment && last.revision !== moment.revision) throw await outOfRange()
    return { document, last }
  }

  async function shown({ document, last }: { document: D; last: Stand }, moment: Moment): Promise<Replay<W>> {
    const { position } = last
    // At a time, also what it names is as it was then, though nothing happened to the thing itself since.
    const named = namedThen(services, 'at' in moment ? { at: moment.at, position } : { position })
    return { body: await wire(document, named), last }
  }

  return {
    async at(moment) {
      return shown(await replayedAt(moment), moment)
    },
    async between(from, to) {
      const earlier = { revision: Math.min(from, to) }
      const later = { revision: Math.max(from, to) }
      const first = await replayedAt(earlier)
      const second = await replayedAt(later)
      const [before, after] = [await shown(first, earlier), await shown(second, later)]
      return from <= to ? { from: before, to: after } : { from: after, to: before }
    },
  }
}

/** @throws Refused (not found) when there is no such pull request */
export async function pullReplayer(
  services: AnswerServices,
  { repository, access }: RepositoryAccess,
  index: string,
  requester: AccountDocument | null,
): Promise<Replayer<Static<typeof PullRequestWire>>> {
  const pull = await pullFor(services, repository.id, index)
  return replayer(services, {
    fold: pullFold,
    milestones: pullMilestones,
    id: pullId(pull.repoId, pull.index),
    stream: pullStream(pull.repoId, pull.index),
    async wire(document, named) {
      const [then] = await named.repositories.getMany([`${document.repoId}`])
      if (then === undefined) throw new Refused(refuse.notFound('repository not found'))
      return pullWire(document, await surroundings(services, then, access, [document], requester, named))
    },
  })
}

/** @throws Refused (not found) when there is no such issue or pull request */
export async function issueReplayer(
  services: AnswerServices,
  { repository }: RepositoryAccess,
  index: string,
  requester: AccountDocument | null,
): Promise<Replayer<Static<typeof IssueWire>>> {
  const issue = await issueFor(services, repository.id, index)
  return replayer(services, {
    fold: issueFold,
    milestones: issueMilestones,
    id: issueId(issue.repoId, issue.index),
    stream: discussionStream(issue),
    async wire(document, named) {
      const [wire] = await issueWires(services, [document], requester, named)
      if (wire === undefined) throw new Refused(refuse.notFound('repository not found'))
      return wire
    },
  })
}

/** The revision in a query, negative or beyond all that there can be, too. @throws Refused (unprocessable) */
function revisionOf(field: string, text: string): number {
  if (!/^-?\d+$/.test(text)) throw new Refused(refuse.unprocessable(`${field}: must be a whole number`))
  return Math.max(-1, Math.min(Number(text), Number.MAX_SAFE_INTEGER - 1))
}

/** An hour to the end of year 9999: later instants have another form, that sorts before all others. */
const LATEST = Date.UTC(9999, 11, 31, 23)

/** @throws Refused (unprocessable) */
export function momentOf({ revision, at }: { revision?: string; at?: string }): Moment {
  if (revision !== undefined && at !== undefined) {
    throw new Refused(refuse.unprocessable('at: can not be given with a revision'))
  }
  if (revision !== undefined) return { revision: revisionOf('revision', revision) }
  if (at === undefined) throw new Refused(refuse.unprocessable('revision: this or at must be given'))
  const instant = instantOf(at)
  if (instant === undefined) {
    throw new Refused(refuse.unprocessable('at: must be a date-time as in RFC 3339'))
  }
  return { at: new Date(Math.min(instant, LATEST)).toISOString() }
}

const ReplayQuery = Type.Object({
  revision: Type.Optional(Type.String({ description: 'after this event of its history; the first is 0' })),
  at: Type.Optional(Type.String({ description: 'RFC 3339: as it was then; this or a revision' })),
})

const DiffQuery = Type.Object({
  from: Type.String({ description: 'a revision' }),
  to: Type.String({ description: 'a revision, later or earlier' }),
})

export const ReplayDiffWire = Type.Object({
  from: Type.Integer(),
  to: Type.Integer(),
  changes: Type.Array(
    Type.Object({
      field: Type.String({
        description:
          'a field of the answer, with dots where it is inside of others: head.sha. Arrays are given whole, and so ' +
          'are objects that have another id than before',
      }),
      before: Type.Unknown(),
      after: Type.Unknown(),
    }),
  ),
})

function sendStand(reply: FastifyReply, { revision, at }: Stand): void {
  reply.header('Mergelog-Revision', revision)
  reply.header('Mergelog-At', at)
  reply.header('Access-Control-Expose-Headers', 'Mergelog-Revision, Mergelog-At')
}

async function diffOf<W extends object>(
  replay: Replayer<W>,
  query: Static<typeof DiffQuery>,
): Promise<Static<typeof ReplayDiffWire>> {
  const { from, to } = await replay.between(revisionOf('from', query.from), revisionOf('to', query.to))
  return { from: from.last.revision, to: to.last.revision, changes: changesBetween(from.body, to.body) }
}

export function replayRoutes(services: Services): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.get(
      '/repos/:owner/:repo/pulls/:index/replay',
      {
        schema: {
          tags: ['repository'],
          params: PullParams,
          querystring: ReplayQuery,
          response: { 200: PullRequestWire },
        },
      },
      async (request, reply) => {
        const { params, query, requester } = request
        const found = await repositoryFor(services, request, params, 'read')
        const replay = await pullReplayer(services, found, params.index, requester)
        const { body, last } = await replay.at(momentOf(query))
        sendStand(reply, last)
        return body
      },
    )

    app.get(
      '/repos/:owner/:repo/pulls/:index/replay/diff',
      {
        schema: {
          tags: ['repository'],
          params: PullParams,
          querystring: DiffQuery,
          response: { 200: ReplayDiffWire },
        },
      },
      async (request) => {
        const { params, query, requester } = request
        const found = await repositoryFor(services, request, params, 'read')
        return diffOf(await pullReplayer(services, found, params.index, requester), query)
      },
    )

    const config = { scope: 'issue' } as const
    app.get(
      '/repos/:owner/:repo/issues/:index/replay',
      {
        config,
        schema: {
          tags: ['issue'],
          params: IssueParams,
          querystring: ReplayQuery,
          response: { 200: IssueWire },
        },
      },
      async (request, reply) => {
        const { params, query, requester } = request
        const found = await repositoryFor(services, request, params, 'read')
        const replay = await issueReplayer(services, found, params.index, requester)
        const { body, last } = await replay.at(momentOf(query))
        sendStand(reply, last)
        return body
      },
    )

    app.get(
      '/repos/:owner/:repo/issues/:index/replay/diff',
      {
        config,
        schema: {
          tags: ['issue'],
          params: IssueParams,
          querystring: DiffQuery,
          response: { 200: ReplayDiffWire },
        },
      },
      async (request) => {
        const { params, query, requester } = request
        const found = await repositoryFor(services, request, params, 'read')
        return diffOf(await issueReplayer(services, found, params.index, requester), query)
      },
    )
  }
}
