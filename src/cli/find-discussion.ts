/** Finds the issue or pull request that OWNER/REPO#N names on the command line. */
import { InvalidArgumentError } from 'commander'
import { decode } from '../events/codec.ts'
import type { EventStore } from '../events/store/event-store.ts'
import { claimKeys, claimStream, discussionStream } from '../events/streams.ts'
import { pathNumber } from '../http/requests/path-number.ts'
import { CommandFailed } from './explain.ts'

export interface DiscussionName {
  owner: string
  repo: string
  index: number
}

export interface Discussion {
  repoId: number
  index: number
  isPull: boolean
}

/** The argument's name in the help. */
export const DISCUSSION = '<owner/repo#number>'

/** Parses OWNER/REPO#N. @throws InvalidArgumentError */
export function discussionName(text: string): DiscussionName {
  const [, owner = '', repo = '', number = ''] = /^([^/#\s]+)\/([^/#\s]+)#(\d+)$/.exec(text) ?? []
  const index = pathNumber(number)
  if (index === undefined) throw new InvalidArgumentError('It must be OWNER/REPO#NUMBER, as alice/app#1.')
  return { owner, repo, index }
}

/**
 * Finds the issue or pull request in the log alone, by the claim streams of its names.
 * @throws CommandFailed when it does not exist
 */
export async function findDiscussion(
  events: EventStore,
  { owner, repo, index }: DiscussionName,
): Promise<Discussion> {
  const account = await holderOf(events, claimKeys.login(owner))
  if (account === undefined) throw new CommandFailed(`there is no user or organization "${owner}"`)
  const repoId = await holderOf(events, claimKeys.repository(account, repo))
  if (repoId === undefined) throw new CommandFailed(`there is no repository "${owner}/${repo}"`)
  for (const isPull of [true, false]) {
    const discussion = { repoId, index, isPull }
    for await (const _ of events.readStream(discussionStream(discussion), { maxCount: 1 })) return discussion
  }
  throw new CommandFailed(`there is no issue or pull request "${owner}/${repo}#${index}"`)
}

/** The id of the account or repository that has a name. */
async function holderOf(events: EventStore, key: string): Promise<number | undefined> {
  for await (const recorded of events.readStream(claimStream(key), { direction: 'backwards', maxCount: 1 })) {
    const event = decode(recorded)
    if (event.type !== 'ClaimTaken') return undefined
    return pathNumber(event.data.holder.replace(/^.*-/, ''))
  }
  return undefined
}
