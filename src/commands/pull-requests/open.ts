/** Opening a pull request: `POST /repos/{owner}/{repo}/pulls`. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { claimKeys, idsStream, numbersStream, pullStream } from '../../events/streams.ts'
import { diffStat, mergeBase } from '../../git/history.ts'
import { mergeTrees } from '../../git/merge.ts'
import { branchNameProblem } from '../../git/names.ts'
import { readRefs, updateRef } from '../../git/refs.ts'
import { commandContext, repositoryFor, settled, signedIn } from '../../http/requests.ts'
import type { RepositoryDocument } from '../../projections/repositories.ts'
import { PullRequestWire, pullFor, pullWire, surroundings } from '../../queries/pulls.ts'
import { RepositoryParams } from '../../queries/repositories.ts'
import { gitDirOf, type Services } from '../../services.ts'
import { type Claim, claimHolder, takeClaim } from '../claims.ts'
import { type CommandContext, execute, load } from '../execute.ts'
import { Refused, refuse } from '../refusal.ts'
import { takeNumber } from '../sequences.ts'
import { decideOpen, pullDecider } from './pull-request.ts'

export const CreatePullRequestOption = Type.Object({
  head: Type.String(),
  base: Type.String(),
  title: Type.Optional(Type.String({ maxLength: 255 })),
  body: Type.Optional(Type.String()),
})

interface Opening {
  repository: RepositoryDocument
  headBranch: string
  baseBranch: string
  title: string
  body: string
}

/** Create rule 2: the branch of `<branch>` or `<owner>:<branch>`; anything else is 404. */
function headBranchOf(head: string, repository: RepositoryDocument): string {
  const [first = '', branch, ...more] = head.split(':')
  if (branch === undefined) return first
  if (more.length > 0) throw new Refused(refuse.notFound('head: must be <branch> or <user>:<branch>'))
  if (first.toLowerCase() !== repository.ownerLogin.toLowerCase()) {
    throw new Refused(refuse.notFound(`head: ${first} has no fork of this repository`))
  }
  return branch
}

async function open(services: Services, context: CommandContext, opening: Opening): Promise<number> {
  const { events } = services
  const { repository, headBranch, baseBranch, title, body } = opening
  const { actor } = context
  if (actor === null) throw new Refused(refuse.unauthenticated('sign in first'))
  const repoId = repository.id
  const dir = gitDirOf(services, repoId)
  const earlier = await openedBefore(services, context, repoId)
  if (earlier !== undefined) return earlier

  // A name that no branch can have is the name of none.
  if (branchNameProblem(headBranch) ?? branchNameProblem(baseBranch)) {
    throw new Refused(refuse.notFound('branch not found'))
  }
  const tips = await readRefs(dir, [`refs/heads/${headBranch}`, `refs/heads/${baseBranch}`])
  const headSha = tips.get(`refs/heads/${headBranch}`)
  const baseSha = tips.get(`refs/heads/${baseBranch}`)
  if (headSha == null || baseSha == null) throw new Refused(refuse.notFound('branch not found'))

  const head = { repoId, branch: headBranch, sha: headSha }
  const base = { repoId, branch: baseBranch, sha: baseSha }
  const key = claimKeys.pull(head, base)
  const claim: Pick<Claim, 'key' | 'stillHolds'> = {
    key,
    async stillHolds(holder) {
      const { state } = await load(events, holder, pullDecider)
      return state.status === 'open' && claimKeys.pull(state.head, state.base) === key
    },
  }
  if (context.retry === undefined) {
    const twin = await claimHolder(events, context, claim)
    if (twin !== undefined) throw new Refused(twinExists(twin))
  }
  const ancestor = await mergeBase(dir, baseSha, headSha)
  if (ancestor === undefined) throw new Refused(refuse.unprocessable('head and base share no history'))
  const [diff, merge, index, id] = await Promise.all([
    diffStat(dir, ancestor, headSha),
    mergeTrees(dir, baseSha, headSha),
    takeNumber(events, context, numbersStream(repoId)),
    takeNumber(events, context, idsStream('issue')),
  ])
  const stream = pullStream(repoId, index)
  const claimed = await takeClaim(events, context, { ...claim, holder: stream })
  if (!claimed.taken) throw new Refused(twinExists(claimed.holder))

  await updateRef(dir, `refs/pull/${index}/head`, { from: null, to: headSha })
  await execute(events, context, {
    stream,
    step: 'open',
    decider: pullDecider,
    decide: (state) =>
      decideOpen(state, {
        repoId,
        index,
        id,
        poster: actor,
        title,
        body,
        head,
        base,
        mergeBase: ancestor,
        diff,
        mergeable: merge.kind === 'clean',
      }),
  })
  return index
}

/** The number of the pull request that a retried request has opened before. */
async function openedBefore(
  { events }: Services,
  context: CommandContext,
  repoId: number,
): Promise<number | undefined> {
  if (context.retry === undefined) return undefined
  const index = await takeNumber(events, context, numbersStream(repoId))
  const stream = pullStream(repoId, index)
  const state = await execute(events, context, {
    stream,
    step: 'open',
    decider: pullDecider,
    decide: () => [],
  })
  return state.status === 'none' ? undefined : index
}

/** Create rule 4: the answer names the pull request that is there already. */
function twinExists(holder: string) {
  const number = holder.slice(holder.indexOf('.') + 1)
  return refuse.conflict(`pull request #${number} with the same head and base is not merged yet`)
}

export function openPullRoutes(services: Services): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.post(
      '/repos/:owner/:repo/pulls',
      {
        schema: {
          tags: ['repository'],
          params: RepositoryParams,
          body: CreatePullRequestOption,
          response: { 201: PullRequestWire },
        },
      },
      async (request, reply) => {
        const { repository, access } = await repositoryFor(services, request, request.params, 'read')
        signedIn(request)
        const { base, title = '', body = '' } = request.body
        if (repository.empty) throw new Refused(refuse.notFound('the repository has no commits'))
        const headBranch = headBranchOf(request.body.head, repository)
        if (headBranch === base) {
          throw new Refused(
            refuse.unprocessable('head and base are the same: there are no changes between them'),
          )
        }
        const trimmed = title.trim()
        if (trimmed === '') throw new Refused(refuse.unprocessable('title: must not be empty'))

        const context = commandContext(request)
        const opening = { repository, headBranch, baseBranch: base, title: trimmed, body }
        const index = await open(services, context, opening)
        await settled(services, context, reply)
        const pull = await pullFor(services, repository.id, `${index}`)
        // As it is now: it counts its open pull requests.
        const now = (await services.views.repositories.get(`${repository.id}`)) ?? repository
        return reply.code(201).send(pullWire(pull, await surroundings(services, now, access, [pull])))
      },
    )
  }
}
