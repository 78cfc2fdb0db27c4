/** `GET …/replay` and `GET …/replay/diff` of pull requests and issues. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { Refused, refuse } from '../../refusal.ts'
import { repositoryFor } from '../../rights/repository-access.ts'
import type { Services } from '../../services.ts'
import { comparableTime, instantOf } from '../../times.ts'
import { IssueParams, IssueWire } from '../../wire/issues.ts'
import { PullParams, PullRequestWire } from '../../wire/pulls.ts'
import { changesBetween } from './changes.ts'
import type { StreamPoint } from './document-at.ts'
import { issueReplayer, type Moment, pullReplayer, type Replayer } from './replayers.ts'

/** The revision in a query; it may be out of range. @throws Refused (unprocessable) when it is not a whole number */
function revisionOf(field: string, text: string): number {
  if (!/^-?\d+$/.test(text)) throw new Refused(refuse.unprocessable(`${field}: must be a whole number`))
  return Math.max(-1, Math.min(Number(text), Number.MAX_SAFE_INTEGER - 1))
}

/** The moment in a query. @throws Refused (unprocessable) unless it has either a valid revision or a valid time */
export function momentOf({ revision, at }: { revision?: string; at?: string }): Moment {
  if (revision !== undefined && at !== undefined) {
    throw new Refused(refuse.unprocessable('at: cannot be given together with revision'))
  }
  if (revision !== undefined) return { revision: revisionOf('revision', revision) }
  if (at === undefined) throw new Refused(refuse.unprocessable('revision: either this or at must be given'))
  const instant = instantOf(at)
  if (instant === undefined) {
    throw new Refused(refuse.unprocessable('at: must be a date-time as in RFC 3339'))
  }
  return { at: comparableTime(instant) }
}

const ReplayQuery = Type.Object({
  revision: Type.Optional(
    Type.String({ description: 'state after the event with this revision; the first is 0' }),
  ),
  at: Type.Optional(
    Type.String({ description: 'state at this time, RFC 3339; give either this or a revision' }),
  ),
})

const DiffQuery = Type.Object({
  from: Type.String({ description: 'a revision' }),
  to: Type.String({ description: 'a revision, later or earlier' }),
})

const ReplayDiffWire = Type.Object({
  from: Type.Integer(),
  to: Type.Integer(),
  changes: Type.Array(
    Type.Object({
      field: Type.String({
        description:
          'path of a field of the answer: head.sha. Arrays are given whole, and so are objects that have another id ' +
          'than before',
      }),
      before: Type.Unknown(),
      after: Type.Unknown(),
    }),
  ),
})

function sendPoint(reply: FastifyReply, { revision, at }: StreamPoint): void {
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

async function replayAt<W extends object>(
  replay: Replayer<W>,
  query: Static<typeof ReplayQuery>,
  reply: FastifyReply,
): Promise<W> {
  const { body, last } = await replay.at(momentOf(query))
  sendPoint(reply, last)
  return body
}

export function replayRoutes(services: Services): FastifyPluginAsyncTypebox {
  /** The replayer of the issue or pull request in the path, if the requester may read it. */
  async function replayerFor<W>(
    replayerOf: (...args: Parameters<typeof pullReplayer>) => Promise<Replayer<W>>,
    request: FastifyRequest,
    params: Static<typeof PullParams>,
  ): Promise<Replayer<W>> {
    const found = await repositoryFor(services, request.requester, params, 'read')
    return replayerOf(services, found, params.index, request.requester)
  }

  return async (app) => {
    const pull = { tags: ['repository'], params: PullParams }
    app.get(
      '/repos/:owner/:repo/pulls/:index/replay',
      { schema: { ...pull, querystring: ReplayQuery, response: { 200: PullRequestWire } } },
      async (request, reply) =>
        replayAt(await replayerFor(pullReplayer, request, request.params), request.query, reply),
    )

    app.get(
      '/repos/:owner/:repo/pulls/:index/replay/diff',
      { schema: { ...pull, querystring: DiffQuery, response: { 200: ReplayDiffWire } } },
      async (request) => diffOf(await replayerFor(pullReplayer, request, request.params), request.query),
    )

    const config = { scope: 'issue' } as const
    const issue = { tags: ['issue'], params: IssueParams }
    app.get(
      '/repos/:owner/:repo/issues/:index/replay',
      { config, schema: { ...issue, querystring: ReplayQuery, response: { 200: IssueWire } } },
      async (request, reply) =>
        replayAt(await replayerFor(issueReplayer, request, request.params), request.query, reply),
    )

    app.get(
      '/repos/:owner/:repo/issues/:index/replay/diff',
      { config, schema: { ...issue, querystring: DiffQuery, response: { 200: ReplayDiffWire } } },
      async (request) => diffOf(await replayerFor(issueReplayer, request, request.params), request.query),
    )
  }
}
