/** The message of a merge commit: `merge.5`. Pure. */

import type { MergeStyle } from '../../events/catalog/repositories.ts'
import { cutList, jsonBytes } from '../../events/store/append-size.ts'
import type { Signature } from '../../git/commits/commits.ts'
import type { ActivePull } from './pull-request.decider.ts'

export interface MessageFields {
  /** `MergeTitleField`; blank for the default. */
  title: string
  /** `MergeMessageField` */
  message: string
}

/**
 * The given title or the default one, then a blank line and the given message. `headLabel`: the head branch, after its
 * repository when that is a fork. `coAuthors`: the other authors of the commits that a squash combines. They belong to the
 * default message: whoever gives a title writes the whole message. Those that the given message names are not repeated.
 */
export function mergeMessage(
  style: MergeStyle,
  pull: Pick<ActivePull, 'title' | 'index' | 'base'>,
  { title, message }: MessageFields,
  headLabel: string,
  coAuthors: readonly Pick<Signature, 'name' | 'email'>[] = [],
): string {
  const given = title.trim()
  const body = message.trim()
  if (given !== '') return messageOf([given, body])
  const standard =
    style === 'squash'
      ? `${pull.title} (#${pull.index})`
      : `Merge pull request '${pull.title}' (#${pull.index}) from ${headLabel} into ${pull.base.branch}`
  const named = new Set(Array.from(body.matchAll(CO_AUTHOR), ([, email = '']) => email.toLowerCase()))
  const trailers = coAuthors
    .filter(({ email }) => !named.has(email.toLowerCase()))
    .map(({ name, email }) => `Co-authored-by: ${name} <${email}>`)
    .join('\n')
  // Trailers are one block: the last paragraph.
  const isBlock = trailers !== '' && ENDS_IN_TRAILERS.test(body)
  return messageOf([standard, ...(isBlock ? [`${body}\n${trailers}`] : [body, trailers])])
}

/** Parts of a message, with a blank line between them. */
const messageOf = (parts: readonly string[]): string =>
  `${parts.filter((part) => part !== '').join('\n\n')}\n`

/** A line that names a co-author, with the e-mail address. */
const CO_AUTHOR = /^co-authored-by:[^<\n]*<([^<>\n]*)>[ \t]*$/gim
/** Whether the last paragraph of a text consists of trailers such as `Signed-off-by: …`. */
const ENDS_IN_TRAILERS = /(?:^|\n\n)(?:[A-Za-z][A-Za-z-]*: [^\n]*(?:\n|$))+$/

/** The most bytes of all co-authors, and of one: the message must fit into an event. */
const MAX_CO_AUTHORS_BYTES = 64 * 1024
const MAX_CO_AUTHOR_BYTES = 1024

/**
 * The authors of the commits other than the author of the squash: each once, in the order of the commits. An author
 * with a name that no trailer can hold is left out. When there are too many, the authors of the newest commits stay.
 */
export function coAuthorsOf(
  authors: readonly Pick<Signature, 'name' | 'email'>[],
  author: Pick<Signature, 'email'>,
): Pick<Signature, 'name' | 'email'>[] {
  const others = new Map<string, Pick<Signature, 'name' | 'email'>>()
  for (const { name, email } of authors) {
    const key = email.toLowerCase()
    if (key === author.email.toLowerCase() || others.has(key)) continue
    if (jsonBytes({ name, email }) <= MAX_CO_AUTHOR_BYTES) others.set(key, { name, email })
  }
  return cutList([...others.values()].reverse(), MAX_CO_AUTHORS_BYTES).reverse()
}
