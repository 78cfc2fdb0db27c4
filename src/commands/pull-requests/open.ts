/** Opens a pull request: `POST /repos/{owner}/{repo}/pulls`. */
import { Type } from 'typebox'
import { accessTo, atLeast } from '../../access/access.ts'
import { onRepository } from '../../access/repository-access.ts'
import { PullRequestWire, pullWire } from '../../api/pull-requests/pulls.ts'
import { forkOf, RepositoryParams } from '../../api/repositories/repositories.ts'
import { signedIn } from '../../auth/requester.ts'
import { type Routes, route } from '../../auth/routes.ts'
import { isRefusal, Refused, refuse } from '../../errors/refusal.ts'
import type { EventOf } from '../../events/handlers.ts'
import { claimKeys, idsStream, numbersStream, pullStream } from '../../events/streams.ts'
import { diffStat, mergeBase } from '../../git/commits/history.ts'
import { resolveRef, updateRef } from '../../git/refs/refs.ts'
import { fetchObjects } from '../../git/repository/fetch-objects.ts'
import { pullFold, pullId } from '../../projections/models/pull-requests/pulls.fold.ts'
import {
  type RepositoryDocument,
  repositoryKey,
} from '../../projections/models/repositories/repositories.fold.ts'
import type { AccountDocument } from '../../projections/models/users/accounts.fold.ts'
import { notFoundIn } from '../../projections/views/view.ts'
import { gitDirOf, type Services } from '../../services/services.ts'
import { pulls } from '../execution/aggregates.ts'
import type { CommandContext } from '../execution/command-context.ts'
import { loadDocument } from '../execution/load-document.ts'
import { commandContext, settled } from '../execution/request-context.ts'
import { takeNumberOfEach, takeNumbers } from '../execution/sequences.ts'
import { openedByEarlierAttempt } from '../issues/earlier-attempt.ts'
import { discussionOptions, LabelIds, newTitleOf, type OpenedFields, openedFields } from '../issues/fields.ts'
import { decideRequestReviews } from '../reviews/review-request.decider.ts'
import {
  type Reviewers,
  requireTeamsFit,
  reviewerOptions,
  reviewersAsked,
  reviewRequests,
} from '../reviews/reviewers.ts'
import { requireTip } from './branches/branch-tips.ts'
import { tryMerge } from './check-mergeability.ts'
import { claimHeadBase, refuseDuplicate } from './duplicate-pull.ts'
import { decideOpen, pullDecider } from './pull-request.decider.ts'

const CreatePullRequestOption = (services: Services) =>
  Type.Object(
    {
      ...discussionOptions(services),
      head: Type.String(),
      base: Type.String(),
      labels: Type.Optional(LabelIds),
      allow_maintainer_edit: Type.Optional(Type.Boolean()),
      ...reviewerOptions,
    },
    { title: 'CreatePullRequestOption' },
  )

type Opened = EventOf<'PullRequestOpened'>['data']

interface NamedParts {
  fields: OpenedFields
  reviewers: Reviewers
}

interface Opening extends Pick<Opened, 'title' | 'body'> {
  repository: RepositoryDocument
  poster: AccountDocument
  headRepository: RepositoryDocument
  headBranch: string
  baseBranch: string
  /** Whether writers of the base may push to the head branch. */
  maintainerEdit: boolean
  /** Looks up labels, reviewers and the like, after `pulls.create.1` to `pulls.create.4` are checked. @throws Refused */
  lookUp(): Promise<NamedParts>
}

