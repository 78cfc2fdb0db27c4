/** Directories for what one command of git needs outside of its repository. */
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isAbandoned } from '../../storage/disk.ts'
import { removeOrphanedDirectories } from '../repository/orphaned-directories.ts'

const PREFIX = 'mergelog-git-'

/**
 * Makes a directory that nobody else may enter, in the system's temporary one: git's process may outlive ours and must
 * still find it. The caller removes it when the command has ended.
 */
export const makeTemporaryDirectory = (): Promise<string> => mkdtemp(join(tmpdir(), PREFIX))

/** Removes those of servers that were killed. Other servers make theirs here, too: so only those that nobody can use any more. */
export const removeOrphanedTemporaryDirectories = (): Promise<void> =>
  removeOrphanedDirectories(tmpdir(), PREFIX, (_path, made) => isAbandoned(made))
