/** Runs the command line where a directory of DATA_DIR is a mount point that only its own processes see. */
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { PROGRAM_ENVIRONMENT, program } from '../../program.ts'

const UNSHARE = ['--mount', '--map-root-user', 'sh', '-c']
const mounts = spawnSync('unshare', [...UNSHARE, 'mount --bind /tmp /mnt'], { encoding: 'utf8' })

/** The reason why this machine does not allow mounts; false when it does. */
export const cannotMount =
  mounts.status === 0 ? false : `nothing can be mounted here: ${mounts.error?.message ?? mounts.stderr}`

/** Runs `mergelog ARGS` where `DATA_DIR/NAME` is a mount point. */
export function mergelogAtMount(dataDir: string, name: string, args: readonly string[]) {
  const script = 'mount --bind "$1" "$1" && shift && exec "$@"'
  const words = [process.execPath, program('src/cli/mergelog'), ...args]
  return spawnSync('unshare', [...UNSHARE, script, 'sh', join(dataDir, name), ...words], {
    encoding: 'utf8',
    env: { ...PROGRAM_ENVIRONMENT, DATA_DIR: dataDir },
  })
}
