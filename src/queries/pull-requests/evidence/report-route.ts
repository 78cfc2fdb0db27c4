/** `GET /repos/{owner}/{repo}/evidence`: all merges of a period. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { onRepository } from '../../../access/repository-access.ts'
import { RepositoryParams } from '../../../api/repositories/repositories.ts'
import { instantOf, lastInstantOfDay } from '../../../domain/times.ts'
import { Refused, refuse } from '../../../errors/refusal.ts'
import { decode } from '../../../events/codec.ts'
import { CSV } from '../../../http/answers/csv.ts'
import { preferredType } from '../../../http/answers/media-type.ts'
import { NDJSON } from '../../../http/answers/ndjson.ts'
import { sendStreamedText } from '../../../http/answers/streamed-text.ts'
import { OptionalText } from '../../../http/requests/optional-text.ts'
import { pullId } from '../../../projections/models/pull-requests/pulls.fold.ts'
import type { Services } from '../../../services/services.ts'
import { indexedHistory } from '../../history/history-index.ts'
import { type HistoryPermissions, repositoryPermissions } from '../../history/history-permissions.ts'
import { BEGINNING } from '../../history/history-source.ts'
import { type ReplayClient, replayClientOf } from '../../history/replay/replay-client.ts'
import { factsIn } from './merged-evidence.ts'
import { readEvidence } from './read-evidence.ts'
import { REPORT_HEADER, reportLine, reportRow } from './report.ts'

const PeriodQuery = Type.Object({
  from: OptionalText('Only merges at this time or later: RFC 3339, or a day in UTC'),
  to: OptionalText('Only merges at this time or earlier: RFC 3339, or a day in UTC, which is included'),
})

const ANSWER = {
  200: {
    description: 'The merges, oldest first: JSON lines, or CSV for spreadsheets',
    content: { [NDJSON]: { schema: Type.String() }, [CSV]: { schema: Type.String() } },
  },
}

/** A period in milliseconds since 1970, with both ends. */
interface Period {
  since?: number
  before?: number
}

/** @throws Refused (unprocessable) for an invalid time, and for a period that ends before it begins */
function periodOf({ from, to }: { from?: string; to?: string }): Period {
  const since = timeIn('from', from, (text) =>
    instantOf(/^\d{4}-\d\d-\d\d$/.test(text) ? `${text}T00:00:00Z` : text),
  )
  const before = timeIn('to', to, lastInstantOfDay)
  if (since !== undefined && before !== undefined && since > before) {
    throw new Refused(refuse.unprocessable('from: must not be later than to'))
  }
  return { ...(since !== undefined && { since }), ...(before !== undefined && { before }) }
}

function timeIn(field: string, text: string | undefined, read: (text: string) => number | undefined) {
  if (text === undefined || text === '') return undefined
  const instant = read(text)
  if (instant !== undefined) return instant
  throw new Refused(
    refuse.unprocessable(`${field}: must be a date as 2026-11-26, or a date-time as in RFC 3339`),
  )
}

interface ReportRequest {
  repoId: number
  period: Period
  /** The URL of the pages of pull requests. */
  pages: string
  permissions: HistoryPermissions
  client: ReplayClient
}

/**
 * Yields the rows, oldest first. Holds the evidence of one merge at a time.
 * @throws Refused when the requester loses the permission: a part must not look like the whole report
 */
async function* rowsOf(services: Services, { repoId, period, pages, permissions, client }: ReportRequest) {
  const history = indexedHistory(services, repoId)
  const last = await history.last()
  const filter = { types: new Set(['PullRequestMerged']), ...period }
  for await (const merged of history.read(filter, BEGINNING, last)) {
    const event = decode(merged)
    if (event.type !== 'PullRequestMerged') continue
    if ((await permissions()) === undefined) {
      throw new Refused(refuse.notFound('you may not read this repository any more'))
    }
    const { index } = event.data
    const evidence = await readEvidence(services, event.data, client, { forDocument: false })
    const facts = await factsIn(evidence)
    const pull = await services.views.pulls.get(pullId(repoId, index))
    if (facts !== undefined) yield reportRow(facts, pull?.title ?? '', `${pages}/${index}/evidence`)
  }
}

export function evidenceReportRoutes(services: Services): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.get(
      '/repos/:owner/:repo/evidence',
      {
        schema: {
          tags: ['repository'],
          params: RepositoryParams,
          querystring: PeriodQuery,
          response: ANSWER,
        },
      },
      async (request, reply) => {
        const { repository } = await onRepository(services, request, 'read')
        const period = periodOf(request.query)
        const place = [repository.ownerLogin, repository.name].map(encodeURIComponent).join('/')
        const rows = () =>
          rowsOf(services, {
            repoId: repository.id,
            period,
            pages: `${services.publicUrl()}/ui/${place}/pulls`,
            permissions: repositoryPermissions(services, request, repository.id),
            client: replayClientOf(request, reply),
          })
        reply.header('Vary', 'Accept')
        if (preferredType(request.headers.accept, [NDJSON, CSV]) === NDJSON) {
          sendStreamedText(request, reply, `${NDJSON}; charset=utf-8`, () => jsonLines(rows()))
        } else {
          reply.header('Content-Disposition', 'attachment; filename="merges.csv"')
          sendStreamedText(request, reply, `${CSV}; charset=utf-8; header=present`, () => csvLines(rows()))
        }
        return reply
      },
    )
  }
}

type Rows = ReturnType<typeof rowsOf>

async function* jsonLines(rows: Rows): AsyncGenerator<string> {
  for await (const row of rows) yield `${JSON.stringify(row)}\n`
}

async function* csvLines(rows: Rows): AsyncGenerator<string> {
  yield REPORT_HEADER
  for await (const row of rows) yield reportLine(row)
}
