/** The evidence of a merge on the wire: the facts by which a pull request could be merged. */
import { type Static, Type } from 'typebox'
import { GRANTS } from '../../access/access.ts'
import type { BranchProtection } from '../../events/catalog/branches.ts'
import { COMMIT_STATES } from '../../events/catalog/statuses.ts'
import { CREDENTIALS } from '../../events/store/event-store.ts'
import { Nullable } from '../nullable.ts'

const EventWire = Type.Object(
  {
    stream: Type.String(),
    revision: Type.Integer(),
    hash: Nullable(Type.String()),
  },
  { title: 'EvidenceEvent', description: 'The recorded event that a fact is from' },
)

const PersonWire = Type.Object({ id: Type.Integer(), login: Type.String() }, { title: 'EvidencePerson' })

const CredentialWire = Nullable(Type.Enum([...CREDENTIALS, 'schedule']), {
  description: 'Kind of credential; `schedule`: the server merged for the user of the schedule',
})

const ReviewWire = Type.Object(
  {
    id: Type.Integer(),
    by: PersonWire,
    verdict: Type.Enum(['approved', 'rejected']),
    commit: Type.String({ description: 'The reviewed commit' }),
    at: Type.String(),
    official: Type.Boolean({ description: 'Whether it counts for branch protections' }),
    stale: Type.Boolean({ description: 'Whether the pull request had changed since the reviewed commit' }),
    dismissed: Type.Boolean(),
    dismissed_by: Nullable(PersonWire, {
      description: 'User who dismissed the review; null for the server, or a later review of the reviewer',
    }),
    dismissed_at: Nullable(Type.String()),
    dismissal: Nullable(EventWire),
    counted: Nullable(Type.Boolean(), {
      description: 'Whether the merge decision counted it as an approval; null: no approvals were required',
    }),
    event: EventWire,
  },
  { title: 'EvidenceReview' },
)

const CheckWire = Type.Object(
  {
    context: Type.String(),
    required: Type.Boolean(),
    state: Type.Enum([...COMMIT_STATES]),
    target_url: Type.String(),
    by: PersonWire,
    at: Type.String(),
    credential: CredentialWire,
    event: EventWire,
  },
  { title: 'EvidenceCheck' },
)

/** The facts that follow from events alone, so that they can be checked against these. */
export const EvidenceFacts = Type.Object(
  {
    number: Type.Integer(),
    opened_by: PersonWire,
    opened_at: Type.String(),
    opened: EventWire,
    base: Type.String(),
    head_commit: Type.String(),
    last_pusher: Nullable(PersonWire, {
      description:
        'The user who moved the head last, since it was opened; the author when the head never moved',
    }),
    merge: Type.Object({
      by: PersonWire,
      at: Type.String(),
      style: Type.String({ description: 'Merge style' }),
      commit: Type.String(),
      base_commit: Nullable(Type.String(), { description: 'The base branch before the merge' }),
      access: Nullable(Type.String()),
      through: Nullable(Type.Enum([...GRANTS]), { description: 'How the merger got the access' }),
      credential: CredentialWire,
      scheduled: Nullable(Type.Boolean()),
      sudo: Nullable(PersonWire, { description: 'The site admin who acted in the name of the merger' }),
      forced: Nullable(Type.Boolean()),
      bypassed: Nullable(Type.Array(Type.String()), {
        description: 'Reasons of the protection against the merge that did not stop it',
      }),
      decided: EventWire,
      event: EventWire,
      move: Nullable(
        Type.Object({
          cause: Type.String(),
          by: Nullable(PersonWire),
          at: Type.String(),
          credential: CredentialWire,
          event: EventWire,
        }),
        { description: 'The move of the base branch to the commit' },
      ),
    }),
    protection: Nullable(
      Type.Object({
        rule: Type.String(),
        settings: Nullable(Type.Unsafe<BranchProtection>({ type: 'object', additionalProperties: true }), {
          description: 'The whole rule, as recorded',
        }),
        changed_at: Nullable(Type.String()),
        changed_by: Nullable(PersonWire),
        event: Nullable(EventWire),
      }),
      { description: 'Protection of the base branch at the merge; null without one' },
    ),
    checks: Type.Object({
      required: Type.Boolean(),
      contexts: Type.Array(Type.String()),
      outcome: Nullable(Type.String()),
      statuses: Type.Array(CheckWire, {
        description: 'The last status of each context, for exactly the head',
      }),
    }),
    required_approvals: Type.Integer(),
    reviews: Type.Array(ReviewWire),
    schedule: Nullable(
      Type.Object({
        by: PersonWire,
        at: Type.String(),
        credential: CredentialWire,
        expected_head: Nullable(Type.String()),
        waits_for: Type.Array(Type.String(), { description: 'Open conditions when it was scheduled' }),
        event: EventWire,
      }),
    ),
    four_eyes: Nullable(Type.Boolean(), {
      description:
        'Whether a user other than the author and the last pusher merged it, or approved exactly the merged state',
    }),
    not_recorded: Type.Array(Type.String(), {
      description:
        'Facts that are null because the log does not have them: it is older, or another program wrote it',
    }),
  },
  { title: 'EvidenceFacts' },
)
export type EvidenceFacts = Static<typeof EvidenceFacts>

const CommitWire = Type.Object(
  {
    sha: Type.String(),
    author: Type.String(),
    author_email: Type.String(),
    committed_at: Type.String(),
    subject: Type.String(),
    signed: Type.Boolean(),
    verified: Type.Boolean({
      description: 'Whether the signature is good, by a key that the server trusts now',
    }),
  },
  { title: 'EvidenceCommit' },
)

/** The commits of a merge, as git has them when the answer is made. */
export const EvidenceCommits = Nullable(
  Type.Object({
    total: Type.Integer(),
    list: Type.Array(CommitWire, {
      description: 'Commits, the newest first; a merge commit is first',
    }),
  }),
  { description: 'Merged commits as git has them now; null when git no longer has them' },
)
export type EvidenceCommits = Static<typeof EvidenceCommits>

export const EvidenceWire = Type.Object(
  {
    ...EvidenceFacts.properties,
    commits: EvidenceCommits,
    hidden: Type.Array(Type.String(), {
      description: 'Facts that are null because only admins of the repository see them',
    }),
  },
  { title: 'Evidence' },
)

/** Facts for admins of the repository: settings that name people and teams, permissions and credentials. */
const HIDDEN = [
  'protection.settings',
  'protection.changed_at',
  'protection.changed_by',
  'protection.event',
  'merge.access',
  'merge.through',
  'merge.credential',
  'merge.move.credential',
  'checks.statuses.credential',
  'schedule.credential',
] as const

/** Returns the facts for readers of the repository who are not its admins, and the names of the hidden ones. */
export function readersEvidence(facts: EvidenceFacts): { facts: EvidenceFacts; hidden: string[] } {
  const { merge, protection, checks, schedule } = facts
  return {
    facts: {
      ...facts,
      merge: {
        ...merge,
        access: null,
        through: null,
        credential: null,
        move: merge.move && { ...merge.move, credential: null },
      },
      protection: protection && {
        rule: protection.rule,
        settings: null,
        changed_at: null,
        changed_by: null,
        event: null,
      },
      checks: { ...checks, statuses: checks.statuses.map((status) => ({ ...status, credential: null })) },
      schedule: schedule && { ...schedule, credential: null },
    },
    hidden: [...HIDDEN],
  }
}
