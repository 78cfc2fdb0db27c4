/** Hostile issue templates that would take long. */
import t from 'tap'
import { templateIn } from '../../../src/domain/markup/issue-templates.ts'
import { readTemplates } from '../../../src/domain/markup/template-reader.ts'

const HEAD = 'name: n\nabout: a\nbody: [{type: input}]\n'

t.test('hostile templates are skipped or parsed', async (t) => {
  const hostile = {
    brackets: '['.repeat(32_000),
    braces: '{a: '.repeat(8000),
    dashes: '- '.repeat(16_000),
    quotes: '"'.repeat(32_000),
    aliases: `a: &a [x]\n${'b: [*a, *a]\n'.repeat(900)}`,
    bomb: `a: &a [x,x,x,x,x,x,x,x]\n${Array.from('bcdefgh', (c, i) => `${c}: &${c} [${`*${'abcdefg'[i]},`.repeat(8)}]`).join('\n')}`,
  }
  const files = Object.entries(hostile).map(([name, text]) => ({ path: `${name}.yaml`, text }))
  const good = { path: 'good.yaml', text: HEAD }
  t.match(await readTemplates('account 1', { kind: 'templates', files: [...files, good] }), {
    kind: 'templates',
    templates: [{ name: 'n', file_name: 'good.yaml' }],
  })
  t.match(await readTemplates('account 1', { kind: 'config', text: hostile.brackets }), {
    kind: 'config',
    config: String,
  })
})

t.test('names of object prototypes are plain names', async (t) => {
  const text = `${HEAD.replace('{type: input}', '{type: input, attributes: {__proto__: {polluted: 1}}}')}`
  const template = templateIn('x.yaml', text)
  t.equal(template?.body.length, 1)
  t.notOk('polluted' in {})
})

t.test('Markdown without front matter is a template with the name of its file', async (t) => {
  t.match(templateIn('.gitea/ISSUE_TEMPLATE/plain.md', '# Title\n\nWords'), {
    name: 'plain.md',
    about: '# Title\n\nWords',
    content: '# Title\n\nWords',
  })
  t.equal(templateIn('.gitea/ISSUE_TEMPLATE/empty.md', ''), undefined)
})
