import t from 'tap'
import { plainProse, referencesIn } from '../../../src/domain/markup/references.ts'
import { proseOf } from '../../../src/domain/markup/render.ts'

const site = 'https://git.example/base'
const shown = (text: string) =>
  referencesIn(text).map(
    ({ place, index, action }) => `${place ?? ''}#${index}${action === 'none' ? '' : ` ${action}`}`,
  )
const inBody = (prose: string) => shown(proseOf({ prose, site }))
const inTitle = (text: string) => shown(plainProse(text, site))

t.test("references and Gitea's closing keywords are found in plain texts", async (t) => {
  for (const word of [
    'close',
    'closes',
    'closed',
    'fix',
    'fixes',
    'fixed',
    'resolve',
    'resolves',
    'resolved',
  ]) {
    t.same(inTitle(`It ${word} #3`), ['#3 closes'])
    t.same(inTitle(`${word.toUpperCase()}: O/R#3.`), ['o/r#3 closes'])
  }
  for (const word of ['reopen', 'reopens', 'reopened']) t.same(inTitle(`(${word} !3)`), ['#3 reopens'])
  t.same(inTitle('fixes #1, #2 and (#3): #4'), ['#1 closes', '#2', '#3', '#4'])
  t.same(inTitle('prefixes #1, fixes  #2, fixes\n#3, fixes x#4, #0, ##5, a/b/c#6, #7x, # 8'), [
    '#1',
    '#2',
    '#3',
  ])
  t.same(inTitle('#1 and fixes #1, then #1'), ['#1 closes'], 'each once, with its keyword')
  t.same(inTitle('`fixes #1` and ` #2'), ['#2'], 'code is no reference')
  t.same(inTitle(`fixes ${site}/a/b/issues/3, ${site}/a/b/pulls/4#issuecomment-5`), ['a/b#3 closes', 'a/b#4'])
  t.same(inTitle(`${site}/a/b/pulls/4/files https://other.example/a/b/issues/3`), [])
  t.equal(inTitle(Array.from({ length: 99 }, (_, i) => `#${i + 1} `).join('')).length, 50)
})

t.test('code spans and blocks, HTML and link texts contain no references in Markdown', async (t) => {
  t.same(inBody('Fixes #1\n\n```\nfixes #2\n```\n\n    fixes #3\n\n`fixes #4` <!-- fixes #5 --> ``#6``'), [
    '#1 closes',
  ])
  t.same(inBody('**Fixes** #1 and _#2_\n\n- closes #3\n\n> #4'), ['#1 closes', '#2', '#3 closes', '#4'])
  t.same(inBody('fixes `it` #1'), ['#1'], 'a keyword is directly before its reference')
  t.same(inBody(`[x #1](#2) closes [it](${site}/a/b/issues/3), [c](/a/b/pulls/4)`), ['a/b#3 closes', 'a/b#4'])
  t.same(inBody(`closes ${site}/a/b/issues/3.`), ['a/b#3 closes'])
  t.same(inBody('[five](https://other.example/a/b/issues/204) ![#1](x)'), [])
})
