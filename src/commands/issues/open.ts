/** Opens an issue: `POST /repos/{owner}/{repo}/issues`. */
import { Type } from 'typebox'
import { atLeast } from '../../access/access.ts'
import { onRepository } from '../../access/repository-access.ts'
import { IssueWire, issueWireNow } from '../../api/issues/issues.ts'
import { RepositoryParams } from '../../api/repositories/repositories.ts'
import { signedIn } from '../../auth/requester.ts'
import { type Routes, route } from '../../auth/routes.ts'
import type { IssueEvent } from '../../events/catalog/issues.ts'
import { idsStream, issueStream, numbersStream } from '../../events/streams.ts'
import { issueId } from '../../projections/models/issues/issue-selection.ts'
import { issueFold } from '../../projections/models/issues/issues.fold.ts'
import type { Services } from '../../services/services.ts'
import { issues } from '../execution/aggregates.ts'
import type { CommandContext } from '../execution/command-context.ts'
import { loadDocument } from '../execution/load-document.ts'
import { commandContext, settled } from '../execution/request-context.ts'
import { appendNumbered, takeNumberOfEach } from '../execution/sequences.ts'
import { decideStatus } from './discussion.decider.ts'
import { openedByEarlierAttempt } from './earlier-attempt.ts'
import {
  discussionOptions,
  IssueRefOption,
  LabelIds,
  NO_FIELDS,
  newTitleOf,
  openedFields,
  refOf,
} from './fields.ts'
import { statusChange } from './status-change.ts'

const CreateIssueOption = (services: Services) =>
  Type.Object(
    {
      ...discussionOptions(services),
      title: Type.String({ maxLength: 255 }),
      labels: Type.Optional(LabelIds),
      closed: Type.Optional(Type.Boolean()),
      ref: IssueRefOption,
    },
    { title: 'CreateIssueOption' },
  )

type Opening = Omit<Extract<IssueEvent, { type: 'IssueOpened' }>['data'], 'index' | 'id'>

/** Appends the issue with a new number and id. Resolves to its number. */
async function openIssue(services: Services, context: CommandContext, opening: Opening): Promise<number> {
  const { repoId } = opening
  const sequences = [numbersStream(repoId), idsStream('issue')]
  const openedAs = ([index = 0, id = 0]: readonly number[]) => ({
    stream: issueStream(repoId, index),
    // V8 is about ten times slower at a literal with a spread followed by fields.
    events: [{ type: 'IssueOpened', data: Object.assign({}, opening, { index, id }) } as const],
    // The number is new, so the stream is empty, except for a retried request.
    expected: 'no-stream' as const,
  })
  if (context.retry === undefined) {
    const [index = 0] = await appendNumbered(services, context, 'open', sequences, openedAs)
    return index
  }
  const numbers = await takeNumberOfEach(services, context, sequences)
  const [index = 0] = numbers
  await issues.change(services, context, { repoId, index }, 'open', (state) =>
    state.status === 'none' ? openedAs(numbers).events : [],
  )
  return index
}

export const openIssueRoutes: Routes = (services) => async (app) => {
  app.post(
    '/repos/:owner/:repo/issues',
    route('issue', {
      params: RepositoryParams,
      body: CreateIssueOption(services),
      response: { 201: IssueWire },
    }),
    async (request, reply) => {
      const { repository, access } = await onRepository(services, request, 'read')
      const { id, login } = signedIn(request)
      const { body } = request
      const title = newTitleOf(body.title)
      const ref = refOf(body.ref ?? '')
      const isWriter = atLeast(access, 'write')
      const context = commandContext(request)
      const opening = async () => {
        // `issues.create.1`: only writers set these fields; without write access the values are not even checked.
        const fields = isWriter ? await openedFields(services, repository, body) : NO_FIELDS
        return {
          repoId: repository.id,
          poster: { id, login },
          title,
          body: body.body ?? '',
          ...fields,
          ...(ref !== '' && { ref }),
        }
      }
      const index =
        (await openedByEarlierAttempt(services, context, issues, repository.id)) ??
        (await openIssue(services, context, await opening()))
      const issue = { repoId: repository.id, index }
      // `issues.create.4`: a new issue may be closed at once.
      if (body.closed) {
        await issues.change(services, context, issue, 'close', async (state) =>
          state.status === 'none'
            ? []
            : decideStatus(state, await statusChange(services, context, state, true)),
        )
      }
      await settled(services, context, reply)
      const source = {
        id: issueId(issue.repoId, index),
        stream: issueStream(issue.repoId, index),
        view: services.views.issues,
        fold: issueFold,
      }
      const document = await loadDocument(services, 'issue', source)
      return reply.code(201).send(await issueWireNow(services, document, request.requester))
    },
  )
}
