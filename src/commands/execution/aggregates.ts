/** The aggregates by kind: decider and stream of each. */
import { hash } from 'node:crypto'
import type { IssueRef } from '../../events/catalog/parts.ts'
import type { CheckEvent } from '../../events/catalog/statuses.ts'
import type { DomainEvent } from '../../events/domain-events.ts'
import * as streams from '../../events/streams.ts'
import type { Services, WriteServices } from '../../services/services.ts'
import { issueDecider } from '../issues/issue.decider.ts'
import { gpgKeyDecider } from '../keys/gpg-key.decider.ts'
import { deployKeyDecider, sshKeyDecider } from '../keys/keys.decider.ts'
import { labelDecider } from '../labels/label.decider.ts'
import { lockDecider } from '../lfs/lock.decider.ts'
import { milestoneDecider } from '../milestones/milestone.decider.ts'
import { subscriptionDecider } from '../notifications/subscription.decider.ts'
import { organizationDecider } from '../organizations/organization.decider.ts'
import { pullDecider } from '../pull-requests/pull-request.decider.ts'
import { releaseDecider } from '../releases/release.decider.ts'
import { followDecider } from '../repositories/follows/follow.decider.ts'
import { repositoryDecider } from '../repositories/repository.decider.ts'
import { checksDecider } from '../statuses/checks.decider.ts'
import { userDecider } from '../users/user.decider.ts'
import { webhookDecider } from '../webhooks/webhook.decider.ts'
import type { CommandContext } from './command-context.ts'
import type { Decider } from './decider.ts'
import { type Command, execute } from './execute.ts'
import { load, loadAt } from './load.ts'

/** Creates the functions for the aggregates of one kind. `streamOf` returns the stream of one. */
function aggregates<Id, State, Event extends DomainEvent>(
  decider: Decider<State, Event>,
  streamOf: (id: Id) => string,
) {
  return {
    /** Returns the state of an aggregate, from the log. */
    async load(services: WriteServices, id: Id): Promise<State> {
      return (await load(services, streamOf(id), decider)).state
    },
    /** Returns the state with the revision of its last event. */
    loaded(services: WriteServices, id: Id) {
      return load(services, streamOf(id), decider)
    },
    /** Returns the state of an aggregate after the event of a revision. */
    loadAt(services: Pick<Services, 'events'>, id: Id, revision: number): Promise<State> {
      return loadAt(services, streamOf(id), decider, revision)
    },
    /** Carries out a command on one aggregate: see `execute`. */
    change(
      services: WriteServices,
      context: CommandContext,
      id: Id,
      step: string,
      decide: Command<State, Event>['decide'],
    ): Promise<State> {
      return execute(services, context, { stream: streamOf(id), step, decider, decide })
    },
    /** Returns the state now if an earlier attempt of the request carried out this step; otherwise undefined. */
    async ifDone(
      services: WriteServices,
      context: CommandContext,
      id: Id,
      step: string,
    ): Promise<State | undefined> {
      if (context.retry === undefined) return undefined
      let isDone = true
      const decide = () => {
        isDone = false
        return []
      }
      const state = await execute(services, context, { stream: streamOf(id), step, decider, decide })
      return isDone ? state : undefined
    },
  }
}

export const users = aggregates(userDecider, streams.userStream)
export const organizations = aggregates(organizationDecider, streams.organizationStream)
export const repositories = aggregates(repositoryDecider, streams.repositoryStream)
export const labels = aggregates(labelDecider, streams.labelStream)
export const milestones = aggregates(milestoneDecider, streams.milestoneStream)
export const releases = aggregates(releaseDecider, streams.releaseStream)
export const checks = aggregates(checksDecider, (of: Pick<CheckEvent['data'], 'repoId' | 'sha'>) =>
  streams.checksStream(of.repoId, of.sha),
)
export const webhooks = aggregates(webhookDecider, streams.webhookStream)
export const issues = aggregates(issueDecider, (of: IssueRef) => streams.issueStream(of.repoId, of.index))
/** The lock of a path in a repository. */
export const lfsLocks = aggregates(lockDecider, ({ repoId, path }: { repoId: number; path: string }) =>
  streams.lfsLockStream(repoId, hash('sha256', path, 'hex')),
)
export const pulls = aggregates(pullDecider, (of: IssueRef) => streams.pullStream(of.repoId, of.index))
export const follows = aggregates(followDecider, (of: { repoId: number; userId: number }) =>
  streams.followStream(of.repoId, of.userId),
)
export const sshKeys = aggregates(sshKeyDecider, streams.sshKeyStream)
export const deployKeys = aggregates(deployKeyDecider, (of: { repoId: number; digest: string }) =>
  streams.deployKeyStream(of.repoId, of.digest),
)
export const gpgKeys = aggregates(gpgKeyDecider, streams.gpgKeyStream)
export const subscriptions = aggregates(subscriptionDecider, (of: IssueRef & { userId: number }) =>
  streams.subscriptionStream(of.repoId, of.index, of.userId),
)
