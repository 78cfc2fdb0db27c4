/** Milestones, with the numbers of their open and closed issues and pull requests. */
import type { MilestoneSettings } from '../../../events/catalog/milestones.ts'
import { type Fold, foldOf } from '../../projector/read-model.ts'

export interface MilestoneDocument extends MilestoneSettings {
  id: number
  repoId: number
  /** The due date in milliseconds since 1970, for sorting; without a due date, the largest number. */
  dueAt: number
  /** The suffixes of the title in lower case, to search for a part of the title by prefix. */
  titleTails: string[]
  openIssues: number
  closedIssues: number
  createdAt: string
  updatedAt: string
  closedAt: string | null
}

export const milestoneFold: Fold<MilestoneDocument> = foldOf({
  name: 'milestones',
  indexes: [
    { repoId: 1, state: 1, dueAt: 1, id: 1 },
    { repoId: 1, dueAt: 1, id: 1 },
    { repoId: 1, title: 1 },
  ],
  arrays: ['titleTails'],
  version: 4,
  staysUntilRemoved: true,
  ids({ data }) {
    if ('from' in data) {
      const { from, to } = data
      if (from?.id === to?.id) return []
      return [from, to].flatMap((milestone) => (milestone === null ? [] : [`${milestone.id}`]))
    }
    if (!('milestone' in data)) return [`${data.id}`]
    return data.milestone === null ? [] : [`${data.milestone.id}`]
  },
  becomes: {
    MilestoneCreated(_, { data, metadata: { at } }) {
      const { id, repoId, title, description, state, dueOn } = data
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
    },
    MilestoneDeleted: () => undefined,
  },
  begins: ['MilestoneCreated'],
  onEveryChange: ({ metadata }) => ({ updatedAt: metadata.at }),
  changes: {
    MilestoneEdited(milestone, { data: { changes }, metadata }) {
      const edited = { ...milestone, ...changes }
      const closedAt = changes.state === undefined ? milestone.closedAt : metadata.at
      return { ...changes, ...derived(edited), closedAt: edited.state === 'closed' ? closedAt : null }
    },
    IssueOpened: (milestone) => counted(milestone, 1, 0),
    PullRequestOpened: (milestone) => counted(milestone, 1, 0),
    PullRequestMerged: (milestone) => counted(milestone, -1, 1),
    IssueDeleted: (milestone, { data }) =>
      data.closed ? counted(milestone, 0, -1) : counted(milestone, -1, 0),
    StatusChanged: (milestone, { data }) =>
      data.closed ? counted(milestone, -1, 1) : counted(milestone, 1, -1),
    MilestoneChanged(milestone, { data }, id) {
      const more = id === `${data.to?.id}` ? 1 : -1
      return data.closed ? counted(milestone, 0, more) : counted(milestone, more, 0)
    },
  },
})

const counted = ({ openIssues, closedIssues }: MilestoneDocument, open: number, closed: number) => ({
  openIssues: openIssues + open,
  closedIssues: closedIssues + closed,
})

function derived({ title, dueOn }: Pick<MilestoneSettings, 'title' | 'dueOn'>) {
  const characters = [...title.toLowerCase()]
  return {
    dueAt: dueOn === null ? Number.MAX_SAFE_INTEGER : Date.parse(dueOn),
    titleTails: characters.map((_, start) => characters.slice(start).join('')),
  }
}
