/** Reads the content of files. */

import { GitFailed } from '../process/errors.ts'
import { type StreamedOutput, type StreamOptions, streamOutput } from '../process/streamed-output.ts'
import { checkedId } from '../refs/names.ts'
import type { ObjectHeader } from './batch-answers.ts'
import { MAX_READ_BYTES } from './object-reader.ts'
import { objectReaders } from './object-readers.ts'

/** Whether the repository's object reader can read a blob. */
export const isSmall = ({ size }: Pick<ObjectHeader, 'size'>) => size <= MAX_READ_BYTES

/** Returns the type and size of a blob. @throws GitFailed for a missing blob */
export async function blobHeader(dir: string, id: string): Promise<ObjectHeader> {
  const [header] = await objectReaders.headers(dir, [id])
  if (header?.type !== 'blob') throw new GitFailed(['cat-file'], 0, `${id} is not a blob`)
  return header
}

/** Returns the contents of small blobs, by id. Leaves out deleted ones. */
export async function smallBlobs(
  dir: string,
  headers: readonly ObjectHeader[],
): Promise<Map<string, Buffer>> {
  const found = new Map<string, Buffer>()
  await objectReaders.contents(dir, headers, ({ sha }, content) => found.set(sha, content))
  return found
}

/** Streams the content of a blob from a separate process. @throws the errors of `streamOutput` */
export function blobStream(dir: string, id: string, options: StreamOptions): Promise<StreamedOutput> {
  return streamOutput(dir, ['cat-file', 'blob', checkedId(id)], options)
}
