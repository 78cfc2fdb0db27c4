/**
 * A small world for property tests: a log in memory behind the real deciders. Every event passes through JSON and the
 * codec, as if read from the log. All states and events are frozen, so that in-place changes throw.
 */
import { commentDecider } from '../../src/commands/comments/comment.decider.ts'
import type { Decider, Decision } from '../../src/commands/execution/decider.ts'
import { wholeIssueDecider } from '../../src/commands/issues/deletion.decider.ts'
import { issueDecider } from '../../src/commands/issues/issue.decider.ts'
import { gpgKeyDecider } from '../../src/commands/keys/gpg-key.decider.ts'
import { deployKeyDecider, sshKeyDecider } from '../../src/commands/keys/keys.decider.ts'
import { labelDecider } from '../../src/commands/labels/label.decider.ts'
import { lockDecider } from '../../src/commands/lfs/lock.decider.ts'
import { milestoneDecider } from '../../src/commands/milestones/milestone.decider.ts'
import { subscriptionDecider } from '../../src/commands/notifications/subscription.decider.ts'
import { organizationDecider } from '../../src/commands/organizations/organization.decider.ts'
import { pullDecider } from '../../src/commands/pull-requests/pull-request.decider.ts'
import { type ReactionTarget, reactionsDecider } from '../../src/commands/reactions/reactions.decider.ts'
import { releaseDecider } from '../../src/commands/releases/release.decider.ts'
import { followDecider } from '../../src/commands/repositories/follows/follow.decider.ts'
import { repositoryDecider } from '../../src/commands/repositories/repository.decider.ts'
import { checksDecider } from '../../src/commands/statuses/checks.decider.ts'
import { chainDecider } from '../../src/commands/upgrade/chain.decider.ts'
import { userDecider } from '../../src/commands/users/user.decider.ts'
import { webhookDecider } from '../../src/commands/webhooks/webhook.decider.ts'
import { isRefusal } from '../../src/errors/refusal.ts'
import type { AccountRef, IssueRef } from '../../src/events/catalog/parts.ts'
import { decode, schemaOf } from '../../src/events/codec.ts'
import type { DomainEvent, Recorded } from '../../src/events/domain-events.ts'
import * as streams from '../../src/events/streams.ts'

/**
 * The seed is fixed, so that a run repeats. `PROPERTY_SEED` tries another one and `PROPERTY_RUNS` another number of
 * runs. A failure prints its seed.
 */
export const SETTINGS = {
  seed: Number(process.env.PROPERTY_SEED ?? 15),
  numRuns: Number(process.env.PROPERTY_RUNS ?? 40),
}

/** A command that was accepted, and changed something. */
export interface Step<State> {
  stream: string
  by: AccountRef
  before: State
  after: State
  events: readonly Recorded<DomainEvent>[]
  /** The types of events that the same command would append again. */
  again: readonly string[]
}

/** An issue has an odd number here, a pull request an even one. */
export const isPull = ({ index }: IssueRef) => index % 2 === 0

const discussionStream = (ref: IssueRef) =>
  streams.discussionStream({ repoId: ref.repoId, index: ref.index, isPull: isPull(ref) })

/** Freezes a value with all that it holds. */
export function frozen<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value
  for (const part of value instanceof Map ? value.values() : Object.values(value)) frozen(part)
  return Object.freeze(value)
}

