import t from 'tap'
import { hostFailure, hostFailureOf } from '../../src/storage/host-failure.ts'
import { sqliteError } from '../../src/storage/sqlite/errors.ts'

const failed = (code: string, syscall = 'open') => Object.assign(new Error('x'), { code, syscall })

t.test('host failures are distinguished from other errors, of any origin', async (t) => {
  for (const code of ['EMFILE', 'ENFILE', 'EAGAIN', 'ENOMEM', 'EIO', 'EROFS', 'EACCES']) {
    t.type(hostFailureOf(failed(code)), 'string', code)
    t.type(hostFailureOf(new Error('git', { cause: failed(code) })), 'string', `${code} as a cause`)
  }
  for (const error of [
    Object.assign(new Error('no thread'), { code: 'ERR_WORKER_INIT_FAILED' }),
    sqliteError('IOERR_FSYNC', 1034),
    sqliteError('CANTOPEN', 14),
    sqliteError('READONLY', 8),
    sqliteError('NOMEM', 7),
  ]) {
    t.type(hostFailureOf(error), 'string', error.message)
  }
  t.equal(hostFailureOf(sqliteError('IOERR_NOMEM', 3082)), 'out of memory')
  for (const words of [
    'fatal: cannot create directory: Permission denied',
    'error: unable to write file x/objects/12/34',
    "fatal: cannot update ref 'refs/heads/main': couldn't write 'x.lock'",
    'error: failed to write new configuration file x/config.lock',
    'fatal: write error: Input/output error',
  ]) {
    t.type(hostFailureOf(new Error(`git update-ref ended with 128: ${words}`)), 'string', words)
  }
  for (const code of ['ENOENT', 'ENOTDIR'])
    t.match(hostFailureOf(failed(code, 'mkdtemp')), /TMPDIR/, `no place for temporary files: ${code}`)
  const circle = new Error('a circle')
  circle.cause = circle
  const sameWord = Object.assign(new Error('x'), { code: 'EACCES' })
  for (const error of [
    failed('ENOENT'),
    failed('ENOSPC'),
    new Error('EMFILE'),
    new Error('to write'),
    sameWord,
    circle,
    'EIO',
  ]) {
    t.equal(hostFailureOf(error), undefined)
  }
  t.equal(hostFailure.refused, 'unavailable')
})
