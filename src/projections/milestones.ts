/** Milestones of repositories, with how many of their issues and pull requests are open and closed. */
import type { MilestoneSettings } from '../events/domain-events.ts'
import { type Fold, readModel } from './read-model.ts'
import type { Collection } from './read-store.ts'

export interface MilestoneDocument extends MilestoneSettings {
  id: number
  repoId: number
  /** The due date in milliseconds since 1970; without one after all others. What lists are sorted by. */
  dueAt: number
  /** The title in lower case from each of its characters on: a part of the title is the beginning of one. */
  titleTails: string[]
  openIssues: number
  closedIssues: number
  createdAt: string
  updatedAt: string
  closedAt: string | null
}

export const milestones: Collection<MilestoneDocument> = {
  name: 'milestones',
  indexes: [
    [
      ['repoId', 1],
      ['state', 1],
      ['dueAt', 1],
      ['id', 1],
    ],
    [
      ['repoId', 1],
      ['dueAt', 1],
      ['id', 1],
    ],
    [
      ['repoId', 1],
      ['title', 1],
    ],
  ],
  arrays: ['titleTails'],
}

export const milestoneFold: Fold<MilestoneDocument> = {
  collection: milestones,
  version: 2,
  touches(event) {
    switch (event.type) {
      case 'MilestoneCreated':
      case 'MilestoneEdited':
      case 'MilestoneDeleted':
        return [`${event.data.id}`]
      case 'IssueOpened':
      case 'PullRequestOpened':
      case 'StatusChanged':
      case 'PullRequestMerged':
        return event.data.milestone === null ? [] : [`${event.data.milestone.id}`]
      case 'MilestoneChanged': {
        const { from, to } = event.data
        if (from?.id === to?.id) return []
        return [from, to].flatMap((milestone) => (milestone === null ? [] : [`${milestone.id}`]))
      }
      default:
        return []
    }
  },
  evolve(milestone, event, id) {
    const { at } = event.metadata
    if (event.type === 'MilestoneCreated') {
      const { id, repoId, title, description, state, dueOn } = event.data
      return {
        id,
        repoId,
        title,
        description,
        state,
        dueOn,
        ...derived({ title, dueOn }),
        openIssues: 0,
        closedIssues: 0,
        createdAt: at,
        updatedAt: at,
        closedAt: state === 'closed' ? at : null,
      }
    }
    if (milestone === undefined) return undefined
    switch (event.type) {
      case 'MilestoneEdited': {
        const { changes } = event.data
        const edited = { ...milestone, ...changes, updatedAt: at }
        const closedAt = changes.state === undefined ? milestone.closedAt : at
        return { ...edited, ...derived(edited), closedAt: edited.state === 'closed' ? closedAt : null }
      }
      case 'MilestoneDeleted':
        return undefined
      case 'IssueOpened':
      case 'PullRequestOpened':
        return counted(milestone, { open: 1, closed: 0 }, at)
      case 'PullRequestMerged':
        return counted(milestone, { open: -1, closed: 1 }, at)
      case 'StatusChanged':
        return counted(milestone, event.data.closed ? { open: -1, closed: 1 } : { open: 1, closed: -1 }, at)
      case 'MilestoneChanged': {
        const more = id === `${event.data.to?.id}` ? 1 : -1
        return counted(
          milestone,
          event.data.closed ? { open: 0, closed: more } : { open: more, closed: 0 },
          at,
        )
      }
      default:
        return milestone
    }
  },
}

/** So many more issues are open and closed. */
function counted(
  milestone: MilestoneDocument,
  more: { open: number; closed: number },
  updatedAt: string,
): MilestoneDocument {
  return {
    ...milestone,
    openIssues: milestone.openIssues + more.open,
    closedIssues: milestone.closedIssues + more.closed,
    updatedAt,
  }
}

function derived({ title, dueOn }: Pick<MilestoneSettings, 'title' | 'dueOn'>) {
  const characters = [...title.toLowerCase()]
  return {
    dueAt: dueOn === null ? Number.MAX_SAFE_INTEGER : Date.parse(dueOn),
    titleTails: characters.map((_, start) => characters.slice(start).join('')),
  }
}

export const milestoneModel = readModel(milestoneFold)
