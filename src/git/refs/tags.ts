/** Reads the objects of annotated tags, and stores new ones. */
import { LRUCache } from 'lru-cache'
import { fromEach, parseSignature, type Signature, splitCommit } from '../commits/commits.ts'
import { signatureLine } from '../commits/new-commit.ts'
import type { ObjectHeader } from '../objects/batch-answers.ts'
import { storeObject } from '../objects/loose-objects.ts'
import { objectReaders } from '../objects/object-readers.ts'
import { InvalidGitArgument } from '../process/errors.ts'
import { checkedId } from './names.ts'

export interface TagFacts {
  sha: string
  /** The target of the tag. */
  object: { sha: string; type: string }
  /** The name in the object: a ref of another name may point at it. */
  name: string
  tagger: Signature | null
  /** Without its signature. */
  message: string
  /** Only for a signed tag: its signature, and the signed text, which is the rest of the object. */
  signed?: { signature: string; payload: string }
}

const known = new LRUCache<string, TagFacts>({
  maxSize: 8 * 1024 * 1024,
  sizeCalculation: ({ message, signed }) =>
    500 + 2 * (message.length + (signed === undefined ? 0 : signed.signature.length + signed.payload.length)),
})

/** Maximum size of a tag, in bytes. The longest message that the server accepts fits. */
const MAX_TAG_BYTES = 256 * 1024

/** First line of a signature, which extends to the end of the object. */
const SIGNATURE = /^-----BEGIN (?:PGP SIGNATURE|PGP MESSAGE|SSH SIGNATURE|SIGNED MESSAGE)-----$/m

/** Reads the objects of these tags, by id. Leaves out other objects, and tags of more than 256 KiB. */
export async function tagFacts(dir: string, shas: Iterable<string>): Promise<Map<string, TagFacts>> {
  const result = new Map<string, TagFacts>()
  const unknown = new Set<string>()
  for (const sha of shas) {
    const facts = known.get(`${dir}\0${checkedId(sha)}`)
    if (facts === undefined) unknown.add(sha)
    else result.set(sha, facts)
  }
  if (unknown.size === 0) return result
  const headers = await objectReaders.headers(dir, [...unknown])
  const isTag = (header: ObjectHeader | undefined): header is ObjectHeader =>
    header?.type === 'tag' && header.size <= MAX_TAG_BYTES
  await objectReaders.contents(dir, headers.filter(isTag), ({ sha }, content) => {
    const facts = parseTag(sha, content)
    known.set(`${dir}\0${sha}`, facts)
    result.set(sha, facts)
  })
  return result
}

/** Returns the result of `make` for each of these tags, by id. Reads them in batches. */
export const fromTags = <T>(dir: string, shas: Iterable<string>, make: (facts: TagFacts) => T) =>
  fromEach(shas, (part) => tagFacts(dir, part), make)

function parseTag(sha: string, content: Buffer): TagFacts {
  const { values, body } = splitCommit(content)
  const [tagger] = values('tagger')
  const text = body.toString('utf8')
  const start = SIGNATURE.exec(text)?.index
  return {
    sha,
    object: { sha: values('object')[0] ?? '', type: values('type')[0] ?? '' },
    name: Buffer.from(values('tag')[0] ?? '', 'latin1').toString('utf8'),
    tagger: tagger === undefined ? null : parseSignature(Buffer.from(tagger, 'latin1').toString('utf8')),
    message: start === undefined ? text : text.slice(0, start),
    ...(start !== undefined && {
      signed: {
        signature: text.slice(start),
        payload: content.subarray(0, content.length - Buffer.byteLength(text.slice(start))).toString('utf8'),
      },
    }),
  }
}

export interface NewTag {
  name: string
  /** The id of an existing commit. */
  commit: string
  /** A missing newline is added at the end. */
  message: string
  tagger: Signature
}

/** Stores an annotated tag object and returns its id. Moves no ref. The same input always results in the same id. */
export async function storeTag(dir: string, { name, commit, message, tagger }: NewTag): Promise<string> {
  if (message.includes('\0')) throw new InvalidGitArgument('message', 'contains a NUL character')
  const headers = [
    `object ${checkedId(commit)}`,
    'type commit',
    `tag ${name}`,
    `tagger ${signatureLine(tagger)}`,
  ]
  const text = message.endsWith('\n') ? message : `${message}\n`
  return await storeObject(dir, 'tag', Buffer.from(`${headers.join('\n')}\n\n${text}`))
}
