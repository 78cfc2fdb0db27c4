/** The words of issues and pull requests, with those of their comments: what the keyword search asks. */
import {
  evolveSelection,
  type IssueSelection,
  isOpened,
  selectionOf,
  touchedIssues,
} from './issue-selection.ts'
import { type Fold, readModel } from './read-model.ts'
import type { Collection } from './read-store.ts'
import { wordsOf } from './words.ts'

/** Apart from the issues, so that their lists need not read the words. */
export interface IssueTextDocument extends IssueSelection {
  /** By part (the title, the body, each comment by its id), with blanks between them. */
  parts: Record<string, string>
  /** Of all parts, each once. */
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

export const issueTextFold: Fold<IssueTextDocument> = {
  collection: issueTexts,
  version: 2,
  touches: touchedIssues,
  evolve(texts, event) {
    if (isOpened(event)) {
      const [title, body] = [wordsOf(event.data.title), wordsOf(event.data.body)]
      const parts = { title: title.join(' '), body: body.join(' ') }
      return Object.assign(selectionOf(event), { parts, words: [...new Set([...title, ...body])] })
    }
    if (texts === undefined) return undefined
    const next = evolveSelection(texts, event)
    switch (event.type) {
      case 'TitleChanged':
        return withParts(next, { ...next.parts, title: partOf(event.data.title) })
      case 'BodyChanged':
        return withParts(next, { ...next.parts, body: partOf(event.data.body) })
      case 'CommentAdded': {
        // What is only added needs no look at all the other comments.
        const { commentId, body } = event.data
        const added = wordsOf(body)
        const parts = { ...next.parts, [commentId]: added.join(' ') }
        return { ...next, parts, words: [...new Set([...next.words, ...added])] }
      }
      case 'CommentEdited':
        return withParts(next, { ...next.parts, [event.data.commentId]: partOf(event.data.body) })
      case 'CommentDeleted': {
        const { [event.data.commentId]: _deleted, ...parts } = next.parts
        return withParts(next, parts)
      }
      default:
        return next
    }
  },
}

const partOf = (text: string) => wordsOf(text).join(' ')

function withParts(texts: IssueTextDocument, parts: IssueTextDocument['parts']): IssueTextDocument {
  const words = new Set(Object.values(parts).flatMap((part) => (part === '' ? [] : part.split(' '))))
  return { ...texts, parts, words: [...words] }
}

export const issueTextModel = readModel(issueTextFold)
