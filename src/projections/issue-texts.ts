/** The words of issues and pull requests and of their comments, for the keyword search. */
import type { RecordedOf } from '../events/handlers.ts'
import { stateOf } from './discussion.ts'
import { type IssueSelection, issueId, selectionOf } from './issue-selection.ts'
import { type Fold, foldOf, readModel } from './read-model.ts'
import type { Collection } from './read-store.ts'
import { wordsOf } from './words.ts'

/** Separate from the document of the issue, so that lists need not read the words. */
export interface IssueTextDocument extends IssueSelection {
  /** The words of each part, separated by spaces. The parts are `title`, `body`, and each comment by its id. */
  parts: Record<string, string>
  /** The words of all parts, each once. */
  words: string[]
}

export const issueTexts: Collection<IssueTextDocument> = {
  name: 'issue_texts',
  indexes: [
    [['id', -1]],
    [
      ['state', 1],
      ['id', -1],
    ],
    [
      ['repoId', 1],
      ['state', 1],
      ['id', -1],
    ],
    [
      ['repoId', 1],
      ['id', -1],
    ],
  ],
  arrays: ['words', 'assigneeIds', 'labelIds'],
}

export const issueTextFold: Fold<IssueTextDocument> = foldOf({
  collection: issueTexts,
  version: 2,
  ids: ({ data }) => [issueId(data.repoId, data.index)],
  becomes: {
    IssueOpened: (_, event) => openedTexts(event, false),
    PullRequestOpened: (_, event) => openedTexts(event, true),
  },
  onEveryChange: ({ metadata }) => ({ updatedAt: metadata.at }),
  changes: {
    TitleChanged: ({ parts }, { data }) => withParts({ ...parts, title: partOf(data.title) }),
    BodyChanged: ({ parts }, { data }) => withParts({ ...parts, body: partOf(data.body) }),
    CommentAdded({ parts, words }, { data: { commentId, body } }) {
      // New words can be added without reading the other comments again.
      const added = wordsOf(body)
      return { parts: { ...parts, [commentId]: added.join(' ') }, words: [...new Set([...words, ...added])] }
    },
    CommentEdited: ({ parts }, { data }) => withParts({ ...parts, [data.commentId]: partOf(data.body) }),
    CommentDeleted(texts, { data }) {
      const { [data.commentId]: _deleted, ...parts } = texts.parts
      return withParts(parts)
    },
    StatusChanged: (_, { data }) => ({ state: stateOf(data.closed) }),
    PullRequestMerged: () => ({ state: 'closed' }),
    LabelsChanged: (_, { data }) => ({ labelIds: data.labels.map(({ id }) => id) }),
    MilestoneChanged: (_, { data }) => ({ milestoneId: data.to?.id ?? null }),
    AssigneesChanged: (_, { data }) => ({ assigneeIds: data.assignees.map(({ id }) => id) }),
    DeadlineChanged: () => ({}),
    DependencyAdded: () => ({}),
    DependencyRemoved: () => ({}),
  },
})

function openedTexts(
  event: RecordedOf<'IssueOpened' | 'PullRequestOpened'>,
  isPull: boolean,
): IssueTextDocument {
  const [title, body] = [wordsOf(event.data.title), wordsOf(event.data.body)]
  const parts = { title: title.join(' '), body: body.join(' ') }
  return Object.assign(selectionOf(event, isPull), { parts, words: [...new Set([...title, ...body])] })
}

const partOf = (text: string) => wordsOf(text).join(' ')

function withParts(parts: IssueTextDocument['parts']): Partial<IssueTextDocument> {
  const words = new Set(Object.values(parts).flatMap((part) => (part === '' ? [] : part.split(' '))))
  return { parts, words: [...words] }
}

export const issueTextModel = readModel(issueTextFold)
