/** Builds the message of a merge commit: `merge.5`. Pure. */

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
 * Returns the title, given or default, a blank line and the given message. `headLabel`: the head branch, with its
 * repository for a fork. `coAuthors`: other authors of a squash's commits, added to the default title only, unless the
 * message names them.
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
  // Trailers form one block, the last paragraph.
  const isBlock = trailers !== '' && ENDS_IN_TRAILERS.test(body)
  return messageOf([standard, ...(isBlock ? [`${body}\n${trailers}`] : [body, trailers])])
}

/** Joins parts of a message with blank lines. */
const messageOf = (parts: readonly string[]): string =>
  `${parts.filter((part) => part !== '').join('\n\n')}\n`

/** Matches a co-author line; captures the address. */
const CO_AUTHOR = /^co-authored-by:[^<\n]*<([^<>\n]*)>[ \t]*$/gim
/** Matches a last paragraph of trailers such as `Signed-off-by: …`. */
const ENDS_IN_TRAILERS = /(?:^|\n\n)(?:[A-Za-z][A-Za-z-]*: [^\n]*(?:\n|$))+$/

/** Maximum sizes of all co-authors and of one, in bytes: the message must fit into an event. */
const MAX_CO_AUTHORS_BYTES = 64 * 1024
const MAX_CO_AUTHOR_BYTES = 1024

/**
 * Returns the other authors of a squash's commits, each once, in order. Omits names that a trailer cannot hold, and the
 * oldest ones beyond the limit.
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
