/** What Node starts from src/ as a process or a thread. */
export const PROGRAMS = [
  'main',
  'cli/mergelog',
  'git/launcher-process',
  'rights/hashing-thread',
  'sqlite-reader-program',
  'sqlite-thread-program',
  'verify/file-checks-process',
  'markup/render-thread',
  'markup/templates-thread',
  'ui/diff-thread',
  'openpgp/gpg-thread',
]
