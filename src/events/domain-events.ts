/**
 * The catalogue of all event types. Each is declared once, by the schema of its data, in the file of its feature in
 * `catalog/`. An event's data is complete: a reader needs no other table to understand it. A type never changes its
 * meaning. A new shape of the data gets a schema number and an upcaster in `codec.ts`.
 */
import type { TSchema } from 'typebox'
import { type GitEvent, gitEvents } from './catalog/branches.ts'
import { type CommentEvent, type CommentsEvent, commentEvents, commentsEvents } from './catalog/comments.ts'
import { discussionEvents, type IssueEvent, issueEvents, type PinEvent, pinEvents } from './catalog/issues.ts'
import {
  type DeployKeyEvent,
  deployKeyEvents,
  type GpgKeyEvent,
  gpgKeyEvents,
  type SshKeyEvent,
  sshKeyEvents,
} from './catalog/keys.ts'
import { type LabelEvent, labelEvents } from './catalog/labels.ts'
import { type LfsEvent, lfsEvents } from './catalog/lfs.ts'
import { type LogEvent, logEvents } from './catalog/log.ts'
import { type MilestoneEvent, milestoneEvents } from './catalog/milestones.ts'
import {
  type FollowEvent,
  followEvents,
  type NotificationEvent,
  notificationEvents,
  type ReadEvent,
  readEvents,
  type SubscriptionEvent,
  subscriptionEvents,
} from './catalog/notifications.ts'
import {
  type AbandonedEvent,
  abandonedEvents,
  type ClaimEvent,
  claimEvents,
  type SequenceEvent,
  sequenceEvents,
} from './catalog/numbers.ts'
import {
  type OrganizationEvent,
  organizationEvents,
  type TeamEvent,
  teamEvents,
} from './catalog/organizations.ts'
import { type PullRequestEvent, pullRequestEvents } from './catalog/pull-requests.ts'
import { type ReactionEvent, reactionEvents } from './catalog/reactions.ts'
import { type ReferenceEvent, referenceEvents } from './catalog/references.ts'
import { type ReleaseEvent, releaseEvents } from './catalog/releases.ts'
import {
  type ListingEvent,
  listingEvents,
  type RepositoryEvent,
  repositoryEvents,
  type TransferEvent,
  transferEvents,
} from './catalog/repositories.ts'
import { reviewEvents } from './catalog/reviews.ts'
import { type CheckEvent, checkEvents } from './catalog/statuses.ts'
import { type UpgradeEvent, upgradeEvents } from './catalog/upgrade.ts'
import { type UserEvent, userEvents } from './catalog/users.ts'
import { type WebhookEvent, webhookEvents } from './catalog/webhooks.ts'
import type { RecordedEvent } from './store/event-store.ts'

/** The schema of the data of each event type. */
export const CATALOGUE = {
  ...userEvents,
  ...organizationEvents,
  ...teamEvents,
  ...repositoryEvents,
  ...listingEvents,
  ...transferEvents,
  ...labelEvents,
  ...milestoneEvents,
  ...checkEvents,
  ...gitEvents,
  ...issueEvents,
  ...discussionEvents,
  ...pullRequestEvents,
  ...reviewEvents,
  ...commentEvents,
  ...commentsEvents,
  ...pinEvents,
  ...referenceEvents,
  ...releaseEvents,
  ...reactionEvents,
  ...followEvents,
  ...subscriptionEvents,
  ...notificationEvents,
  ...readEvents,
  ...sshKeyEvents,
  ...deployKeyEvents,
  ...gpgKeyEvents,
  ...upgradeEvents,
  ...lfsEvents,
  ...webhookEvents,
  ...sequenceEvents,
  ...claimEvents,
  ...abandonedEvents,
  ...logEvents,
} satisfies Record<DomainEvent['type'], TSchema>

export type DomainEvent =
  | UserEvent
  | OrganizationEvent
  | TeamEvent
  | RepositoryEvent
  | ListingEvent
  | TransferEvent
  | LabelEvent
  | MilestoneEvent
  | CheckEvent
  | GitEvent
  | IssueEvent
  | PullRequestEvent
  | CommentEvent
  | CommentsEvent
  | PinEvent
  | ReferenceEvent
  | ReleaseEvent
  | ReactionEvent
  | FollowEvent
  | SubscriptionEvent
  | NotificationEvent
  | ReadEvent
  | SshKeyEvent
  | DeployKeyEvent
  | GpgKeyEvent
  | UpgradeEvent
  | LfsEvent
  | WebhookEvent
  | SequenceEvent
  | ClaimEvent
  | AbandonedEvent
  | LogEvent

/** Fields that the log adds to an event. */
export type Envelope = Omit<RecordedEvent, 'type' | 'data'>
/** A domain event that was read from the log. */
export type Recorded<E> = E & Envelope
