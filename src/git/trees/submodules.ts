/** Reads `.gitmodules`: where the submodules of a repository come from. */
import { isSmall, smallBlobs } from '../objects/blobs.ts'
import { objectReaders } from '../objects/object-readers.ts'
import { entryAt } from './trees.ts'

/** Maximum size of the file, in bytes. A larger one is ignored. */
const MAX_BYTES = 64 * 1024

/** The addresses of the submodules of a tree, by path. Starts no process. @throws GitFailed, GitUnavailable */
export async function submoduleUrls(dir: string, tree: string): Promise<ReadonlyMap<string, string>> {
  const entry = await entryAt(dir, tree, ['.gitmodules'])
  const [header] = entry === undefined ? [] : await objectReaders.headers(dir, [entry.id])
  if (header?.type !== 'blob' || !isSmall(header) || header.size > MAX_BYTES) return new Map()
  const content = (await smallBlobs(dir, [header])).get(header.sha)
  return urlsIn(content?.toString('utf8') ?? '')
}

/**
 * Returns the `path` and `url` of each section. Parses line by line: a regular expression with optional spaces takes
 * seconds in a file of spaces.
 */
export function urlsIn(text: string): Map<string, string> {
  const urls = new Map<string, string>()
  let section: { path?: string; url?: string } = {}
  for (const line of text.split('\n').map((one) => one.trim())) {
    if (line.startsWith('[')) section = {}
    const equals = line.indexOf('=')
    const key = line.slice(0, Math.max(equals, 0)).trimEnd()
    if (key === 'path' || key === 'url') section[key] ??= unquoted(line.slice(equals + 1).trim())
    const { path, url } = section
    if (path && url) urls.set(path, url)
  }
  return urls
}

const unquoted = (value: string) =>
  value.slice(value.startsWith('"') ? 1 : 0, value.endsWith('"') ? -1 : undefined)
