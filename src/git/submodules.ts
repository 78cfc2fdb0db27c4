/** Reads `.gitmodules`: where the submodules of a repository come from. */
import { isSmall, smallBlobs } from './blobs.ts'
import { objectReaders } from './object-readers.ts'
import { entryAt } from './trees.ts'

/** A larger file is not read. */
const MAX_BYTES = 64 * 1024

/** The addresses of the submodules of a tree, by path. Starts no process. @throws GitFailed, GitUnavailable */
export async function submoduleUrls(dir: string, tree: string): Promise<ReadonlyMap<string, string>> {
  const entry = await entryAt(dir, tree, ['.gitmodules'])
  const [header] = entry === undefined ? [] : await objectReaders.headers(dir, [entry.id])
  if (header?.type !== 'blob' || !isSmall(header) || header.size > MAX_BYTES) return new Map()
  const content = (await smallBlobs(dir, [header])).get(header.sha)
  return urlsIn(content?.toString('utf8') ?? '')
}

/** The `path` and `url` of each section. */
export function urlsIn(text: string): Map<string, string> {
  const urls = new Map<string, string>()
  for (const section of text.split(/^\s*\[/m)) {
    const value = (key: string) =>
      new RegExp(`^\\s*${key}\\s*=\\s*"?(.*?)"?\\s*$`, 'm').exec(section)?.[1] ?? ''
    const [path, url] = [value('path'), value('url')]
    if (path !== '' && url !== '') urls.set(path, url)
  }
  return urls
}
