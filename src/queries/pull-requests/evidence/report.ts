/** The report of all merges of a period, for change-management reviews: `evidence.5`. */
import { isRequiredContext } from '../../../access/protection-rules.ts'
import type { EvidenceFacts } from '../../../api/pull-requests/evidence.ts'
import { csvLine } from '../../../http/answers/csv.ts'

/** A merge in the report. Null: the log does not have the fact, or the requester may not see it. */
interface ReportRow {
  pull_request: number
  title: string
  author: string
  merged_by: string
  merged_at: string
  base: string
  head_commit: string
  merge_commit: string
  four_eyes: boolean | null
  /** Logins of the users whose official approvals stood. */
  approvals: string[]
  /** Each required context with its state; `missing` when nothing was posted. */
  required_checks: { context: string; state: string }[]
  bypassed: string[] | null
  forced: boolean | null
  scheduled: boolean | null
  /** From opening to merge. */
  seconds_to_merge: number
  protection_rule: string | null
  /** Facts that the log does not have. With `protection`, the branch was protected by an unknown rule. */
  not_recorded: readonly string[]
  evidence_url: string
}

export function reportRow(facts: EvidenceFacts, title: string, evidenceUrl: string): ReportRow {
  const { merge, reviews, checks, protection } = facts
  const approving = reviews.filter(
    ({ verdict, official, dismissed }) => verdict === 'approved' && official && !dismissed,
  )
  return {
    pull_request: facts.number,
    title,
    author: facts.opened_by.login,
    merged_by: merge.by.login,
    merged_at: merge.at,
    base: facts.base,
    head_commit: facts.head_commit,
    merge_commit: merge.commit,
    four_eyes: facts.four_eyes,
    approvals: approving.map(({ by }) => by.login),
    required_checks: requiredChecks(checks),
    bypassed: merge.bypassed,
    forced: merge.forced,
    scheduled: merge.scheduled,
    seconds_to_merge: Math.max(0, Math.round((Date.parse(merge.at) - Date.parse(facts.opened_at)) / 1000)),
    protection_rule: protection?.rule ?? null,
    not_recorded: facts.not_recorded,
    evidence_url: evidenceUrl,
  }
}

function requiredChecks({
  required,
  contexts,
  statuses,
}: EvidenceFacts['checks']): ReportRow['required_checks'] {
  if (!required) return []
  const found = statuses.filter((status) => status.required)
  const missing = contexts.filter((one) => !found.some(({ context }) => isRequiredContext([one], context)))
  return [
    ...found.map(({ context, state }) => ({ context, state })),
    ...missing.map((context) => ({ context, state: 'missing' })),
  ]
}

const ruleUnknown = ({ not_recorded }: ReportRow) =>
  not_recorded.includes('protection') ? 'not recorded' : undefined

const COLUMNS = {
  'pull request': ({ pull_request }) => pull_request,
  title: ({ title }) => title,
  author: ({ author }) => author,
  'merged by': ({ merged_by }) => merged_by,
  'merged at': ({ merged_at }) => merged_at,
  base: ({ base }) => base,
  'head commit': ({ head_commit }) => head_commit,
  'merge commit': ({ merge_commit }) => merge_commit,
  'four eyes': ({ four_eyes }) => wordOf(four_eyes),
  approvals: ({ approvals }) => approvals.join('; '),
  'required checks': (row) =>
    ruleUnknown(row) ?? row.required_checks.map(({ context, state }) => `${context}: ${state}`).join('; '),
  bypassed: ({ bypassed }) => bypassed?.join('; ') ?? 'not recorded',
  forced: ({ forced }) => wordOf(forced),
  scheduled: ({ scheduled }) => wordOf(scheduled),
  'seconds from opening to merge': ({ seconds_to_merge }) => seconds_to_merge,
  'protection rule': (row) => ruleUnknown(row) ?? row.protection_rule,
  evidence: ({ evidence_url }) => evidence_url,
} satisfies Readonly<Record<string, (row: ReportRow) => string | number | null>>

const wordOf = (flag: boolean | null) => (flag === null ? 'not recorded' : flag ? 'yes' : 'no')

export const REPORT_HEADER = csvLine(Object.keys(COLUMNS))

export const reportLine = (row: ReportRow): string =>
  csvLine(Object.values(COLUMNS).map((column) => column(row)))
