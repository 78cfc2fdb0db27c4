// In a process of its own: it changes what hashes cost.
import { readdir, readFile } from 'node:fs/promises'
import { getPriority } from 'node:os'
import t from 'tap'
import { dummyHash, hashPassword, isPassword, isWeaker } from '../../../src/auth/passwords/passwords.ts'

t.test('a hash verifies its password, does not contain it, and is different each time', async (t) => {
  const [one, two] = await Promise.all([hashPassword('geheim äß'), hashPassword('geheim äß')])
  t.not(one, two)
  t.notMatch(one, 'geheim')
  t.match(one, /^scrypt\$16384\$8\$5\$/)
  t.same(
    await Promise.all([
      isPassword('geheim äß', one),
      isPassword('geheim a\u0308ß', one),
      isPassword('geheim äs', one),
      isPassword('', one),
    ]),
    [true, true, false, false],
  )
})

t.test('a hash contains its cost, so that the cost can change later', async (t) => {
  const cheap = 'scrypt$2$1$1$c2FsdA==$bRu4eO7pzkp7d9ekQQNXTUy/48Fa45QPD/51zV4eCvo='
  t.equal(await isPassword('password', cheap), true)
  t.equal(await isPassword('Password', cheap), false)
  await t.rejects(isPassword('password', 'md5$abc'), {
    message: 'a stored password hash has an unknown format',
  })
})

t.test('a hash is weaker when it takes less memory or less time than a new one', (t) => {
  const stored = (N: number, r: number, p: number) => `scrypt$${N}$${r}$${p}$c2FsdA==$aGFzaA==`
  t.equal(isWeaker(stored(16384, 8, 5)), false)
  t.equal(isWeaker(stored(16384, 8, 4)), true)
  t.equal(isWeaker(stored(8192, 8, 100)), true, 'less memory')
  t.equal(isWeaker(stored(131072, 8, 1)), false, 'more memory, in fewer passes')
  t.equal(isWeaker(stored(2, 1, 1), { N: 2, r: 1, p: 1 }), false)
  t.end()
})

t.test('no password matches the hash for unknown logins', async (t) => {
  t.equal(await isPassword('', dummyHash()), false)
})

t.test('too many simultaneous passwords are refused before hashing', async (t) => {
  const flood = await Promise.allSettled(
    Array.from({ length: 104 }, () => isPassword('x', 'scrypt$2$1$1$c2FsdA==$aGFzaA==')),
  )
  const refused = flood.filter((outcome) => outcome.status === 'rejected')
  t.equal(refused.length, 4)
  t.match(refused[0]?.reason, { refusal: { refused: 'tooManyRequests' } })
  t.equal(
    await isPassword('x', 'scrypt$2$1$1$c2FsdA==$aGFzaA=='),
    false,
    'afterwards passwords are hashed again',
  )
})

const elsewhere = process.platform !== 'linux' && 'only Linux has priorities of threads'

t.test('passwords are hashed in a thread with low priority', { skip: elsewhere }, async (t) => {
  await hashPassword('a long password')
  const niceOf = async (thread: string) => {
    const stat = await readFile(`/proc/self/task/${thread}/stat`, 'latin1')
    return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[16])
  }
  const own = getPriority()
  const others = await Promise.all((await readdir('/proc/self/task')).map(niceOf))
  t.equal(Math.max(...others), Math.min(19, own + 10), `${others}`)
  t.equal(await niceOf(`${process.pid}`), own)
})
