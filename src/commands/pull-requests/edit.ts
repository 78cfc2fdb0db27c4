/** Changes a pull request: `PATCH /repos/{owner}/{repo}/pulls/{index}`. */

import { type Static, Type } from 'typebox'
import { accessTo, atLeast } from '../../access/access.ts'
import { onRepository } from '../../access/repository-access.ts'
import { PullParams, PullRequestWire, pullFor, pullWire } from '../../api/pull-requests/pulls.ts'
import { signedIn } from '../../auth/requester.ts'
import { type Routes, route } from '../../auth/routes.ts'
import { isRefusal, Refused, refuse } from '../../errors/refusal.ts'
import type { AccountRef, IssueRef } from '../../events/catalog/parts.ts'
import type { PullRequestEvent } from '../../events/catalog/pull-requests.ts'
import { claimKeys } from '../../events/streams.ts'
import { hasValidBody } from '../../http/requests/deferred-validation.ts'
import { pathNumber } from '../../http/requests/path-number.ts'
import { type PullDocument, pullId } from '../../projections/models/pull-requests/pulls.fold.ts'
import { repositoryKey } from '../../projections/models/repositories/repositories.fold.ts'
import type { AccountDocument } from '../../projections/models/users/accounts.fold.ts'
import type { Services } from '../../services/services.ts'
import { pulls } from '../execution/aggregates.ts'
import type { CommandContext } from '../execution/command-context.ts'
import type { Decision } from '../execution/decider.ts'
import { commandContext, settled } from '../execution/request-context.ts'
import { type DiscussionEdit, decideEditDiscussion } from '../issues/discussion.decider.ts'
import { discussionEdit, editOptions, LabelIds } from '../issues/fields.ts'
import { statusChange } from '../issues/status-change.ts'
import { requireTip } from './branches/branch-tips.ts'
import { catchUpAfterReopening } from './branches/move-heads.ts'
import { targetOf } from './branches/target-branch.ts'
import { changeClaiming } from './duplicate-pull.ts'
import {
  type ActivePull,
  decideMaintainerEdit,
  decidePullStatus,
  decideTargetBranch,
  type PullState,
  pullDecider,
} from './pull-request.decider.ts'

const EditPullRequestOption = (services: Services) =>
  Type.Object(
    {
      ...editOptions(services),
      labels: Type.Optional(LabelIds),
      base: Type.Optional(Type.String()),
      allow_maintainer_edit: Type.Optional(Type.Boolean()),
    },
    { title: 'EditPullRequestOption' },
  )

interface PullEdit {
  by: AccountRef
  discussion: DiscussionEdit
  closed: boolean | undefined
  base: string | undefined
  allowMaintainerEdit: boolean | undefined
}

const NO_CHANGES = {
  discussion: {},
  closed: undefined,
  base: undefined,
  allowMaintainerEdit: undefined,
} satisfies Omit<PullEdit, 'by'>

/**
 * Checks `pulls.edit.7`: the poster may set the flag with write access to the head repository, whose admins may clear
 * it.
 */
async function requireMaintainerEditPermission(
  services: Services,
  pull: PullDocument,
  requester: AccountDocument,
  allowed: boolean,
): Promise<void> {
  const headRepository = await services.views.repositories.get(`${pull.head.repoId}`)
  const access = headRepository === undefined ? 'none' : accessTo(headRepository, requester)
  if (pull.poster.id === requester.id && atLeast(access, 'write')) return
  if (!allowed && atLeast(access, 'admin')) return
  throw new Refused(
    refuse.forbidden(
      'allow_maintainer_edit: only the poster may change it, with write access to the head branch; admins of the head repository may clear it',
    ),
  )
}

/**
 * Returns a pull request from a repository that the requester administers but into one that they may not read: the
 * owner of the head can always clear the flag. Undefined otherwise.
 */
async function hiddenPullOf(
  { views }: Services,
  requester: AccountDocument | null,
  { owner, repo, index }: Static<typeof PullParams>,
): Promise<PullDocument | undefined> {
  const base = await views.repositories.findOne({ key: repositoryKey(owner, repo) })
  if (base === undefined || requester === null || accessTo(base, requester) !== 'none') return undefined
  const number = pathNumber(index)
  const pull = number === undefined ? undefined : await views.pulls.get(pullId(base.id, number))
  const head = pull && (await views.repositories.get(`${pull.head.repoId}`))
  return head !== undefined && accessTo(head, requester) === 'admin' ? pull : undefined
}

