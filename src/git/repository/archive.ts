/** Streams archives of a commit's files, and bundles of its history. */
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type StreamedOutput, type StreamOptions, streamOutput } from '../process/streamed-output.ts'
import { makeTemporaryDirectory } from '../process/temporary-directories.ts'
import { checkedId } from '../refs/names.ts'
import { quotedPath } from './staging.ts'

export const ARCHIVE_FORMATS = ['zip', 'tar.gz', 'bundle'] as const
export type ArchiveFormat = (typeof ARCHIVE_FORMATS)[number]

/**
 * `export-subst` in a file may ask for the verdict on the commit's signature, any number of times. git 2.39 starts gpg
 * for each, whatever its settings say, unless it cannot create a temporary file. An archive needs no temporary file.
 */
const NO_SIGNATURES = { TMPDIR: '/dev/null' }

/**
 * Starts an archive of the files of a commit, in a directory of that name; or a bundle, which `git clone` reads.
 * @throws GitFailed for an unknown commit, and the errors of `streamOutput`
 */
export async function archiveStream(
  dir: string,
  commit: string,
  format: ArchiveFormat,
  { directory, ...options }: StreamOptions & { directory: string },
): Promise<StreamedOutput> {
  if (format === 'bundle') return bundleStream(dir, checkedId(commit), options)
  const args = ['archive', `--format=${format}`, `--prefix=${directory}/`, checkedId(commit)]
  return streamOutput(dir, args, { ...options, env: NO_SIGNATURES })
}

/** The branch of a bundle. */
const BUNDLED = 'refs/heads/bundle'

/** A bundle needs a ref, and the commit may have none. So git works in a repository that borrows all objects. */
async function bundleStream(dir: string, commit: string, options: StreamOptions): Promise<StreamedOutput> {
  const own = await makeTemporaryDirectory()
  const remove = () => rm(own, { recursive: true, force: true }).catch(() => undefined)
  try {
    await mkdir(join(own, 'refs', 'heads'), { recursive: true })
    await mkdir(join(own, 'objects', 'info'), { recursive: true })
    await writeFile(join(own, 'HEAD'), `ref: ${BUNDLED}\n`)
    await writeFile(join(own, 'objects', 'info', 'alternates'), `${quotedPath(join(dir, 'objects'))}\n`)
    await writeFile(join(own, BUNDLED), `${commit}\n`)
    const output = await streamOutput(own, ['bundle', 'create', '--quiet', '-', BUNDLED, 'HEAD'], options)
    output.stream.once('close', () => void remove())
    return output
  } catch (error) {
    await remove()
    throw error
  }
}
