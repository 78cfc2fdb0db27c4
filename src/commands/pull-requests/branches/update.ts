/** Updates the head branch with the base branch: `POST /repos/{owner}/{repo}/pulls/{index}/update`. */
import { Type } from 'typebox'
import { accessTo, atLeast } from '../../../access/access.ts'
import { archivedRefusal } from '../../../access/archived.ts'
import { mayPush, protectionOf } from '../../../access/protection-rules.ts'
import { onRepository } from '../../../access/repository-access.ts'
import { memberOf } from '../../../access/team-membership.ts'
import { PullParams, pullFor } from '../../../api/pull-requests/pulls.ts'
import { requesterNow } from '../../../auth/auth.ts'
import { signedIn } from '../../../auth/requester.ts'
import { emptyAnswer, type Routes, route } from '../../../auth/routes.ts'
import { Refused, refuse } from '../../../errors/refusal.ts'
import type { UpdateStyle } from '../../../events/catalog/repositories.ts'
import { isAncestor } from '../../../git/commits/history.ts'
import { commitTree } from '../../../git/commits/new-commit.ts'
import { mergeTrees } from '../../../git/merge/merge.ts'
import { rebase } from '../../../git/merge/rebase.ts'
import { fetchObjects } from '../../../git/repository/fetch-objects.ts'
import type { RepositoryDocument } from '../../../projections/models/repositories/repositories.fold.ts'
import type { AccountDocument } from '../../../projections/models/users/accounts.fold.ts'
import { gitDirOf, type Services } from '../../../services/services.ts'
import { pulls } from '../../execution/aggregates.ts'
import type { CommandContext } from '../../execution/command-context.ts'
import { requestContext, settled } from '../../execution/request-context.ts'
import { moveJournaled } from '../../git/journaled-moves.ts'
import { withRefLock } from '../../git/ref-lock.ts'
import { signatureOf } from '../../users/accounts/signature.ts'
import { cleanTree, rebasedTip } from '../build-merge.ts'
import { mergeLockKey } from '../finish-merge.ts'
import { allowsPushToHead } from '../maintainer-edits.ts'
import { headHasMoved } from '../merge-checks.decider.ts'
import { gitTips } from '../merge-facts.ts'
import type { ActivePull } from '../pull-request.decider.ts'
import { recordAndMoveHeads } from './move-heads.ts'

interface Update {
  repository: RepositoryDocument
  updater: AccountDocument
  style: UpdateStyle
}

/** Checks `pulls.update.2`: an update needs permission to push to the head branch. A rebase is like a forced push. */
async function requireUpdatePermission(services: Services, pull: ActivePull, update: Update): Promise<void> {
  const { views } = services
  const { style, updater } = update
  // Permissions may have ended while the request waited for the lock.
  const repository = await views.repositories.get(`${update.repository.id}`)
  if (repository === undefined || !atLeast(accessTo(repository, updater), 'read')) {
    throw new Refused(refuse.notFound('repository not found'))
  }
  const headRepository = await services.views.repositories.get(`${pull.head.repoId}`)
  if (headRepository === undefined) throw new Refused(refuse.notFound('the head repository is gone'))
  if (headRepository.archived) throw new Refused(archivedRefusal)
  const protection = protectionOf(headRepository.protections, pull.head.branch)
  const repositories = { base: repository, head: headRepository }
  const isAllowedByPull = await allowsPushToHead(services, pull, repositories, updater)
  const access = isAllowedByPull ? 'write' : accessTo(headRepository, updater)
  if (!mayPush(protection, memberOf(headRepository, updater), access)) {
    throw new Refused(refuse.forbidden('you may not push to the head branch'))
  }
  if (protection?.requireSigned && services.config.signingKey === undefined) {
    throw new Refused(
      refuse.forbidden('the head branch accepts signed commits only, and this server has no signing key'),
    )
  }
  if (style === 'rebase' && (protection !== undefined || !repository.allowRebaseUpdate)) {
    throw new Refused(refuse.forbidden('style: an update by rebase is not allowed here'))
  }
}

