/** The events of one issue. It has its own words; some issues have a comment, some are closed. Pure. */

import type { LabelRef } from '../../src/events/catalog/labels.ts'
import type { MilestoneRef } from '../../src/events/catalog/milestones.ts'
import type { AccountRef, IssueRef } from '../../src/events/catalog/parts.ts'
import type { DomainEvent } from '../../src/events/domain-events.ts'

/** The word is in the titles of the marked issues, and in no other text. */
export const RARE_WORD = 'quokka'

/** Labels that the issues use cyclically. */
export const LABELS = [
  { name: 'bug', color: 'ee0701' },
  { name: 'feature', color: '84b6eb' },
  { name: 'documentation', color: '0075ca' },
  { name: 'question', color: 'cc317c' },
  { name: 'help wanted', color: '128a0c' },
] as const
export const MILESTONES = ['1.0', '1.1', '2.0'] as const

const WORDS =
  `account answer archive author backup branch browser buffer build button cache cancel certificate
 chart checkout client clock cluster column comment commit compiler connection console container cookie crash
 cursor dashboard database deadline delete deploy desktop device diff directory disk document download driver
 editor email empty encoding endpoint error event export failure feature fetch field file filter folder font
 footer fork form format frame gateway graph group header heading history hook host icon image import index
 input install issue keyboard label language latency layout library limit line link list locale lock login
 lookup mailbox memory menu merge message migration milestone mirror module monitor mouse network notice
 number offline offset option order owner package page panel parser password patch path pattern payload
 performance permission pipeline plugin pointer policy pool port prefix preview process profile progress
 project prompt proxy push query queue quota range reader record redirect refresh regression release reload
 remote render replica report request reset response restart retry review rollback route runner sandbox
 schema scope screen script scroll search section selection server session setting shell shortcut signature
 size snapshot socket sorting source spinner stack startup status storage stream style submodule summary
 support switch symbol sync syntax table tag target task template terminal test theme thread timeout timer
 title token toolbar tooltip trace translation tree trigger tunnel type unicode update upgrade upload user
 validation value variable version video viewer warning watcher webhook widget window worker workflow zone`
    .trim()
    .split(/\s+/)

export interface SeededIssue extends IssueRef {
  id: number
  poster: AccountRef
  labels: readonly LabelRef[]
  milestones: readonly MilestoneRef[]
  /** Whether its title has the rare word. */
  marked: boolean
}

/** The events of an issue's stream. `takeComment` gives the next comment id. */
export function issueFacts(issue: SeededIssue, takeComment: () => number): DomainEvent[] {
  const { repoId, index, id, poster, marked } = issue
  const word = wordsFrom(id)
  const sentence = (length: number) => {
    const text = Array.from({ length }, word).join(' ')
    return text.charAt(0).toUpperCase() + text.slice(1)
  }
  const title = marked ? `${sentence(4)} ${RARE_WORD} ${word()}` : sentence(6)
  const label = issue.labels[index % issue.labels.length]
  const milestone = (index % 4 === 0 && issue.milestones[index % issue.milestones.length]) || null
  const events: DomainEvent[] = [
    {
      type: 'IssueOpened',
      data: {
        repoId,
        index,
        id,
        poster,
        title,
        body: `${sentence(14)}.\n\n${sentence(18)}.\n`,
        labels: label === undefined ? [] : [label],
        milestone,
        assignees: index % 7 === 0 ? [poster] : [],
        deadline: null,
      },
    },
  ]
  if (index % 3 === 0) {
    const body = `${sentence(12)}.`
    events.push({
      type: 'CommentAdded',
      data: { repoId, index, commentId: takeComment(), author: poster, body },
    })
  }
  if (index % 6 === 1) {
    const comment = { id: takeComment(), kind: 'close' } as const
    events.push({ type: 'StatusChanged', data: { repoId, index, closed: true, comment, milestone } })
  }
  return events
}

/** Returns a generator of words. They look random, but the same seed always gives the same words. */
function wordsFrom(seed: number): () => string {
  let state = Math.imul(seed, 0x9e3779b1)
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return WORDS[(state >>> 8) % WORDS.length] ?? ''
  }
}
