/** The read models of which a moment has documents of its own. */
import { READ_MODELS } from '../views/views.ts'

/** Those that the events of one repository determine. */
const OF_REPOSITORY: ReadonlySet<string> = new Set([
  'repositories',
  'branches',
  'tags',
  'other_refs',
  'tag_protections',
  'pulls',
  'merged_commits',
  'issues',
  'issue_files',
  'labels',
  'milestones',
  'commit_statuses',
  'commit_checks',
  'comments',
  'reviews',
  'review_comments',
  'releases',
  'reactions',
  'follows',
  'deploy_keys',
  'references',
])

/** Words, which only searches need: to index them takes as long as all other documents together. */
const OF_TEXTS: ReadonlySet<string> = new Set(['issue_texts'])

/** Those of organizations and their members. */
const OF_ACCOUNTS: ReadonlySet<string> = new Set(['accounts', 'teams'])

export type ModelGroup = 'repository' | 'texts' | 'accounts'

export const MOMENT_MODELS = {
  repository: READ_MODELS.filter(({ name }) => OF_REPOSITORY.has(name)),
  texts: READ_MODELS.filter(({ name }) => OF_TEXTS.has(name)),
  accounts: READ_MODELS.filter(({ name }) => OF_ACCOUNTS.has(name)),
} as const satisfies Record<ModelGroup, unknown>
