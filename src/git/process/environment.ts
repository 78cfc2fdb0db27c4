/** The environment and the settings of every git process. The machine's own configuration is ignored. */

export type GitConfig = readonly (readonly [key: string, value: string])[]

const CONFIG: GitConfig = [
  // We decide who may use a repository. The owner of its files doesn't matter.
  ['safe.directory', '*'],
  // An acknowledged ref must survive a power cut, and so must all objects that it leads to.
  ['core.fsync', 'committed,loose-object,pack-metadata,reference'],
  // git must not start maintenance beside a command, and no hook may ever run.
  ['gc.auto', '0'],
  ['maintenance.auto', 'false'],
  ['receive.autogc', 'false'],
  ['core.hooksPath', '/dev/null'],
  ['core.attributesFile', '/dev/null'],
  ['core.quotePath', 'false'],
  // Never start the programs of the user who runs the server for a signature, nor trust that user's keyring.
  ['gpg.program', 'false'],
  ['gpg.x509.program', 'false'],
  // Two writers of one ref wait for each other. The compare-and-swap then decides who was first.
  ['core.filesRefLockTimeout', '3000'],
  ['core.packedRefsTimeout', '10000'],
  // git streams larger blobs instead of holding and comparing them.
  ['core.bigFileThreshold', '32m'],
  // To find files that were moved and changed, a merge compares each with each: 7,000, the default, take minutes.
  ['merge.renameLimit', '1000'],
]

/** The whole environment of a git process. `config` and `more` win over what every process gets. */
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
    // We read and flush refs as files, so a git that makes reftables by default must not do so here.
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
