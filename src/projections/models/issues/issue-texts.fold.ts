/**
 * The words of issues and pull requests, for the keyword search. The title and the body are one document, and so is
 * each comment, each review and each comment of a review: it writes only its own words, however long its issue has become.
 * A review that is not submitted is its reviewer's alone, so no search finds it.
 */

import { type Fold, foldOf } from '../../projector/read-model.ts'
import { issueId, type OpenedEvent, textId } from './issue-selection.ts'
import { wordsOf } from './words.ts'

export interface IssueTextDocument {
  /** The issue that has the text. All that lists filter by is in its document. */
  issueKey: string
  /** Each word once. */
  words: string[]
  /** The words of the title and of the body, separated by spaces: one of them may change alone. Not in other texts. */
  title?: string
  body?: string
}

export const issueTextFold: Fold<IssueTextDocument> = foldOf({
  name: 'issue_texts',
  arrays: ['words'],
  partOf: 'issueKey',
  version: 6,
  staysUntilRemoved: true,
  ids({ type, data }) {
    const { repoId, index } = data
    const textsOf = (ids: readonly number[]) => ids.map((id) => textId(repoId, index, id))
    switch (type) {
      case 'TextsErased':
        return [...(data.commentId === null ? [issueId(repoId, index)] : []), ...textsOf(data.comments)]
      case 'CommentsDeleted':
        return textsOf(data.comments)
      case 'ReviewSubmitted':
        return textsOf([data.reviewId])
      case 'ReviewDeleted':
        return textsOf([data.reviewId, ...data.comments])
      default:
        return 'commentId' in data ? textsOf([data.commentId]) : [issueId(repoId, index)]
    }
  },
  becomes: {
    IssueOpened: (_, event) => openedTexts(event),
    PullRequestOpened: (_, event) => openedTexts(event),
    CommentAdded: (_, { data }) => commentTexts(data),
    CommentEdited: (_, { data }) => commentTexts(data),
    CommentDeleted: () => undefined,
    CommentsDeleted: () => undefined,
    IssueDeleted: () => undefined,
    ReviewSubmitted: (_, { data }) => commentTexts(data),
    ReviewCommentAdded: (_, { data }) => commentTexts(data),
    ReviewDeleted: () => undefined,
  },
  begins: [
    'IssueOpened',
    'PullRequestOpened',
    'CommentAdded',
    'CommentEdited',
    'ReviewSubmitted',
    'ReviewCommentAdded',
  ],
  creates: ['IssueOpened', 'PullRequestOpened', 'CommentAdded', 'ReviewSubmitted', 'ReviewCommentAdded'],
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
