import t from 'tap'
import { renderInThread } from '../../src/web/diff.ts'
import { diffFiles } from '../../src/web/diff-files.ts'
import { renderFiles } from '../../src/web/render-diff.ts'

const BOUNDS = { files: 10, lines: 100, characters: 80, nameCharacters: 100 }
const read = (text: string, bounds = BOUNDS, complete = true) => diffFiles(text, complete, bounds)

t.test('a line of a file is never parsed as the header of another file', (t) => {
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

t.test('file names are decoded, with quotes or without', (t) => {
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

t.test('files, lines and characters are limited, and a cut is reported', (t) => {
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
  t.ok(read(file('a').slice(0, -2), BOUNDS, false).cut, 'a cut text is reported too')
  t.strictSame(read(''), { files: [], cut: false })
  t.end()
})

const MANY = { files: 1000, lines: 10_000, characters: 400, nameCharacters: 1000 }

/** The diff of a file with `lines` changed lines in one place. */
const changed = (name: string, lines: number, deleted: string, added: string) =>
  `diff --git a/${name} b/${name}\n@@ -1,${lines} +1,${lines} @@\n${`-${deleted}\n`.repeat(lines)}${`+${added}\n`.repeat(lines)}`

t.test('changed words are marked, unless comparing them would take too long', async (t) => {
  const drawn = (lines: number, text: string) =>
    renderFiles(read(changed('x', lines, `${text} old`, `${text} new`), MANY).files)
  t.match(drawn(2, 'the <b>same</b>'), /the &lt;b&gt;same&lt;&#x2F;b&gt; <ins>new<\/ins>/)
  const long = drawn(1000, '!a?b'.repeat(60))
  t.notMatch(long, /<ins>|<del>/)
  t.match(long, 'new')
})

t.test('the costs of comparing are limited for all files together', async (t) => {
  const [deleted, added] = ['!?'.repeat(199), '+-'.repeat(199)]
  const many = Array.from({ length: 200 }, (_, i) => changed(`long-${i}`, 2, deleted, added))
  const small = changed('small', 1, 'the old word', 'the new word')
  const { files } = read([small, ...many, small].join(''), MANY)
  t.equal(files.length, 202)
  const markup = renderFiles(files)
  const sections = markup.split('</section>')
  const compared = sections.map((section) => /<ins>|<del>/.test(section))
  const times = compared.filter(Boolean).length
  // One long file has two pairs of lines with 398 signs: it takes more than half of the limit.
  t.ok(compared[0], 'the first file')
  t.strictSame(compared.indexOf(false), 2)
  t.notOk(compared.slice(2, 201).some(Boolean), 'beyond the limit, long lines have no marked words')
  t.ok(compared[201], 'a small file still fits into the limit')
  t.equal(times, 3)
  for (const section of sections.slice(0, 201)) t.match(section, /d2h-del/)
})

t.test('lines that are not compared count nothing towards the limit', async (t) => {
  const text = '!?'.repeat(199)
  const lines = `${`+${text}\n`.repeat(50)} context\n${`-${text}\n`.repeat(50)}`
  const alone = `diff --git a/alone b/alone\n@@ -1,51 +1,51 @@\n${lines}`
  const { files } = read(alone + changed('pair', 1, `${text}a`, `${text}b`), MANY)
  t.strictSame(
    files.map(({ addedLines, deletedLines }) => [addedLines, deletedLines]),
    [
      [50, 50],
      [1, 1],
    ],
  )
  t.match(renderFiles(files), /<ins>b<\/ins>/)
})

t.test('rendering any diff does not block the event loop', async (t) => {
  const odd = {
    'many short lines': '\n'.repeat(1_000_000),
    'lines that are compared': changed('x', 1000, `${'ab '.repeat(10)}old`, `${'ab '.repeat(10)}new`),
    'lines that are escaped': changed('x', 1000, '<&'.repeat(200), '&<'.repeat(200)),
  }
  const draw = (text: string) => renderInThread('anyone', { bytes: Buffer.from(text), complete: true })
  await draw('')
  for (const [what, text] of Object.entries(odd)) {
    let turns = 0
    const next = () => {
      turns += 1
      counter = setImmediate(next)
    }
    let counter = setImmediate(next)
    await draw(text)
    clearImmediate(counter)
    t.ok(turns >= 20, `${what}: ${turns} turns`)
  }
})

t.test('a long file name is cut', (t) => {
  const [made, moved] = ['x'.repeat(1000), 'y'.repeat(1000)]
  const { files } = read(
    `diff --git a/${made} b/${made}\n--- /dev/null\n+++ b/${made}\ndiff --git a/${made} b/${moved}\nrename from ${made}\nrename to ${moved}\n`,
  )
  const lengths = files.flatMap(({ oldName, newName }) => [oldName.length, newName.length])
  t.ok(Math.max(...lengths) <= BOUNDS.nameCharacters + 4, `${lengths}`)
  t.end()
})
