import t from 'tap'
import { drawnFile } from '../../src/ui/diff.ts'
import { diffFiles } from '../../src/ui/diff-files.ts'

const BOUNDS = { files: 10, lines: 100, characters: 80 }
const read = (text: string, bounds = BOUNDS, complete = true) => diffFiles(text, complete, bounds)

t.test('a line of a file never passes for the head of another one', (t) => {
  const { files, cut } = read(
    [
      'diff --git a/x b/x',
      '--- a/x',
      '+++ b/x',
      '@@ -1,2 +1,2 @@ function',
      '--- a/forged',
      '+++ b/forged',
      ' @@ -1 +1 @@\rdiff --git a/y b/y',
      '\\ No newline at end of file',
      '@@ -9 +9 @@',
      '-a',
      '+\\ No newline at end of file',
      '',
    ].join('\n'),
  )
  t.notOk(cut)
  t.match(files, [{ oldName: 'x', newName: 'x', addedLines: 2, deletedLines: 2 }])
  t.equal(files.length, 1)
  t.strictSame(
    files[0]?.blocks.map(({ lines }) => lines.map(({ content }) => content)),
    [
      ['--- a/forged', '+++ b/forged', ' @@ -1 +1 @@␍diff --git a/y b/y'],
      ['-a', '+\\ No newline at end of file'],
    ],
  )
  t.match(files[0]?.blocks[1]?.lines[0], { oldNumber: 9, newNumber: undefined })
  t.end()
})

t.test('names are read as they are, in quotes or not', (t) => {
  const { files } = read(
    [
      'diff --git "a/a\\tb \\303\\251.txt" "b/a\\tb \\303\\251.txt"',
      'new file mode 100644',
      '--- /dev/null',
      '+++ "b/a\\tb \\303\\251.txt"\t',
      '@@ -0,0 +1 @@',
      '+x',
      'diff --git a/old name b/new name',
      'similarity index 100%',
      'rename from old name',
      'rename to new name',
      'diff --git a/pic b/pic b/pic b/pic',
      'deleted file mode 100644',
      'Binary files a/pic b/pic and /dev/null differ',
      'diff --git "a/é\\"" "b/é\\""',
      'old mode 100644',
      'new mode 100755',
      '',
    ].join('\n'),
  )
  t.strictSame(
    files.map(({ oldName, newName }) => [oldName, newName]),
    [
      ['a\tb é.txt', 'a\tb é.txt'],
      ['old name', 'new name'],
      ['pic b/pic', 'pic b/pic'],
      ['é"', 'é"'],
    ],
  )
  t.match(files, [{ isNew: true }, { isRename: true }, { isDeleted: true, isBinary: true }, {}])
  t.end()
})

t.test('no more than the bounds is kept, and that there is more is said', (t) => {
  const file = (name: string) =>
    `diff --git a/${name} b/${name}\n@@ -0,0 +1,3 @@\n+${'x'.repeat(99)}\n+b\n+c\n`
  t.equal(read(file('a') + file('b')).cut, false)
  const lines = read(file('a') + file('b'), { ...BOUNDS, lines: 4 })
  t.ok(lines.cut)
  t.strictSame(
    lines.files.map(({ addedLines }) => addedLines),
    [3, 1],
  )
  const files = read(file('a') + file('b'), { ...BOUNDS, files: 1 })
  t.ok(files.cut)
  t.equal(files.files.length, 1)
  t.equal(files.files[0]?.blocks[0]?.lines[0]?.content, `+${'x'.repeat(79)} …`)
  t.ok(read(file('a').slice(0, -2), BOUNDS, false).cut, 'of a text that is cut')
  t.strictSame(read(''), { files: [], cut: false })
  t.end()
})

t.test('changed words are marked, unless comparing them would take long', (t) => {
  const drawn = (lines: number, text: string) => {
    const of = (sign: string, word: string) => `${sign}${text} ${word}\n`.repeat(lines)
    const hunk = `diff --git a/x b/x\n@@ -1,${lines} +1,${lines} @@\n${of('-', 'old')}${of('+', 'new')}`
    const bounds = { files: 1, lines: 10_000, characters: 400 }
    return read(hunk, bounds).files.map(drawnFile).join()
  }
  t.match(drawn(2, 'the <b>same</b>'), /the &lt;b&gt;same&lt;&#x2F;b&gt; <ins>new<\/ins>/)
  const long = drawn(1000, '!a?b'.repeat(60))
  t.notMatch(long, /<ins>|<del>/)
  t.match(long, 'new')
  t.end()
})
