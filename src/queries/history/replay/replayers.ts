/**
 * Replays issues and pull requests: the answer of `GET` at a moment, with the folds and wire functions of current
 * answers. Replays related documents (labels, the milestone, repositories, accounts) too. Counters and permissions are
 * current ones: see `past-documents.ts`.
 */
import type { Static } from 'typebox'
import type { RepositoryAccess } from '../../../access/repository-access.ts'
import { type IssueWire, issueFor, issueWires } from '../../../api/issues/issues.ts'
import { type PullRequestWire, pullFor, pullWire } from '../../../api/pull-requests/pulls.ts'
import type { DocumentSource } from '../../../api/related-documents.ts'
import { Refused, refuse } from '../../../errors/refusal.ts'
import { discussionStream, pullStream } from '../../../events/streams.ts'
import { issueId } from '../../../projections/models/issues/issue-selection.ts'
import { issueFold } from '../../../projections/models/issues/issues.fold.ts'
import { pullFold, pullId } from '../../../projections/models/pull-requests/pulls.fold.ts'
import type { AccountDocument } from '../../../projections/models/users/accounts.fold.ts'
import type { Fold } from '../../../projections/projector/read-model.ts'
import type {
  DocumentSnapshots,
  Replayed,
  StreamPoint,
} from '../../../services/history/document-snapshots.ts'
import type { AnswerServices, HistoryServices } from '../../../services/services.ts'
import { lastRevision } from './last-revision.ts'
import { pastDocuments } from './past-documents.ts'
import type { ReplayClient } from './replay-client.ts'
import { rangeOf, replayStream } from './replay-stream.ts'

/** A revision of the stream, or a time: ISO 8601 in UTC with milliseconds. */
export type Moment = { revision: number } | { at: string }

/** A past answer, and the last event that it includes. */
export interface Replay<W> {
  body: W
  last: StreamPoint
}

/** Replays one issue or pull request. @throws Refused (not found) with the range of the stream, for a moment outside it */
export interface Replayer<W> {
  at(moment: Moment): Promise<Replay<W>>
  /** Returns the answers at two revisions, in any order. */
  between(from: number, to: number): Promise<{ from: Replay<W>; to: Replay<W> }>
}

interface Replayable<D extends object, W> {
  fold: Fold<D>
  id: string
  stream: string
  snapshots: DocumentSnapshots<D>
  wire(document: D, source: DocumentSource): Promise<W>
}

function replayer<D extends object, W>(
  services: AnswerServices & HistoryServices,
  { fold, id, stream, snapshots, wire }: Replayable<D, W>,
  replayClient: ReplayClient | undefined,
): Replayer<W> {
  async function outOfRange() {
    const range = await rangeOf(services.events, stream)
    const nothing = 'there is nothing at that moment'
    if (range === undefined) return new Refused(refuse.notFound(nothing))
    const errors = [
      `revision: ${range.first.revision} to ${range.last.revision}`,
      `at: from ${range.first.at}; the last event is of ${range.last.at}`,
    ]
    return new Refused(refuse.notFound([nothing, ...errors].join('; '), errors))
  }

  async function replayedAt(moment: Moment) {
    const revision =
      'revision' in moment ? moment.revision : await lastRevision(services, stream, moment, replayClient)
    const erasures = services.events.erasures?.()
    const start = snapshots.before(stream, revision)
    const keep = (replay: Replayed<D>) => snapshots.keep(stream, replay, erasures)
    const { document, last } = await replayStream(
      services,
      stream,
      fold,
      id,
      { revision },
      start,
      keep,
      replayClient,
    )
    if (document === undefined || last?.revision !== revision) throw await outOfRange()
    return { document, last }
  }

  async function replayOf({ document, last }: { document: D; last: StreamPoint }, moment: Moment) {
    const { position } = last
    // A time may be later than the last event, and related documents may have changed in between.
    const source = pastDocuments(
      services,
      'at' in moment ? { at: moment.at, position } : { position },
      replayClient,
    )
    return { body: await wire(document, source), last }
  }

  return {
    async at(moment) {
      return replayOf(await replayedAt(moment), moment)
    },
    async between(from, to) {
      const earlier = { revision: Math.min(from, to) }
      const later = { revision: Math.max(from, to) }
      const first = await replayedAt(earlier)
      const second = await replayedAt(later)
      const [before, after] = [await replayOf(first, earlier), await replayOf(second, later)]
      return from <= to ? { from: before, to: after } : { from: after, to: before }
    },
  }
}

/** @throws Refused (not found) for a missing pull request */
export async function pullReplayer(
  services: AnswerServices & HistoryServices,
  { repository }: Pick<RepositoryAccess, 'repository'>,
  index: string,
  requester: AccountDocument | null,
  replayClient?: ReplayClient,
): Promise<Replayer<Static<typeof PullRequestWire>>> {
  const pull = await pullFor(services, repository.id, index)
  return replayer(
    services,
    {
      fold: pullFold,
      snapshots: services.historyCaches.pulls,
      id: pullId(pull.repoId, pull.index),
      stream: pullStream(pull.repoId, pull.index),
      async wire(document, source) {
        const [past] = await source.repositories.getMany([`${document.repoId}`])
        if (past === undefined) throw new Refused(refuse.notFound('repository not found'))
        return pullWire(services, past, document, requester, source)
      },
    },
    replayClient,
  )
}

/** @throws Refused (not found) for a missing issue or pull request */
export async function issueReplayer(
  services: AnswerServices & HistoryServices,
  { repository }: Pick<RepositoryAccess, 'repository'>,
  index: string,
  requester: AccountDocument | null,
  replayClient?: ReplayClient,
): Promise<Replayer<Static<typeof IssueWire>>> {
  const issue = await issueFor(services, repository.id, index)
  return replayer(
    services,
    {
      fold: issueFold,
      snapshots: services.historyCaches.issues,
      id: issueId(issue.repoId, issue.index),
      stream: discussionStream(issue),
      async wire(document, source) {
        const [wire] = await issueWires(services, [document], requester, source)
        if (wire === undefined) throw new Refused(refuse.notFound('repository not found'))
        return wire
      },
    },
    replayClient,
  )
}
