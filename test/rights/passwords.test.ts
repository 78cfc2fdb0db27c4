import t from 'tap'
import { DUMMY_HASH, hashPassword, isPassword } from '../../src/rights/passwords.ts'

t.test('a password is known by its hash, which tells nothing else and is never the same twice', async (t) => {
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

t.test('a hash says what it cost, so that the cost can change', async (t) => {
  const cheap = 'scrypt$2$1$1$c2FsdA==$bRu4eO7pzkp7d9ekQQNXTUy/48Fa45QPD/51zV4eCvo='
  t.equal(await isPassword('password', cheap), true)
  t.equal(await isPassword('Password', cheap), false)
  await t.rejects(isPassword('password', 'md5$abc'), {
    message: 'a stored password hash has an unknown format',
  })
})

t.test('nobody has the password of a login that does not exist', async (t) => {
  t.equal(await isPassword('', DUMMY_HASH), false)
})

t.test('a flood of passwords is refused before it is hashed', async (t) => {
  const flood = await Promise.allSettled(
    Array.from({ length: 104 }, () => isPassword('x', 'scrypt$2$1$1$c2FsdA==$aGFzaA==')),
  )
  const refused = flood.filter((outcome) => outcome.status === 'rejected')
  t.equal(refused.length, 4)
  t.match(refused[0]?.reason, { refusal: { refused: 'tooManyRequests' } })
  t.equal(
    await isPassword('x', 'scrypt$2$1$1$c2FsdA==$aGFzaA=='),
    false,
    'and afterwards there is room again',
  )
})