/** Decides the whole edit: the events of all parts, or the first refusal. */
async function decideEdit(
  services: Services,
  context: CommandContext,
  state: PullState,
  edit: PullEdit,
): Promise<Decision<PullRequestEvent>> {
  if (state.status === 'none') return refuse.notFound('pull request not found')
  const events: PullRequestEvent[] = []
  const steps: ((current: PullState) => Decision<PullRequestEvent> | Promise<Decision<PullRequestEvent>>)[] =
    [() => decideEditDiscussion(state, edit.discussion)]
  const { closed, base, allowMaintainerEdit } = edit
  if (closed !== undefined) {
    steps.push(async (current) => {
      return decidePullStatus(current, await statusChange(services, context, state, closed), edit.by)
    })
  }
  if (base !== undefined && base !== state.base.branch) {
    steps.push(async (current) => {
      if (state.status === 'merged') return refuse.conflict('base: the pull request is merged already')
      return decideTargetBranch(current, await targetOf(services, state, base), edit.by)
    })
  }
  if (allowMaintainerEdit !== undefined) {
    steps.push((current) => decideMaintainerEdit(current, allowMaintainerEdit))
  }
  let current: PullState = state
  for (const step of steps) {
    const decision = await step(current)
    if (isRefusal(decision)) return decision
    events.push(...decision)
    current = decision.reduce(pullDecider.evolve, current)
  }
  return events
}

async function editPull(
  services: Services,
  context: CommandContext,
  pull: IssueRef,
  wanted: PullEdit,
): Promise<void> {
  const change = () =>
    pulls.change(services, context, pull, 'edit', (state) => decideEdit(services, context, state, wanted))
  if (wanted.base === undefined && wanted.closed === undefined) await change()
  else await changeClaiming(services, context, pull, (state) => keyAfter(services, state, wanted), change)
}

/** Returns the key of head and base after the edit. @throws Refused (not found) for an unknown base branch */
async function keyAfter(
  services: Services,
  state: ActivePull,
  { base, closed }: PullEdit,
): Promise<string | undefined> {
  if (state.status === 'merged') return undefined
  const changesBase = base !== undefined && base !== state.base.branch
  if (changesBase) await requireTip(services, state.repoId, base, 'base')
  const opens = closed === false && state.status === 'closed'
  const isOpen = opens || (closed !== true && state.status === 'open')
  if (!isOpen || (!opens && !changesBase)) return undefined
  return claimKeys.pull(state.head, changesBase ? { ...state.base, branch: base } : state.base)
}

export const editPullRoutes: Routes = (services) => async (app) => {
  app.patch(
    '/repos/:owner/:repo/pulls/:index',
    route('repository', {
      params: PullParams,
      body: EditPullRequestOption(services),
      response: {
        201: PullRequestWire,
        204: Type.Null({
          description: 'The caller, who cannot read the pull request, has withdrawn `allow_maintainer_edit`',
        }),
      },
      refusals: ['preconditionFailed'],
    }),
    async (request, reply) => {
      const allowMaintainerEdit = hasValidBody(request) ? request.body.allow_maintainer_edit : undefined
      // `issues.edit.1`. The owner of the head repository may clear the flag.
      const onlyClearsFlag = allowMaintainerEdit === false && Object.keys(request.body).length === 1
      const hidden = onlyClearsFlag
        ? await hiddenPullOf(services, request.requester, request.params)
        : undefined
      if (hidden !== undefined) {
        const { id, login } = signedIn(request)
        const context = commandContext(request)
        await editPull(services, context, hidden, { ...NO_CHANGES, by: { id, login }, allowMaintainerEdit })
        await settled(services, context, reply)
        return reply.code(204).send(null)
      }
      const { repository, access } = await onRepository(services, request, 'read')
      const requester = signedIn(request)
      const pull = await pullFor(services, repository.id, request.params.index)
      const isWriter = atLeast(access, 'write')
      if (!isWriter && pull.poster.id !== requester.id && !onlyClearsFlag) {
        throw new Refused(refuse.forbidden('only the poster and writers may change a pull request'))
      }
      const { body } = request
      if (allowMaintainerEdit !== undefined) {
        await requireMaintainerEditPermission(services, pull, requester, allowMaintainerEdit)
      }
      const context = commandContext(request)
      const closed = typeof body.state === 'string' ? body.state === 'closed' : undefined
      await editPull(services, context, pull, {
        by: { id: requester.id, login: requester.login },
        discussion: await discussionEdit(services, repository, body, { of: 'pull', isWriter }),
        closed,
        base: body.base || undefined,
        allowMaintainerEdit,
      })
      await settled(services, context, reply)
      if (closed === false && pull.status === 'closed') await catchUpAfterReopening(services, context, pull)
      const edited = await pullFor(services, repository.id, request.params.index)
      const now = (await services.views.repositories.get(`${repository.id}`)) ?? repository
      return reply.code(201).send(await pullWire(services, now, edited, requester))
    },
  )
}
