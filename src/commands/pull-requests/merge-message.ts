/** The message of a merge commit: merge rule 5. Pure. */
import { cutList, jsonBytes } from '../../events/append-size.ts'
import type { MergeStyle } from '../../events/domain-events.ts'
import type { Signature } from '../../git/commits.ts'
import type { ActivePull } from './pull-request.ts'

export interface MessageFields {
  /** `MergeTitleField`; blank for the default. */
  title: string
  /** `MergeMessageField` */
  message: string
}

/**
 * The given title or the default one, then a blank line and the given message. `headLabel`: the head branch, after its
 * repository when that is a fork. `coAuthors`: the other authors of the commits that a squash combines.
 */
export function mergeMessage(
  style: MergeStyle,
  pull: Pick<ActivePull, 'title' | 'index' | 'base'>,
  { title, message }: MessageFields,
  headLabel: string,
  coAuthors: readonly Pick<Signature, 'name' | 'email'>[] = [],
): string {
  const standard =
    style === 'squash'
      ? `${pull.title} (#${pull.index})`
      : `Merge pull request '${pull.title}' (#${pull.index}) from ${headLabel} into ${pull.base.branch}`
  const trailers = coAuthors.map(({ name, email }) => `Co-authored-by: ${name} <${email}>`).join('\n')
  const parts = [title.trim() || standard, message.trim(), trailers].filter((part) => part !== '')
  return `${parts.join('\n\n')}\n`
}

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
