/**
 * The words of issues and pull requests, for the keyword search. One document for title and body, and one for each
 * comment, review and comment of a review: so a new comment writes only its own words. Draft reviews are private, so
 * they are left out.
 */

import { type Fold, foldOf } from '../../projector/read-model.ts'
import { issueId, type OpenedEvent, textId } from './issue-selection.ts'
import { wordsOf } from './words.ts'

export interface IssueTextDocument {
  /** Id of the issue's document, which has all other fields for filters. */
  issueKey: string
  /** Each word once. */
  words: string[]
  /** Only of the issue itself: the words of title and body, separated by spaces, because each may change alone. */
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
