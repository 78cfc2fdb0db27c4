/** The environment and the settings of every git process. The host's configuration is ignored. */

export type GitConfig = readonly (readonly [key: string, value: string])[]

const CONFIG: GitConfig = [
  // Mergelog checks access; the owner of the files doesn't matter.
  ['safe.directory', '*'],
  // An acknowledged ref must survive a power cut, and so must all objects that it leads to.
  ['core.fsync', 'committed,loose-object,pack-metadata,reference'],
  // Neither clones nor pushes see the refs that only keep objects.
  ['transfer.hideRefs', 'refs/mergelog/'],
  // git must not start maintenance on its own, and no hook may run by default.
  ['gc.auto', '0'],
  ['maintenance.auto', 'false'],
  ['receive.autogc', 'false'],
  ['core.hooksPath', '/dev/null'],
  ['core.attributesFile', '/dev/null'],
  ['core.quotePath', 'false'],
  // For a signature, never start the user's programs, nor trust the user's keyring.
  ['gpg.program', 'false'],
  ['gpg.x509.program', 'false'],
  // Two writers of one ref wait for each other; the compare-and-swap decides.
  ['core.filesRefLockTimeout', '3000'],
  ['core.packedRefsTimeout', '10000'],
  // git streams larger blobs instead of holding and comparing them.
  ['core.bigFileThreshold', '32m'],
  // A merge compares each moved file with each other one: the default, 7,000, takes minutes.
  ['merge.renameLimit', '1000'],
]

/** Returns the environment of a git process. `config` and `more` override the defaults. */
export function gitEnvironment(
  config: GitConfig = [],
  more: Readonly<Record<string, string>> = {},
): NodeJS.ProcessEnv {
  const environment: NodeJS.ProcessEnv = {
    GIT_CONFIG_GLOBAL: '/dev/null',
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_ATTR_NOSYSTEM: '1',
    GIT_TERMINAL_PROMPT: '0',
    // Clients can push refs/replace/*. These refs must not change what a commit id means.
    GIT_NO_REPLACE_OBJECTS: '1',
    // Refs are read and flushed as files, so reftables must stay off.
    GIT_DEFAULT_REF_FORMAT: 'files',
    LC_ALL: 'C',
    TZ: 'UTC',
  }
  for (const name of ['PATH', 'TMPDIR', 'LD_LIBRARY_PATH']) {
    const value = process.env[name]
    if (value !== undefined) environment[name] = value
  }
  const all = [...CONFIG, ...config]
  environment.GIT_CONFIG_COUNT = String(all.length)
  all.forEach(([key, value], i) => {
    environment[`GIT_CONFIG_KEY_${i}`] = key
    environment[`GIT_CONFIG_VALUE_${i}`] = value
  })
  return { ...environment, ...more }
}
