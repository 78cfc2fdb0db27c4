/** Changes a repository: `PATCH /repos/{owner}/{repo}`. */
import { type Static, Type } from 'typebox'
import { onRepository } from '../../access/repository-access.ts'
import { RepositoryParams, RepositoryWire, repositoryPage } from '../../api/repositories/repositories.ts'
import { signedIn } from '../../auth/requester.ts'
import { type Routes, route } from '../../auth/routes.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import { MERGE_STYLES, type MergeStyle } from '../../events/catalog/repositories.ts'
import { resolveRef } from '../../git/refs/refs.ts'
import { setDefaultBranch } from '../../git/repository/repository.ts'
import { notFoundIn } from '../../projections/views/view.ts'
import { gitDirOf, type Services } from '../../services/services.ts'
import { commandContext, settled } from '../execution/request-context.ts'
import { withRefLock } from '../git/ref-lock.ts'
import { mayPublishFork } from './creation/publish-fork.ts'
import { moveRepository } from './move.ts'
import { ifStillOwnedBy } from './ownership/same-owner.ts'
import { decideEdit, type RepositoryEdit, type RepositoryState } from './repository.decider.ts'
import { requireRepositoryName } from './repository-name.ts'
import { UNSUPPORTED_SETTINGS, unsupportedSettings } from './unsupported-settings.ts'

const EditRepoOption = Type.Object(
  {
    name: Type.Optional(Type.String()),
    description: Type.Optional(Type.String({ maxLength: 2048 })),
    website: Type.Optional(Type.String({ maxLength: 1024 })),
    private: Type.Optional(Type.Boolean()),
    default_branch: Type.Optional(Type.String()),
    allow_merge_commits: Type.Optional(Type.Boolean()),
    allow_rebase: Type.Optional(Type.Boolean()),
    allow_rebase_explicit: Type.Optional(Type.Boolean()),
    allow_squash_merge: Type.Optional(Type.Boolean()),
    allow_fast_forward_only_merge: Type.Optional(Type.Boolean()),
    allow_manual_merge: Type.Optional(Type.Boolean()),
    default_merge_style: Type.Optional(Type.String()),
    allow_rebase_update: Type.Optional(Type.Boolean()),
    default_delete_branch_after_merge: Type.Optional(Type.Boolean()),
    default_allow_maintainer_edit: Type.Optional(Type.Boolean()),
    archived: Type.Optional(Type.Boolean()),
    template: Type.Optional(Type.Boolean()),
    ...UNSUPPORTED_SETTINGS,
  },
  { title: 'EditRepoOption' },
)

/** Wire field of each merge style. */
const STYLE_FIELDS = {
  merge: 'allow_merge_commits',
  rebase: 'allow_rebase',
  'rebase-merge': 'allow_rebase_explicit',
  squash: 'allow_squash_merge',
  'fast-forward-only': 'allow_fast_forward_only_merge',
  'manually-merged': 'allow_manual_merge',
} as const satisfies Record<MergeStyle, keyof Static<typeof EditRepoOption>>

/** Parses the changes in a request. @throws Refused (unprocessable) */
function editOf(body: Static<typeof EditRepoOption>): RepositoryEdit {
  const problems = unsupportedSettings(body)
  if (problems.length > 0) throw new Refused(refuse.unprocessable(problems.join('; '), problems))
  const edit: RepositoryEdit = {}
  if (body.name !== undefined) edit.name = requireRepositoryName(body.name)
  if (body.description !== undefined) edit.description = body.description
  if (body.website !== undefined) edit.website = body.website
  if (body.private !== undefined) edit.private = body.private
  if (body.default_branch) edit.defaultBranch = body.default_branch
  if (body.archived !== undefined) edit.archived = body.archived
  if (body.template !== undefined) edit.template = body.template
  if (body.allow_rebase_update !== undefined) edit.allowRebaseUpdate = body.allow_rebase_update
  if (body.default_delete_branch_after_merge !== undefined) {
    edit.deleteBranchAfterMerge = body.default_delete_branch_after_merge
  }
  if (body.default_allow_maintainer_edit !== undefined) {
    edit.defaultMaintainerEdit = body.default_allow_maintainer_edit
  }
  if (body.default_merge_style !== undefined) {
    const style = MERGE_STYLES.find((known) => known === body.default_merge_style)
    if (style === undefined) {
      const problem = `default_merge_style: must be one of ${MERGE_STYLES.join(', ')}`
      throw new Refused(refuse.unprocessable(problem, [problem]))
    }
    edit.defaultMergeStyle = style
  }
  const allow: NonNullable<RepositoryEdit['allow']> = {}
  for (const style of MERGE_STYLES) {
    const allowed = body[STYLE_FIELDS[style]]
    if (allowed !== undefined) allow[style] = allowed
  }
  return { ...edit, allow }
}

/**
 * Changes the default branch, under the ref lock, so that it is not deleted meanwhile. @throws Refused (unprocessable)
 */
async function withDefaultBranch(
  services: Services,
  repoId: number,
  branch: string,
  change: () => Promise<RepositoryState>,
): Promise<void> {
  const dir = gitDirOf(services, repoId)
  await withRefLock(services, repoId, async () => {
    if ((await resolveRef(dir, `refs/heads/${branch}`)) === null) {
      throw new Refused(refuse.unprocessable('default_branch: the branch does not exist'))
    }
    const after = await change()
    // Without a change, too: an earlier request may have been interrupted here.
    if (after.status === 'active') await setDefaultBranch(dir, after.settings.defaultBranch)
  })
}

export const editRepositoryRoutes: Routes = (services) => async (app) => {
  const { views } = services
  app.patch(
    '/repos/:owner/:repo',
    route('repository', {
      params: RepositoryParams,
      body: EditRepoOption,
      response: { 200: RepositoryWire },
    }),
    async (request, reply) => {
      const { repository } = await onRepository(services, request, 'admin')
      const requester = signedIn(request)
      const wanted = editOf(request.body)
      const context = commandContext(request)
      const { defaultBranch } = wanted
      const mayPublish = wanted.private !== false || (await mayPublishFork(services, repository, requester))
      const decide = ifStillOwnedBy(repository, (state) => decideEdit(state, wanted, mayPublish))
      const change = () => moveRepository(services, context, repository.id, 'edit', decide)
      if (defaultBranch === undefined) await change()
      else await withDefaultBranch(services, repository.id, defaultBranch, change)
      await settled(services, context, reply)
      const edited = await views.repositories.get(`${repository.id}`)
      if (edited === undefined) throw notFoundIn(views.repositories, 'repository not found')
      return repositoryPage(services, edited, 'admin', request.requester)
    },
  )
}
