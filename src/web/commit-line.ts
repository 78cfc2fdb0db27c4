/** Commits in lists and above files. */
import { html } from 'ghtml'
import { avatar, type ListRow, time } from './components.ts'
import { shortId } from './format.ts'
import type { Frame } from './repository-frame.ts'

/** Maximum length of a subject in a list, in characters. */
const SUBJECT_CHARACTERS = 200

export interface ShownCommit {
  sha: string
  message: string
  /** The name in the commit. */
  author: string
  /** Null when no account has the address in the commit. */
  login: string | null
  date: string
}

export const subjectOf = (message: string): string =>
  (message.split('\n', 1)[0] ?? '').slice(0, SUBJECT_CHARACTERS) || '(no message)'

export const commitLink = ({ path }: Pick<Frame, 'path'>, sha: string): string =>
  html`<a href="${path}/commit/${sha}"><code>${shortId(sha)}</code></a>`

export const authorLink = (
  { site }: Pick<Frame, 'site'>,
  { author, login }: Pick<ShownCommit, 'author' | 'login'>,
): string =>
  login === null
    ? html`<bdi>${author}</bdi>`
    : html`<a class="quiet-link" href="${site.base}/${login}"><bdi>${author}</bdi></a>`

/** One line: who made the commit, its subject, its id and its day. */
export const commitLine = (frame: Frame, commit: ShownCommit): string =>
  html`!${avatar(commit.author)}<b>!${authorLink(frame, commit)}</b> <a class="quiet-link" href="${frame.path}/commit/${commit.sha}" dir="auto">${subjectOf(commit.message)}</a> <span class="end">!${commitLink(frame, commit.sha)} !${time(commit.date)}</span>`

export const commitRow = (frame: Frame, commit: ShownCommit): ListRow => ({
  mark: avatar(commit.author),
  title: html`<a href="${frame.path}/commit/${commit.sha}" dir="auto">${subjectOf(commit.message)}</a>`,
  meta: html`!${authorLink(frame, commit)} committed on !${time(commit.date)}`,
  end: commitLink(frame, commit.sha),
})
