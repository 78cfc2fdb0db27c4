/**
 * The words of issues and pull requests, for the keyword search. The title and the body are one document, and so is
 * each comment: a comment writes only its own words, however long its issue has become.
 */
import { issueId, type OpenedEvent, textId } from './issue-selection.ts'
import { type Fold, foldOf } from './read-model.ts'
import { wordsOf } from './words.ts'

export interface IssueTextDocument {
  /** The issue that has the text. All that lists filter by is in its document. */
  issueKey: string
  /** Each word once. */
  words: string[]
  /** The words of the title and of the body, separated by spaces: one of them may change alone. Not in a comment. */
  title?: string
  body?: string
}

export const issueTextFold: Fold<IssueTextDocument> = foldOf({
  name: 'issue_texts',
  arrays: ['words'],
  partOf: 'issueKey',
  version: 4,
  staysUntilRemoved: true,
  ids({ data }) {
    const { repoId, index } = data
    if ('comments' in data) {
      const comments = data.comments.map((id) => textId(repoId, index, id))
      return data.commentId === null ? [issueId(repoId, index), ...comments] : comments
    }
    return ['commentId' in data ? textId(repoId, index, data.commentId) : issueId(repoId, index)]
  },
  becomes: {
    IssueOpened: (_, event) => openedTexts(event),
    PullRequestOpened: (_, event) => openedTexts(event),
    CommentAdded: (_, { data }) => commentTexts(data),
    CommentEdited: (_, { data }) => commentTexts(data),
    CommentDeleted: () => undefined,
  },
  begins: ['IssueOpened', 'PullRequestOpened', 'CommentAdded', 'CommentEdited'],
  creates: ['IssueOpened', 'PullRequestOpened', 'CommentAdded'],
  changes: {
    TitleChanged: ({ body }, { data }) => parts(wordsOf(data.title), split(body)),
    BodyChanged: ({ title }, { data }) => parts(split(title), wordsOf(data.body)),
    TextsErased: ({ title }) => (title === undefined ? { words: [] } : parts([], [])),
  },
})

const openedTexts = ({ data: { repoId, index, title, body } }: OpenedEvent): IssueTextDocument => ({
  issueKey: issueId(repoId, index),
  ...parts(wordsOf(title), wordsOf(body)),
})

function commentTexts(data: { repoId: number; index: number; body: string }): IssueTextDocument {
  return { issueKey: issueId(data.repoId, data.index), words: wordsOf(data.body) }
}

const parts = (title: readonly string[], body: readonly string[]) => ({
  words: [...new Set([...title, ...body])],
  title: title.join(' '),
  body: body.join(' '),
})

const split = (words = '') => (words === '' ? [] : words.split(' '))