/** A world in which nothing exists. */
export function emptyWorld() {
  const log: Recorded<DomainEvent>[] = []
  const lengths = new Map<string, number>()

  /** Appends an event, one second after the one before. */
  function record(stream: string, by: AccountRef, { type, data }: DomainEvent): Recorded<DomainEvent> {
    const revision = lengths.get(stream) ?? 0
    lengths.set(stream, revision + 1)
    const position = log.length + 1
    const at = new Date(Date.UTC(2026, 0, 1, 0, 0, position)).toISOString()
    const metadata = { actor: by, at, correlationId: 'c', causationId: 'c', schema: schemaOf(type) }
    const written = JSON.stringify({ id: `${position}`, stream, revision, position, type, data, metadata })
    const event = frozen(decode(JSON.parse(written)))
    log.push(event)
    return event
  }

  /** The aggregates of one kind, and all changes of them. */
  function aggregates<Id, State, Event extends DomainEvent>(
    streamOf: (id: Id) => string,
    deciderOf: (id: Id) => Decider<State, Event>,
    keyOf = streamOf,
  ) {
    const states = new Map<string, State>()
    const steps: Step<State>[] = []
    const now = (id: Id) => states.get(keyOf(id)) ?? deciderOf(id).initialState
    return {
      steps,
      now,
      /** The state from the log alone, as `load` folds it. */
      loaded: (id: Id): State =>
        log
          .filter(({ stream }) => stream === streamOf(id))
          .reduce<State>((state, event) => {
            const decider = deciderOf(id)
            return decider.handles(event) ? decider.evolve(state, event) : state
          }, deciderOf(id).initialState),
      /** Copies another aggregate's events into the stream. */
      follow(id: Id): void {
        states.set(keyOf(id), frozen(this.loaded(id)))
      },
      /** Carries out a command. A refusal changes nothing. */
      change(id: Id, by: AccountRef, decide: (state: State) => Decision<Event>): void {
        const stream = streamOf(id)
        const { evolve } = deciderOf(id)
        const before = now(id)
        const decision = decide(before)
        if (isRefusal(decision) || decision.length === 0) return
        const after = frozen(decision.reduce((state, event) => evolve(state, frozen(event)), before))
        states.set(keyOf(id), after)
        const repeated = decide(after)
        const again = isRefusal(repeated) ? [] : repeated.map(({ type }) => type)
        const events = decision.map((event) => record(stream, by, event))
        steps.push({ stream, by, before, after, events, again })
      },
    }
  }

  return {
    log,
    record,
    users: aggregates(streams.userStream, () => userDecider),
    organizations: aggregates(streams.organizationStream, () => organizationDecider),
    repositories: aggregates(streams.repositoryStream, () => repositoryDecider),
    labels: aggregates(streams.labelStream, () => labelDecider),
    milestones: aggregates(streams.milestoneStream, () => milestoneDecider),
    webhooks: aggregates(streams.webhookStream, () => webhookDecider),
    releases: aggregates(streams.releaseStream, () => releaseDecider),
    lfsLocks: aggregates(
      (of: { repoId: number; digest: string }) => streams.lfsLockStream(of.repoId, of.digest),
      () => lockDecider,
    ),
    checks: aggregates(
      (of: { repoId: number; sha: string }) => streams.checksStream(of.repoId, of.sha),
      () => checksDecider,
    ),
    issues: aggregates(
      (of: IssueRef) => streams.issueStream(of.repoId, of.index),
      () => issueDecider,
    ),
    pulls: aggregates(
      (of: IssueRef) => streams.pullStream(of.repoId, of.index),
      () => pullDecider,
    ),
    wholeIssues: aggregates(
      discussionStream,
      () => wholeIssueDecider,
      (ref: IssueRef) => `whole ${discussionStream(ref)}`,
    ),
    comments: aggregates(
      (of: IssueRef & { commentId: number }) => discussionStream(of),
      ({ commentId }) => commentDecider(commentId),
      ({ commentId }) => `${commentId}`,
    ),
    reactions: aggregates(
      (of: ReactionTarget) => discussionStream(of),
      ({ commentId }) => reactionsDecider(commentId),
      ({ repoId, index, commentId }) => `${repoId}.${index} ${commentId}`,
    ),
    follows: aggregates(
      (of: { repoId: number; userId: number }) => streams.followStream(of.repoId, of.userId),
      () => followDecider,
    ),
    gpgKeys: aggregates(streams.gpgKeyStream, () => gpgKeyDecider),
    sshKeys: aggregates(streams.sshKeyStream, () => sshKeyDecider),
    deployKeys: aggregates(
      (of: { repoId: number; digest: string }) => streams.deployKeyStream(of.repoId, of.digest),
      () => deployKeyDecider,
    ),
    subscriptions: aggregates(
      (of: IssueRef & { userId: number }) => streams.subscriptionStream(of.repoId, of.index, of.userId),
      () => subscriptionDecider,
    ),
    chain: aggregates(
      (_: 'chain') => streams.UPGRADE_STREAM,
      () => chainDecider,
    ),
  }
}

export type World = ReturnType<typeof emptyWorld>