/** Returns the name of a branch, which may be a full ref. */
const branchIn = (name: string) => name.replace(/^refs\/heads\//, '')

/**
 * Returns the repository and branch of `<branch>`, `<user>:<branch>` or `<user>/<repository>:<branch>`:
 * `pulls.create.2`, `pulls.create.3`. @throws Refused: unprocessable when empty; not found, also for a repository that
 * the requester may not read
 */
async function headOf(
  services: Services,
  requester: AccountDocument,
  repository: RepositoryDocument,
  head: string,
): Promise<{ headRepository: RepositoryDocument; headBranch: string }> {
  if (head === '') throw new Refused(refuse.unprocessable('head: must not be empty'))
  const [first = '', branch, ...more] = head.split(':')
  if (branch === undefined) return { headRepository: repository, headBranch: branchIn(first) }
  if (more.length > 0) {
    throw new Refused(
      refuse.notFound('head: must be <branch>, <user>:<branch> or <user>/<repository>:<branch>'),
    )
  }
  const found = await repositoryOfHead(services, repository, first)
  // The same answer for an unknown owner: it may be a hidden organization.
  if (found === undefined || !atLeast(accessTo(found, requester), 'read')) {
    throw notFoundIn(services.views.repositories, `head: ${first} has no fork of this repository`)
  }
  return { headRepository: found, headBranch: branchIn(branch) }
}

/** Returns the repository itself or a fork of it, by owner or full name. */
async function repositoryOfHead(
  services: Services,
  repository: RepositoryDocument,
  name: string,
): Promise<RepositoryDocument | undefined> {
  const { views } = services
  const [login = '', ...rest] = name.split('/')
  if (rest.length > 0) {
    const named = await views.repositories.findOne({ key: repositoryKey(login, rest.join('/')) })
    return named?.id === repository.id || named?.parentId === repository.id ? named : undefined
  }
  const owner = await views.accounts.findOne({ loginKey: login.toLowerCase() })
  if (owner?.id === repository.ownerId) return repository
  return owner && (await forkOf(services, repository.id, owner.id))
}

/**
 * Returns whether writers of the base may push to the head branch: as requested, or by the base repository's default.
 * The poster needs write access to the head branch, as in `pulls.edit.7`. @throws Refused (forbidden) when the poster
 * lacks it
 */
function allowsMaintainerEdit(
  base: RepositoryDocument,
  head: RepositoryDocument,
  poster: AccountDocument,
  wanted: boolean | undefined,
): boolean {
  const may = atLeast(accessTo(head, poster), 'write')
  if (wanted === true && !may) {
    const reason = 'only a poster with write access to the head branch may give it'
    throw new Refused(refuse.forbidden(`allow_maintainer_edit: ${reason}`))
  }
  return wanted ?? (base.defaultMaintainerEdit === true && head.id !== base.id && may)
}

async function openPull(services: Services, context: CommandContext, opening: Opening): Promise<number> {
  const { repository, poster, headRepository, headBranch, baseBranch, maintainerEdit, lookUp, ...texts } =
    opening
  const { actor } = context
  if (actor === null) throw new Refused(refuse.unauthenticated('sign in first'))
  const repoId = repository.id
  const dir = gitDirOf(services, repoId)
  const [baseSha, headSha] = await Promise.all([
    requireTip(services, repoId, baseBranch, 'base'),
    requireTip(services, headRepository.id, headBranch, 'head'),
  ])
  const head = { repoId: headRepository.id, branch: headBranch, sha: headSha }
  const base = { repoId, branch: baseBranch, sha: baseSha }
  const key = claimKeys.pull(head, base)
  if (context.retry === undefined) await refuseDuplicate(services, key)
  const { fields, reviewers } = await lookUp()
  if (reviewers.people.some(({ id }) => id === poster.id)) {
    throw new Refused(refuse.unprocessable(`reviewers: ${poster.login} opens the pull request`))
  }
  const wantedBy = (ids: readonly number[]) =>
    reviewRequests(services, repository, poster, baseBranch, reviewers, ids)
  requireTeamsFit((await wantedBy([])).asked)
  if (headRepository.id !== repoId) {
    await fetchObjects(dir, gitDirOf(services, headRepository.id), headSha)
  }
  const ancestor = await mergeBase(dir, baseSha, headSha)
  if (ancestor === undefined) throw new Refused(refuse.unprocessable('head and base share no history'))
  const [diff, merge, [index = 0, id = 0]] = await Promise.all([
    diffStat(dir, ancestor, headSha),
    tryMerge(services, repoId, { ours: baseSha, theirs: headSha }),
    takeNumberOfEach(services, context, [numbersStream(repoId), idsStream('issue')]),
  ])
  const count = reviewers.people.length + reviewers.teams.length
  const { wanted, asked } = await wantedBy(await takeNumbers(services, context, idsStream('comment'), count))
  await claimHeadBase(services, context, key, pullStream(repoId, index))

  const ref = `refs/pull/${index}/head`
  // A retried request may find the ref of its first attempt, with another head.
  await updateRef(dir, ref, { from: context.retry ? await resolveRef(dir, ref) : null, to: headSha })
  const opened = {
    ...{ ...texts, ...fields, repoId, index, id, poster: actor, head, base, mergeBase: ancestor, diff },
    mergeable: merge?.kind === 'clean',
  }
  await pulls.change(services, context, { repoId, index }, 'open', (state) => {
    const decision = decideOpen(state, opened, maintainerEdit)
    if (isRefusal(decision)) return decision
    const requests = decideRequestReviews(decision.reduce(pullDecider.evolve, state), wanted, asked)
    return isRefusal(requests) ? requests : [...decision, ...requests]
  })
  return index
}

export const openPullRoutes: Routes = (services) => async (app) => {
  app.post(
    '/repos/:owner/:repo/pulls',
    route('repository', {
      params: RepositoryParams,
      body: CreatePullRequestOption(services),
      response: { 201: PullRequestWire },
    }),
    async (request, reply) => {
      const { repository } = await onRepository(services, request, 'read')
      const requester = signedIn(request)
      const { body } = request
      if (repository.empty) throw notFoundIn(services.views.repositories, 'the repository has no commits')
      const context = commandContext(request)
      const opening = async () => {
        const { headRepository, headBranch } = await headOf(services, requester, repository, body.head)
        if (body.base === '') throw new Refused(refuse.unprocessable('base: must not be empty'))
        const baseBranch = branchIn(body.base)
        if (headRepository.id === repository.id && headBranch === baseBranch) {
          throw new Refused(
            refuse.unprocessable('head and base are the same, so there are no changes between them'),
          )
        }
        const title = newTitleOf(body.title)
        return {
          repository,
          poster: requester,
          headRepository,
          headBranch,
          baseBranch,
          maintainerEdit: allowsMaintainerEdit(
            repository,
            headRepository,
            requester,
            body.allow_maintainer_edit ?? undefined,
          ),
          title,
          body: body.body ?? '',
          lookUp: async () => ({
            fields: await openedFields(services, repository, body),
            reviewers: await reviewersAsked(services, repository, requester, body),
          }),
        }
      }
      const index =
        (await openedByEarlierAttempt(services, context, pulls, repository.id)) ??
        (await openPull(services, context, await opening()))
      await settled(services, context, reply)
      const pull = await loadDocument(services, 'pull request', {
        id: pullId(repository.id, index),
        stream: pullStream(repository.id, index),
        view: services.views.pulls,
        fold: pullFold,
      })
      // Read it again: its number of open pull requests has changed.
      const now = (await services.views.repositories.get(`${repository.id}`)) ?? repository
      return reply.code(201).send(await pullWire(services, now, pull, requester))
    },
  )
}