/** Builds the new tip of the head branch. @throws Refused (conflict) */
async function buildUpdate(
  services: Services,
  context: CommandContext,
  pull: ActivePull,
  { updater, style }: Update,
  base: string,
): Promise<string> {
  const { head } = pull
  const dir = gitDirOf(services, head.repoId)
  const { signingKey } = services.config
  const committer = signatureOf(services, updater, context.at)
  if (style === 'rebase') {
    const tip = rebasedTip(await rebase(dir, { base, head: head.sha, committer, signingKey }))
    if (typeof tip === 'string') return tip
    throw new Refused(tip)
  }
  const tree = cleanTree(await mergeTrees(dir, head.sha, base))
  if (typeof tree !== 'string') throw new Refused(tree)
  // `pulls.update.3`.
  const message = `Merge branch '${pull.base.branch}' into ${head.branch}\n`
  const people = { author: committer, committer, signingKey }
  return commitTree(dir, { tree, parents: [head.sha, base], message, ...people })
}

/** Updates the head branch unless it includes the base, under the lock of merges. */
async function updatePull(
  services: Services,
  context: CommandContext,
  index: number,
  { updaterNow, ...wanted }: Omit<Update, 'updater'> & { updaterNow: () => Promise<AccountDocument> },
): Promise<void> {
  const { repository } = wanted
  await services.runExclusive(mergeLockKey(repository.id), async () => {
    const update = { ...wanted, updater: await updaterNow() }
    const state = await pulls.load(services, { repoId: repository.id, index })
    if (state.status === 'none') throw new Refused(refuse.notFound('pull request not found'))
    // `pulls.update.1`.
    if (state.status !== 'open')
      throw new Refused(refuse.unprocessable(`the pull request is ${state.status}`))
    await requireUpdatePermission(services, state, update)
    const { headTip, baseTip } = await gitTips(services, state)
    if (headTip === null || baseTip === null) throw new Refused(refuse.notFound('branch not found'))
    if (headTip !== state.head.sha) throw new Refused(headHasMoved)
    const { head, base } = state
    const dir = gitDirOf(services, head.repoId)
    if (await isAncestor(gitDirOf(services, base.repoId), baseTip, headTip)) return
    if (head.repoId !== base.repoId) await fetchObjects(dir, gitDirOf(services, base.repoId), baseTip)
    const tip = await buildUpdate(services, context, state, update, baseTip)

    const ref = `refs/heads/${head.branch}`
    await withRefLock(services, head.repoId, async (since) => {
      // A long rebase: permissions may have ended, or the branch been protected, since.
      await services.projector.current()
      await requireUpdatePermission(services, state, { ...wanted, updater: await updaterNow() })
      const moved = [{ ref, from: headTip, to: tip }]
      const outcome = await moveJournaled(services, context, head.repoId, 'update', moved, () =>
        recordAndMoveHeads(services, context, head.repoId, 'update', moved, since),
      )
      if (outcome !== 'moved') throw new Refused(headHasMoved)
    })
  })
}

export const updatePullRoutes: Routes = (services) => async (app) => {
  app.post(
    '/repos/:owner/:repo/pulls/:index/update',
    route('repository', {
      params: PullParams,
      querystring: Type.Object({
        style: Type.Optional(Type.String({ description: 'Update style: merge (default) or rebase' })),
      }),
      response: { 200: emptyAnswer('The head includes the base') },
    }),
    async (request, reply) => {
      const { repository } = await onRepository(services, request, 'read')
      signedIn(request)
      const { index } = await pullFor(services, repository.id, request.params.index)
      // A retried request finds the base in the head. If the base has moved, it updates again.
      const context = requestContext(request)
      const style = request.query.style === 'rebase' ? 'rebase' : 'merge'
      await updatePull(services, context, index, {
        repository,
        style,
        updaterNow: () => requesterNow(request),
      })
      await settled(services, context, reply)
      return reply.code(200).send()
    },
  )
}
