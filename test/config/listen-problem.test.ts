import t from 'tap'
import { listenProblem } from '../../src/config/listen-problem.ts'

const settings = { host: 'HOST', port: 'PORT' } as const
const withCode = (code: string) => Object.assign(new Error(`listen ${code}`), { code })

t.test('start errors name the setting and the remedy: PORT taken or not allowed, HOST', async (t) => {
  const cases = [
    [
      'EADDRINUSE',
      'PORT',
      /^PORT is "80", but another program listens on \[::1\]:80: stop it, or set PORT to a free/,
    ],
    ['EACCES', 'PORT', /^PORT is "80", but this user may not listen on it: set PORT to 1024 or more/],
    [
      'EADDRNOTAVAIL',
      'HOST',
      /^HOST is "::1", but this machine does not have that address: 127\.0\.0\.1 is for/,
    ],
    ['ENOTFOUND', 'HOST', /^HOST is "::1", but no address is known for that name: 127\.0\.0\.1 is for/],
    ['EIO', 'PORT', /^PORT cannot be used: listening on \[::1\]:80 failed: listen EIO$/],
  ] as const
  for (const [code, setting, message] of cases) {
    t.match(listenProblem({ settings, host: '::1', port: 80 }, withCode(code)), { setting, message }, code)
  }
})
