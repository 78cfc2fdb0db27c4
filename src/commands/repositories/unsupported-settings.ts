/**
 * Rejects values of Gitea's `EditRepoOption` that this server does not support, by field: clients may rely on them.
 * Pure.
 */
import { type Static, Type } from 'typebox'

/** The only supported value of each flag. */
const FIXED = {
  has_issues: true,
  has_pull_requests: true,
  has_releases: true,
  has_wiki: false,
  has_projects: false,
  has_packages: false,
  has_actions: false,
  autodetect_manual_merge: false,
  ignore_whitespace_conflicts: false,
  enable_prune: false,
} as const

const flag = Type.Optional(Type.Boolean())
const word = Type.Optional(Type.String({ maxLength: 255 }))
const settings = Type.Optional(Type.Object({}))

export const UNSUPPORTED_SETTINGS = {
  has_issues: flag,
  has_pull_requests: flag,
  has_releases: flag,
  has_wiki: flag,
  has_projects: flag,
  has_packages: flag,
  has_actions: flag,
  autodetect_manual_merge: flag,
  ignore_whitespace_conflicts: flag,
  enable_prune: flag,
  mirror_interval: word,
  projects_mode: word,
  external_tracker: settings,
  external_wiki: settings,
  internal_tracker: Type.Optional(
    Type.Object({
      enable_time_tracker: flag,
      allow_only_contributors_to_track_time: flag,
      enable_issue_dependencies: flag,
    }),
  ),
}

const Option = Type.Object(UNSUPPORTED_SETTINGS)

/** Returns a problem for each unsupported value. */
export function unsupportedSettings(body: Static<typeof Option>): string[] {
  const problems: string[] = []
  for (const [name, fixed] of Object.entries(FIXED)) {
    const wanted: unknown = Reflect.get(body, name)
    if (wanted === !fixed) problems.push(`${name}: can only be ${fixed} here`)
  }
  const { mirror_interval, projects_mode, external_tracker, external_wiki, internal_tracker } = body
  if (mirror_interval) problems.push('mirror_interval: is not supported')
  if (projects_mode) problems.push('projects_mode: is not supported')
  if (external_tracker !== undefined) problems.push('external_tracker: is not supported')
  if (external_wiki !== undefined) problems.push('external_wiki: is not supported')
  if (internal_tracker?.enable_time_tracker === true) {
    problems.push('internal_tracker.enable_time_tracker: can only be false here')
  }
  if (internal_tracker?.enable_issue_dependencies === false) {
    problems.push('internal_tracker.enable_issue_dependencies: can only be true here')
  }
  return problems
}
