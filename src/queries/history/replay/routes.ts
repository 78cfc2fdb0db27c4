/** `GET …/replay` and `GET …/replay/diff` of pull requests and issues. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { onRepository } from '../../../access/repository-access.ts'
import { IssueParams, IssueWire } from '../../../api/issues/issues.ts'
import { PullRequestWire } from '../../../api/pull-requests/pulls.ts'
import { comparableTime, lastInstantOfDay } from '../../../domain/times.ts'
import { Refused, refuse } from '../../../errors/refusal.ts'
import { exposeHeaders } from '../../../http/answers/exposed-headers.ts'
import { OptionalText } from '../../../http/requests/optional-text.ts'
import type { Services } from '../../../services/services.ts'
import { changesBetween } from './changes.ts'
import { replayClientOf } from './replay-client.ts'
import { issueReplayer, type Moment, pullReplayer } from './replayers.ts'

/** Parses a revision, which may be out of range. @throws Refused (unprocessable) unless it is an integer */
export function revisionOf(field: string, text: string): number {
  if (!/^-?\d+$/.test(text)) throw new Refused(refuse.unprocessable(`${field}: must be a whole number`))
  return Math.max(-1, Math.min(Number(text), Number.MAX_SAFE_INTEGER - 1))
}

/** Parses a moment. @throws Refused (unprocessable) unless there is either a valid revision or a valid time */
export function momentOf({ revision, at }: { revision?: string; at?: string }): Moment {
  if (revision !== undefined && at !== undefined) {
    throw new Refused(refuse.unprocessable('at: cannot be given together with revision'))
  }
  if (revision !== undefined) return { revision: revisionOf('revision', revision) }
  if (at === undefined) throw new Refused(refuse.unprocessable('revision: either this or at must be given'))
  const instant = lastInstantOfDay(at)
  if (instant === undefined) {
    throw new Refused(refuse.unprocessable('at: must be a date as 2026-11-26, or a date-time as in RFC 3339'))
  }
  return { at: comparableTime(instant) }
}

const ReplayQuery = Type.Object({
  revision: OptionalText('Revision of the event whose state is wanted; the first is 0'),
  at: OptionalText(
    'Time of the wanted state, RFC 3339. Without milliseconds: the end of that second; a date alone: the end of that ' +
      'day in UTC. Excludes revision',
  ),
})

const DiffQuery = Type.Object({
  from: Type.String({ description: 'Revision to compare from' }),
  to: Type.String({ description: 'Revision to compare with, later or earlier' }),
})

const ISSUE_SCOPE = { scope: 'issue' } as const

const ReplayDiffWire = Type.Object({
  from: Type.Integer(),
  to: Type.Integer(),
  changes: Type.Array(
    Type.Object({
      field: Type.String({
        description:
          'Path of the changed field: head.sha. Arrays, and objects with another id, are compared whole',
      }),
      before: Type.Unknown(),
      after: Type.Unknown(),
    }),
  ),
})

export function replayRoutes(services: Services): FastifyPluginAsyncTypebox {
  return async (app) => {
    const pulls = { tags: ['repository'], config: {}, wire: PullRequestWire, replayerOf: pullReplayer }
    const issues = { tags: ['issue'], config: ISSUE_SCOPE, wire: IssueWire, replayerOf: issueReplayer }
    for (const [kind, { tags, config, wire, replayerOf }] of Object.entries({ pulls, issues })) {
      const path = `/repos/:owner/:repo/${kind}/:index/replay`
      const schema = { tags, params: IssueParams }

      app.get(
        path,
        { config, schema: { ...schema, querystring: ReplayQuery, response: { 200: wire } } },
        async (request, reply) => {
          const found = await onRepository(services, request, 'read')
          const replayClient = replayClientOf(request, reply)
          const replayer = await replayerOf(
            services,
            found,
            request.params.index,
            request.requester,
            replayClient,
          )
          const { body, last } = await replayer.at(momentOf(request.query))
          reply.header('Mergelog-Revision', last.revision)
          reply.header('Mergelog-At', last.at)
          exposeHeaders(reply, 'Mergelog-Revision, Mergelog-At')
          return body
        },
      )

      app.get(
        `${path}/diff`,
        { config, schema: { ...schema, querystring: DiffQuery, response: { 200: ReplayDiffWire } } },
        async (request, reply) => {
          const { query, requester } = request
          const found = await onRepository(services, request, 'read')
          const replayClient = replayClientOf(request, reply)
          const replayer = await replayerOf(services, found, request.params.index, requester, replayClient)
          const { from, to } = await replayer.between(
            revisionOf('from', query.from),
            revisionOf('to', query.to),
          )
          const changes = changesBetween(from.body, to.body)
          return { from: from.last.revision, to: to.last.revision, changes }
        },
      )
    }
  }
}
