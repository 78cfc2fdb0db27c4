/** Temporary directories of single git commands, outside of the repository. */
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isAbandoned } from '../../storage/disk.ts'
import { removeOrphanedDirectories } from '../repository/orphaned-directories.ts'

const PREFIX = 'mergelog-git-'

/**
 * Creates a private directory in the system's temporary one: git's process may outlive the server and must still find it.
 * The caller removes it when the command has ended.
 */
export const makeTemporaryDirectory = (): Promise<string> => mkdtemp(join(tmpdir(), PREFIX))

/** Removes the directories of killed servers. Other servers use the same parent, so only abandoned ones are removed. */
export const removeOrphanedTemporaryDirectories = (): Promise<void> =>
  removeOrphanedDirectories(tmpdir(), PREFIX, (_path, modifiedAt) => isAbandoned(modifiedAt))
