import t from 'tap'
import { emailProblem, loginProblem, textProblem } from '../../../../src/commands/users/accounts/names.ts'

t.test('letters, digits and single dots, dashes and underscores make a login', async (t) => {
  for (const login of ['a', 'alice', 'Al.ice-2_x', '0day', 'a'.repeat(40), 'adminer', 'git']) {
    t.equal(loginProblem(login), undefined, login)
  }
})

t.test('a login cannot be misread by a path, a shell or git', async (t) => {
  const bad = [
    '',
    '.',
    '..',
    '-a',
    '_a',
    '.a',
    'a.',
    'a-',
    'a..b',
    'a-_b',
    'a/b',
    'a b',
    'a\0',
    'a\n',
    'å',
    '%2e',
    'a'.repeat(41),
  ]
  for (const login of bad) t.type(loginProblem(login), 'string', JSON.stringify(login))
})

t.test('names and endings that the server uses are reserved, in any case', async (t) => {
  for (const login of [
    'api',
    'API',
    'user',
    'org',
    'repos',
    'explore',
    'livez',
    'UI',
    'admin',
    'Ghost',
    'v2',
    'a.git',
    'a.RSS',
    'x.keys',
  ]) {
    t.type(loginProblem(login), 'string', login)
  }
})

t.test('only the site admin of the first start is called admin', async (t) => {
  t.type(loginProblem('admin'), 'string')
  t.equal(loginProblem('admin', true), undefined)
  t.type(loginProblem('api', true), 'string')
})

t.test('an e-mail address has a mailbox and a domain', async (t) => {
  for (const email of ['a@b', 'admin@localhost', 'first.last+tag@mail.example.org']) {
    t.equal(emailProblem(email), undefined, email)
  }
  const long = `${'a'.repeat(64)}@${'b.'.repeat(100)}org`
  for (const email of [
    '',
    'a',
    '@b',
    'a@',
    'a@b@',
    'a b@c',
    '-a@b',
    'a@-b',
    'a@b..c',
    'a@b\n',
    '<a@b>',
    `a@b${'.'.repeat(4_000_000)}`,
    long,
  ]) {
    t.type(emailProblem(email), 'string', JSON.stringify(email.slice(0, 300)))
  }
})

t.test('the paths of upgrade queries are no logins', async (t) => {
  for (const login of ['sdk', 'cosmos', 'Cosmos']) t.match(loginProblem(login), 'reserved')
})

t.test('a name is one line without control characters', async (t) => {
  for (const text of ['Ann', 'Ann Ä', '安', '😀', 'a\u200fb', '']) t.equal(textProblem(text), undefined)
  for (const code of [0, 0x0a, 0x0d, 0x1b, 0x7f, 0x85, 0x9b, 0x2028, 0x2029]) {
    t.type(textProblem(`a${String.fromCodePoint(code)}b`), 'string', code.toString(16))
  }
})
