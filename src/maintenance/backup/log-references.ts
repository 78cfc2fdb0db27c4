/** Reads the references of the log: repositories with their refs, attached files, secrets. */
import { setImmediate as nextIteration } from 'node:timers/promises'
import { decode } from '../../events/codec.ts'
import type { DomainEvent } from '../../events/domain-events.ts'
import { withoutTexts } from '../../events/sealing/sealed-texts.ts'
import type { EventStore, Position, RecordedEvent } from '../../events/store/event-store.ts'

export interface NamedRepository {
  defaultBranch: string
  /** Object ids by full ref names: branches, tags and `refs/pull/<n>/head`. */
  refs: Map<string, string>
  /** The uuids of attached files. */
  attachments: Set<string>
  /** The ids of its large files (git LFS). */
  lfs: Set<string>
}

export interface LogReferences {
  /** The position of the last event. */
  position: Position
  events: number
  /** By id, without deleted repositories. */
  repositories: Map<number, NamedRepository>
  /** Ids of access tokens, without deleted ones. */
  tokens: Set<number>
  /** Configuration ids by webhook id. */
  webhookConfigs: Map<number, string>
  /** Password ids by user id, of users who have changed their password. */
  passwords: Map<number, string>
}

const EVENTS_PER_SLICE = 1000

/** Returns the references of an empty log. */
export const noReferences = (): LogReferences => ({
  position: 0,
  events: 0,
  repositories: new Map(),
  tokens: new Set(),
  webhookConfigs: new Map(),
  passwords: new Map(),
})

/** Adds the references of the log's next event. @throws UnreadableEvent */
export function addEvent(named: LogReferences, recorded: RecordedEvent): void {
  // Texts are sealed in a copy of the log, and hold no references.
  apply(named, decode(withoutTexts(recorded)))
  named.position = recorded.position
  named.events += 1
}

/** Reads the whole log. @throws UnreadableEvent, and the errors of the store */
export async function readLogReferences(
  log: Pick<EventStore, 'readAll'>,
  onEvent: (position: Position) => void = () => {},
): Promise<LogReferences> {
  const named = noReferences()
  for await (const recorded of log.readAll()) {
    addEvent(named, recorded)
    if (named.events % EVENTS_PER_SLICE !== 0) continue
    onEvent(recorded.position)
    await nextIteration()
  }
  return named
}

function apply(named: LogReferences, event: DomainEvent): void {
  const { repositories, tokens, webhookConfigs, passwords } = named
  switch (event.type) {
    case 'RepositoryCreated': {
      const { repoId, defaultBranch } = event.data
      repositories.set(repoId, { defaultBranch, refs: new Map(), attachments: new Set(), lfs: new Set() })
      return
    }
    case 'RepositoryEdited': {
      const repository = repositories.get(event.data.repoId)
      const { defaultBranch } = event.data.changes
      if (repository !== undefined && defaultBranch !== undefined) repository.defaultBranch = defaultBranch
      return
    }
    case 'RepositoryDeleted':
      repositories.delete(event.data.repoId)
      return
    case 'RefsUpdated': {
      const refs = repositories.get(event.data.repoId)?.refs
      for (const { ref, to } of event.data.refs) {
        if (to === null) refs?.delete(ref)
        else refs?.set(ref, to)
      }
      return
    }
    case 'PullRequestOpened': {
      const { repoId, index, head } = event.data
      repositories.get(repoId)?.refs.set(`refs/pull/${index}/head`, head.sha)
      return
    }
    case 'PullRequestHeadMoved': {
      const { repoId, index, to } = event.data
      repositories.get(repoId)?.refs.set(`refs/pull/${index}/head`, to)
      return
    }
    case 'AttachmentAdded':
    case 'IssueFileAdded':
      repositories.get(event.data.repoId)?.attachments.add(event.data.attachment.uuid)
      return
    case 'ReleaseAssetAdded':
      repositories.get(event.data.repoId)?.attachments.add(event.data.asset.uuid)
      return
    case 'AttachmentDeleted':
    case 'IssueFileDeleted':
    case 'ReleaseAssetDeleted':
      repositories.get(event.data.repoId)?.attachments.delete(event.data.uuid)
      return
    case 'TextsErased':
    case 'CommentsDeleted':
    case 'IssueDeleted':
      for (const uuid of event.data.files) repositories.get(event.data.repoId)?.attachments.delete(uuid)
      return
    case 'LfsObjectsAdded':
      for (const { oid } of event.data.objects) repositories.get(event.data.repoId)?.lfs.add(oid)
      return
    case 'TokenCreated':
      tokens.add(event.data.tokenId)
      return
    case 'TokenDeleted':
      tokens.delete(event.data.tokenId)
      return
    case 'WebhookCreated':
      webhookConfigs.set(event.data.id, event.data.configId)
      return
    case 'WebhookEdited': {
      const { configId } = event.data.changes
      if (configId !== undefined) webhookConfigs.set(event.data.id, configId)
      return
    }
    case 'WebhookDeleted':
      webhookConfigs.delete(event.data.id)
      return
    case 'PasswordChanged':
      passwords.set(event.data.user.id, event.data.passwordId)
      return
    case 'UserDeleted':
      passwords.delete(event.data.user.id)
      return
  }
}

/** Whether a log has an erasure of texts after a position. */
export async function hasErasureAfter(
  log: Pick<EventStore, 'readAll'>,
  position: Position,
): Promise<boolean> {
  for await (const { type } of log.readAll({ from: position })) if (type === 'TextsErased') return true
  return false
}
