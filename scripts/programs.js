/** Programs in src/ that Node starts as a process or a thread. */
export const PROGRAMS = [
  'main',
  'cli/mergelog',
  'git/process/launcher-process',
  'auth/passwords/hashing-thread',
  'storage/sqlite/reader-program',
  'storage/sqlite/writer-program',
  'maintenance/verify/file-checks-process',
  'domain/markup/render-thread',
  'domain/markup/templates-thread',
  'web/diff-thread',
  'domain/openpgp/gpg-thread',
  'projections/moments/builder-program',
]
