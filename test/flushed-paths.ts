/** Records the files and directories that this process flushes to disk. */
import { promises as files } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import type t from 'tap'

/** Returns the flushed paths, in order, until the test ends. */
export function flushedPaths(test: Pick<typeof t, 'teardown'>): string[] {
  const flushed: string[] = []
  const { open } = files
  const watched: typeof open = async (path, ...rest) => {
    const handle = await open(path, ...rest)
    const sync = handle.sync.bind(handle)
    handle.sync = async () => {
      await sync()
      flushed.push(String(path))
    }
    return handle
  }
  Object.assign(files, { open: watched })
  syncBuiltinESMExports()
  test.teardown(() => {
    Object.assign(files, { open })
    syncBuiltinESMExports()
  })
  return flushed
}
