import t from 'tap'
import { InvalidGitArgument } from '../../../src/git/process/errors.ts'
import {
  branchNameProblem,
  branchRef,
  checkedId,
  checkedRef,
  isObjectId,
  newBranchNameProblem,
  newRefProblem,
  refNameProblem,
} from '../../../src/git/refs/names.ts'
import { tryGit } from '../client.ts'

const PIECES = [
  'a',
  'b-c',
  '-',
  '.',
  '..',
  '/',
  '//',
  '@',
  '@{',
  '{',
  '}',
  '~',
  '^',
  ':',
  '?',
  '*',
  '[',
  ']',
  '\\',
  ' ',
  '\t',
  '\x01',
  '\x7f',
  '.lock',
  '.lockx',
  'lock',
  'HEAD',
  'ü',
  '漢字',
  '"',
  "'",
  '$',
  '%',
  '&',
  '(',
  '#',
  '!',
  '+',
  ',',
  ';',
  '<',
  '=',
  '|',
  '0123456789012345678901234567890123456789',
  'refs',
  'refs/heads',
]

/** Creates the same names on every run, so that a failure can be repeated. */
function someNames(count: number): string[] {
  let seed = 42
  const next = (below: number) => {
    seed = (Math.imul(seed, 1103515245) + 12345) & 0x7fffffff
    return Math.floor((seed / 0x80000000) * below)
  }
  const names = new Set(PIECES)
  while (names.size < count) {
    names.add(Array.from({ length: 1 + next(4) }, () => PIECES[next(PIECES.length)]).join(''))
  }
  return [...names]
}

t.test('a name is refused exactly when git check-ref-format refuses it', async (t) => {
  // git accepts a branch named @ and then reads it as HEAD. Mergelog refuses it, which is tested below.
  const names = someNames(220).filter((name) => name !== '@')
  const differing: string[] = []
  let refused = 0
  const workers = Array.from({ length: 4 }, async () => {
    for (let name = names.pop(); name !== undefined; name = names.pop()) {
      const branch = await tryGit('/', ['check-ref-format', '--branch', name])
      const note = await tryGit('/', ['check-ref-format', `refs/notes/${name}`])
      if ((branch.code === 0) !== (branchNameProblem(name) === undefined)) differing.push(`branch ${name}`)
      if ((note.code === 0) !== (refNameProblem(`refs/notes/${name}`) === undefined))
        differing.push(`ref ${name}`)
      if (branch.code !== 0) refused += 1
    }
  })
  await Promise.all(workers)
  t.same(differing, [])
  t.ok(refused > 50 && refused < 200, 'the sample has both good and bad names')
})

t.test(
  'names that git accepts but a file system, UTF-8 or a command line does not are refused',
  async (t) => {
    t.match(branchNameProblem('x'.repeat(251)), /longer than 250 bytes/)
    t.match(branchNameProblem('ü'.repeat(126)), /longer than 250 bytes/)
    t.equal(branchNameProblem('x'.repeat(250)), undefined)
    t.match(branchNameProblem(`${'a/'.repeat(500)}a`), /longer than 1000 bytes/)
    t.match(branchNameProblem('a\ud800b'), /not valid Unicode/)
    t.match(branchNameProblem('a\u0085b'), /control character/)
    t.match(branchNameProblem('a\0b'), /control character/)
    t.match(branchNameProblem('-force'), /begins with '-'/)
    t.match(refNameProblem('refs/tags/-d'), /begins with '-'/)
    t.match(refNameProblem('refs/heads/HEAD'), /git reserves/)
    t.match(refNameProblem('HEAD'), /refs\//)
    t.match(refNameProblem('refs/main'), /a branch, a tag/)
    t.match(refNameProblem('refs/heads/../../config'), /'\.\.'/)
    t.match(branchNameProblem('@'), /git reserves/)
    t.match(branchNameProblem(''), /empty/)
  },
)

t.test('a new branch or tag with a name that reads as a whole ref or as an id is refused', async (t) => {
  for (const name of ['refs/heads/main', 'refs/tags/v1', 'a'.repeat(40), 'A1'.repeat(20)]) {
    t.match(newBranchNameProblem(name), /refs\/|id of an object/, name)
    t.match(newRefProblem(`refs/heads/${name}`), /refs\/|id of an object/)
    t.match(newRefProblem(`refs/tags/${name}`), /refs\/|id of an object/)
    t.equal(branchNameProblem(name), undefined, 'one that is there can be used and deleted')
  }
  for (const name of ['HEAD', '@', '-x']) t.ok(newBranchNameProblem(name))
  for (const name of ['main', 'refs', 'a/refs/heads/b', 'a'.repeat(39)]) t.notOk(newBranchNameProblem(name))
  t.equal(newRefProblem(`refs/notes/${'a'.repeat(40)}`), undefined)
})

t.test('an object id is 40 lower-case digits and not the zero id', async (t) => {
  t.ok(isObjectId('4b825dc642cb6eb9a060e54bf8d69288fbee4904'))
  for (const text of [
    '',
    'HEAD',
    '0'.repeat(40),
    'A'.repeat(40),
    'a'.repeat(39),
    'a'.repeat(64),
    `${'a'.repeat(40)}\n`,
  ]) {
    t.notOk(isObjectId(text), JSON.stringify(text))
  }
})

t.test('a bad argument is an error that names the field and the reason', async (t) => {
  t.throws(() => branchRef('a..b'), new InvalidGitArgument('branch', "contains '..'"))
  t.throws(() => checkedRef('main'), new InvalidGitArgument('ref', 'does not begin with refs/'))
  t.throws(() => checkedId('--all'), { name: 'InvalidGitArgument', field: 'object id' })
  t.equal(branchRef('feature/x'), 'refs/heads/feature/x')
})
